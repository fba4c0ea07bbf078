# SPDX-License-Identifier: Apache-2.0
"""What supports a clock: a bitstream that reached it, a static estimate, or nothing but a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Final

from tilewright.host.common.places import CONSTRAINTS_DIR
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.machine.bitstream import REACHED

ESTIMATES_FILE: Final = CONSTRAINTS_DIR / "timing" / "estimates.yaml"


class Provenance(Enum):
    """Where a clock comes from, the strongest first."""

    ROUTED = "routed"
    ESTIMATED = "estimated"
    PLANNED = "planned"


@dataclass(frozen=True, kw_only=True)
class ClockEstimate:
    """A static estimate of a named configuration, as `tilewright timing` made it.

    Attributes:
        cells_ns, short_ns, long_ns: the slowest path with wires of no delay, with short ones and
            with long ones (`sim.timing.estimate.WIRE_FACTORS`).
    """

    config: str  # name of the configuration
    config_hash: int  # of its parameters
    part: str  # device and speed grade, such as ``xc7z020-1``
    rtl: str  # digest of the RTL sources
    tool: str  # of the synthesis
    cells_ns: float
    short_ns: float
    long_ns: float

    @property
    def mhz(self) -> tuple[float, float]:
        """Lowest and highest clock that the estimate leaves possible."""
        return 1000 / self.long_ns, 1000 / self.short_ns

    def __str__(self) -> str:
        """The bracket as text."""
        low, high = self.mhz
        return f"{low:.0f} to {high:.0f} MHz"


@cache
def clock_estimates() -> tuple[ClockEstimate, ...]:
    """The recorded estimates."""
    rows = read_yaml_mapping(ESTIMATES_FILE, "estimates of clocks")["configurations"]
    return tuple(ClockEstimate(**row) for row in rows)


def clock_estimate(part: str, config_hash: int) -> ClockEstimate | None:
    """The recorded estimate of a configuration on a board's part; None: nobody made one."""
    return next(
        (
            row
            for row in clock_estimates()
            if row.config_hash == config_hash and _same_part(row.part, part)
        ),
        None,
    )


def _same_part(estimated: str, part: str) -> bool:
    """Whether ``xc7z020clg400-1`` is the device and speed grade ``xc7z020-1``."""
    device, _, grade = estimated.partition("-")
    return part.startswith(device) and part.endswith(f"-{grade}")


def provenance(
    clock_mhz: float, sources: Mapping[str, str], estimate: ClockEstimate | None
) -> Provenance:
    """What supports a clock: a bitstream, an estimate whose long wires still reach it, or none."""
    if str(sources.get("clock_mhz", "")).startswith(REACHED):
        return Provenance.ROUTED
    if estimate is not None and clock_mhz <= estimate.mhz[0]:
        return Provenance.ESTIMATED
    return Provenance.PLANNED


def clock_text(
    part: str, clock_mhz: float, sources: Mapping[str, str], config_hash: int | None = None
) -> str:
    """A clock with what supports it, as every millisecond is told.

    Args:
        part: of the board.
        clock_mhz: the clock.
        sources: of the board's figures.
        config_hash: of the configuration that runs there; None: any.
    """
    estimate = None if config_hash is None else clock_estimate(part, config_hash)
    found = provenance(clock_mhz, sources, estimate)
    if found is Provenance.ROUTED:
        return f"{clock_mhz:g} MHz, {REACHED} a bitstream"
    word = "an estimated" if found is Provenance.ESTIMATED else "a planned"
    return f"{word} {clock_mhz:g} MHz ({_support(part, estimate)})"


def _support(part: str, estimate: ClockEstimate | None) -> str:
    """What is known beside a clock that no bitstream reached."""
    if estimate is not None:
        return f"static estimate of this configuration: {estimate}"
    others = [row.mhz for row in clock_estimates() if _same_part(row.part, part)]
    if not others:
        return "no estimate for this part"
    low, high = min(low for low, _ in others), max(high for _, high in others)
    return f"static estimates of others on this part: {low:.0f} to {high:.0f} MHz"
