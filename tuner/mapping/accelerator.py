# SPDX-License-Identifier: Apache-2.0
"""Schedules of Tilewright's own accelerator as mappings."""

from __future__ import annotations

from typing import Final

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import LoopOrder, Schedule
from tilewright.tuner.mapping.mapping import Level, Mapping
from tilewright.tuner.mapping.nest import LoopNest

_SLOTS: Final = 2
"""Tiles of a streamed operand that a scratchpad holds, where there are virtual threads."""


def mapping_of_schedule(hw: HwConfig, nest: LoopNest, schedule: Schedule) -> Mapping:
    """What a schedule does, as a mapping.

    Virtual threads make one larger tile: the tiles of a group share what they load. A resident
    operand is written as a tile with the whole reduction, which the scratchpad holds of it. With
    threads a streamed operand has two slots, so two tiles that take turns stay: all weights, or the
    inputs of an output tile. They are written as one.
    """
    k, c, y, x, r, s = nest.sizes
    lanes = -(-c // hw.block_in)
    steps = -(-lanes // schedule.tile_ci)
    tile_k, tile_c = schedule.tile_co * hw.block_out, schedule.tile_ci
    tiles_k, tiles_y = -(-k // tile_k), -(-y // schedule.tile_h)
    groups_k = -(-tiles_k // schedule.oc_threading)
    tile_k *= schedule.oc_threading
    if schedule.loop_order is not LoopOrder.OUTPUT_STATIONARY:
        tile_c = lanes
    elif schedule.h_threading * schedule.oc_threading > 1:
        if tiles_k * steps <= _SLOTS:
            tile_k, tile_c = k, lanes
        elif steps <= _SLOTS and min(schedule.h_threading, tiles_y) == 1 and groups_k > 1:
            tile_c = lanes
    outer = Level(
        tile=(
            min(k, tile_k),
            min(lanes, tile_c),
            min(y, schedule.tile_h * schedule.h_threading),
            min(x, schedule.tile_w),
            r,
            s,
        ),
        order="KYXCRS" if schedule.loop_order is LoopOrder.WEIGHT_STATIONARY else "YXKCRS",
        parallel="C",
    )
    inner = Level(tile=(1, 1, 1, 1, 1, 1), order="KYXCRS", parallel="K")
    return Mapping(outer=outer, inner=inner, clusters=hw.block_in, cluster_size=hw.block_out)
