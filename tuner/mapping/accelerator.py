# SPDX-License-Identifier: Apache-2.0
"""Tilewright's own accelerator as an architecture, and its schedules as mappings.

The scratchpads are L2. A column of the array sums over input channels, so input channels lie across
clusters and output channels along a cluster. A PE keeps nothing: each cycle it takes a weight, an
input and a sum from the scratchpads.
"""

from __future__ import annotations

from typing import Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import LoopOrder, Schedule
from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.mapping import Level, Mapping
from tilewright.tuner.mapping.nest import LoopNest

_SUM_BYTES: Final = 4
_SLOTS: Final = 2
"""Tiles of a streamed operand that a scratchpad holds, where there are virtual threads."""


def accelerator_architecture(hw: HwConfig, memory: MemoryModel) -> Architecture:
    """The accelerator of a configuration, as far as the model can say it.

    A PE tile is one multiply-accumulate, for which a PE has two copies of a weight, an input and a
    sum. DRAM moves a bus word per cycle; the accelerator has a channel in each direction, the model
    has both together. Prices of energy are those of Horowitz, ISSCC 2014 (45 nm), over 0.3 pJ for
    an 8-bit multiply and a 32-bit add: 2.5 pJ per byte of a 32 KB SRAM, 162 pJ per byte of DRAM.
    Registers are assumed to take 0.03 pJ per byte.
    """
    if hw.batch != 1:
        raise ConfigError(
            "must be 1: a mapping has no loop over images", field=f"{hw.name}.batch", value=hw.batch
        )
    sums = hw.block_out * _SUM_BYTES
    return Architecture(
        name=f"tilewright-{hw.name}",
        pes=hw.block_in * hw.block_out,
        max_clusters=hw.block_in,
        max_cluster_size=hw.block_out,
        l1_bytes=2 * (1 + 1 + _SUM_BYTES),
        l2_bytes=hw.inp_bytes + hw.wgt_bytes + hw.acc_bytes,
        noc_bytes_per_cycle=hw.block_in * hw.block_out + hw.block_in + sums,
        dram_bytes_per_cycle=min(hw.axi_bytes, memory.read_bytes_per_cycle),
        outer_parallel="C",
        inner_parallel="K",
        l1_energy=0.1,
        l2_energy=8.3,
        dram_energy=540,
    )


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
