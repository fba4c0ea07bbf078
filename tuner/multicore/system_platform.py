# SPDX-License-Identifier: Apache-2.0
"""A system of our hardware as the model sees it: a platform, and how its memory is regulated."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewright.host.machine.system_config import SystemConfig, SystemCore
from tilewright.tuner.multicore.allocation import Regulation
from tilewright.tuner.multicore.platform import Core, Platform


def platform_of(system: SystemConfig, *, clock_mhz: float, bandwidths: Sequence[float]) -> Platform:
    """The cores of a system; `ports_of` says behind which memory port each is."""
    return Platform(
        name=system.name,
        cores=tuple(Core(name=core.hw.name, hardware=core.hw) for core in system.cores),
        clock_mhz=clock_mhz,
        bandwidths=tuple(bandwidths),
    )


def ports_of(system: SystemConfig) -> tuple[int, ...]:
    """The memory port of each core, for `Instance.ports`: those that have cores, from 0.

    Example:
        >>> from tilewright.host.machine.system_config import load_system
        >>> ports_of(load_system("quad-mixed"))
        (0, 1, 0, 1)
    """
    used = sorted({core.port for core in system.cores})
    return tuple(used.index(core.port) for core in system.cores)


def regulation_of(system: SystemConfig, *, reads: bool = False) -> Regulation:
    """What weights and budgets of a system's registers mean in bytes.

    A turn is a number of bursts, so a weight counts as often as a burst has bytes. The model has
    one bucket for both directions: it gets both budgets, and no limit where a direction has none.

    Example:
        >>> from tilewright.host.machine.system_config import load_system
        >>> regulation_of(load_system("big-little")).window
        1024.0
    """
    return Regulation(
        window=float(system.window),
        budgets=tuple(_budget(core, reads=reads) for core in system.cores),
        weights=tuple(
            float(core.weight * core.hw.axi_burst_beats * core.hw.axi_bytes)
            for core in system.cores
        ),
    )


def _budget(core: SystemCore, *, reads: bool) -> float:
    beats = (core.read_budget,) if reads else (core.read_budget, core.write_budget)
    return math.inf if 0 in beats else float(sum(beats) * core.hw.axi_bytes)
