# SPDX-License-Identifier: Apache-2.0
"""The cost of a layer on a core that is a configuration of ours: counted by the twin, no model.

The schedules of VTA's space, in every loop order, are ranked by the closed form of `LayerModel`.
The best few, and the default, run on the twin behind a memory that never waits.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Final

import numpy as np

from tilewright.host.common.errors import ConfigError, ProgramError, ScheduleError
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import LoopOrder, Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.twin.device import COUNTER_NAMES, Refusal, Twin
from tilewright.sim.twin.library import CSchedule
from tilewright.sim.twin.native_lowering import NativeLowering, Points, encode_schedules
from tilewright.tuner.multicore.core_cost import IMPOSSIBLE, CoreCost
from tilewright.tuner.schedule.layer_model import LayerModel
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.space_prior import schedule_points
from tilewright.tuner.schedule.spaces import ScheduleSpace

MEASURED: Final = 16
"""Schedules that run on the twin, the default besides."""

RANKED: Final = 20_000
"""Schedules of a larger space that are ranked."""

_COLUMNS: Final = tuple(name for name, _ in CSchedule._fields_)
_ORDER: Final = _COLUMNS.index("loop_order")
_READ, _WRITTEN = (COUNTER_NAMES.index(name) for name in ("bytes_read", "bytes_written"))


def twin_cost(workload: Workload, hw: HwConfig, link: float, *, flexible: bool = False) -> CoreCost:
    """The cost of a layer on a configuration, with the best of a few schedules.

    Args:
        workload: the layer.
        hw: the core.
        link: bytes per cycle of DRAM; the best schedule is that of the least cycles and, where it
            moves more than that, of the least bytes.
        flexible: the array may have any legal shape of as many multipliers; the best counts.
    """
    memory = load_memory("ideal")
    configs = tuple(shapes_of(hw)) if flexible else (hw,)
    return min(
        (_cost(workload, each, memory, link) for each in configs),
        key=lambda cost: (max(cost.latency, cost.bytes / link), cost.latency),
    )


def shapes_of(hw: HwConfig) -> Iterator[HwConfig]:
    """The configuration and all others that differ in the array's shape alone."""
    yield hw
    pes = hw.block_in * hw.block_out
    block_in = 1
    while block_in <= pes:
        if block_in != hw.block_in:
            with contextlib.suppress(ConfigError):  # no legal shape
                yield hw.with_(block_in=block_in, block_out=pes // block_in)
        block_in *= 2


def _cost(workload: Workload, hw: HwConfig, memory: MemoryModel, link: float) -> CoreCost:
    try:
        points = np.concatenate(
            [encode_schedules([default_schedule(hw, workload)]), _promising(workload, hw, memory)]
        )
    except (ProgramError, ScheduleError):
        return IMPOSSIBLE
    twin, lowering = Twin(hw, memory), NativeLowering(hw, workload)
    try:
        ran = twin.batch(lowering, points)
    finally:
        lowering.close()
        twin.close()
    counted = (ran.rules == 0) & (ran.refusals == Refusal.NONE)
    if not counted.any():
        return IMPOSSIBLE
    moved = ran.counters[:, [_READ, _WRITTEN]].sum(axis=1)
    at_link = np.where(counted, np.maximum(ran.cycles, moved / link), np.inf)
    best = int(np.lexsort((ran.cycles, at_link))[0])
    return CoreCost(
        latency=float(ran.cycles[best]),
        bytes=float(moved[best]),
        shape=(hw.block_in, hw.block_out),
        how=dict(zip(_COLUMNS, points[best].tolist(), strict=True)),
    )


def _promising(workload: Workload, hw: HwConfig, memory: MemoryModel) -> Points:
    """The legal schedules that the closed form predicts to be fastest, int32 ``[n, 9]``."""
    space = ScheduleSpace(workload, hw, host_rules(), "vta")
    sizes = tuple(len(knob) for knob in space.knobs)
    flat = np.arange(space.raw_size)
    if len(flat) > RANKED:
        flat = np.sort(np.random.default_rng(0).choice(space.raw_size, RANKED, replace=False))
    points = schedule_points(space.knobs, np.stack(np.unravel_index(flat, sizes), axis=1))
    orders = encode_schedules(
        Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1, loop_order=order) for order in LoopOrder
    )[:, _ORDER]
    points = np.repeat(points, len(orders), axis=0)
    points[:, _ORDER] = np.tile(orders, len(points) // len(orders))
    model = LayerModel(hw, workload, memory)
    points = points[model.within(points)]
    points = points[model.legal(points)]
    return points[np.argsort(model.predict(points).cycles, kind="stable")[:MEASURED]]
