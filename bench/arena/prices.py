# SPDX-License-Identifier: Apache-2.0
"""What a search costs: core-seconds of the tuner plus what its measurements cost.

A price is linear: so many seconds per trial, and so many per measured cycle. Prices of simulators
are recorded measurements of this repository. That of a board is an assumption and says so, so every
comparison also states its break-even price, which holds whatever a trial costs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, kw_only=True)
class Price:
    """What a measurement costs.

    Attributes:
        seconds_per_trial: lowering, memory image, dispatch, comparison.
        seconds_per_cycle: of the accelerator, while it runs or is simulated.
        source: where the figures come from.
    """

    seconds_per_trial: float
    seconds_per_cycle: float
    source: str

    def of(self, trials: int, measured_cycles: int) -> float:
        """Seconds of some measurements."""
        return trials * self.seconds_per_trial + measured_cycles * self.seconds_per_cycle


PRICES: Final[Mapping[str, Price]] = {
    "rtl": Price(
        seconds_per_trial=0.005,
        seconds_per_cycle=1 / 736_872,
        source="docs/explanation/measurement.md: full RTL, assertions off, 736,872 cycles per CPU "
        "second; docs/results/scaling.md: median of lowering, image, transfer and comparison. "
        "Builds of the simulators (seconds per configuration, shared by all) are not included",
    ),
    "twin": Price(
        seconds_per_trial=1 / 200,
        seconds_per_cycle=0.0,
        source="measured with native lowering on the memory of pynq-z2: 95 to 1,000 schedules per "
        "CPU second, about 200 on the layers that take most of the time",
    ),
    "board": Price(
        seconds_per_trial=0.5,
        seconds_per_cycle=10e-9,
        source="assumed, no board was at hand: half a second of upload, reset and read-back "
        "per trial, 100 MHz; bitstreams (hours per configuration) are not included",
    ),
}
"""Core-seconds, or board-seconds, of one measurement."""


def break_even(
    overhead: float, trials: float, other_overhead: float, other_trials: float
) -> float | None:
    """Seconds per trial above which a tuner of fewer trials and more overhead is cheaper.

    0 when it is cheaper at any price, None when no price is high enough.
    """
    saved = other_trials - trials
    extra = overhead - other_overhead
    if extra <= 0 and saved >= 0:
        return 0.0
    if saved <= 0:
        return None
    return extra / saved
