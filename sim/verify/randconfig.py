# SPDX-License-Identifier: Apache-2.0
"""Random legal configurations, for checks that must hold for every one."""

from __future__ import annotations

from typing import Final

import numpy as np

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig, Parameter

SMALL_MACS: Final = 128
"""Geometries above it take long to compile."""


def power(rng: np.random.Generator, low: int, high: int) -> int:
    """A random power of two from ``low`` to ``high``."""
    return int(2 ** rng.integers(low.bit_length() - 1, high.bit_length()))


def any_value(rng: np.random.Generator, parameter: Parameter) -> int:
    """A value in the range of a parameter (rules that span parameters may refuse it)."""
    if parameter.power_of_two:
        return power(rng, parameter.low, parameter.high)
    return int(rng.integers(parameter.low, parameter.high + 1))


def any_hwconfig(rng: np.random.Generator) -> HwConfig:
    """A legal configuration of a small array; every other parameter may have any legal value."""
    buffers = [p.name for p in PARAMETERS if p.name.endswith("_bytes")]
    while True:
        values = {p.name: any_value(rng, p) for p in PARAMETERS}
        values |= {name: power(rng, 1024, 65536) for name in buffers}
        if values["batch"] * values["block_in"] * values["block_out"] > SMALL_MACS:
            continue
        try:
            return HwConfig(name="random", **values)
        except ConfigError:
            continue
