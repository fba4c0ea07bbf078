# SPDX-License-Identifier: Apache-2.0
"""An analytic accelerator for tuner tests: instant, deterministic, with known optima.

It shares nothing with the real lowering or the RTL; a tuner cannot tell the difference.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence

from tilewright.host.lowering import Legality
from tilewright.host.lowering.cycle_bound import Bound
from tilewright.host.machine.area import Area, Fit
from tilewright.host.machine.board import Board, CpuModel, MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload, conv2d
from tilewright.tuner.schedule.rules import Rules
from tilewright.tuner.schedule.spaces import JointPoint

MEMORY = MemoryModel(
    name="test", read_latency=10, write_latency=10, read_bytes_per_cycle=8, write_bytes_per_cycle=8
)
BOARD = Board(
    name="test-board",
    part="none",
    lut=50_000,
    ff=100_000,
    bram36=140,
    dsp=220,
    clock_mhz=100,
    axi_data_bits=64,
    axi_burst_beats=16,
    coherent=False,
    memory=MEMORY,
    cpu=CpuModel(
        name="test",
        macs_per_second=1e9,
        bytes_per_second=1e9,
        call_seconds=1e-5,
        contiguous_bytes=1 << 28,
    ),
    sources={"clock_mhz": "chosen for tests"},
)
BASE = HwConfig(name="base")
SMALL = conv2d("S", 6, 32, 32, 3, 1, 1, count=2)
TASKS = (
    conv2d("A", 14, 64, 64, 3, 1, 1, count=2),
    conv2d("B", 14, 64, 128, 1, 0, 2),
    conv2d("C", 7, 128, 128, 3, 1, 1, count=3),
)


def blocks(hw: HwConfig, workload: Workload) -> tuple[int, int]:
    return -(-workload.channels_in // hw.block_in), -(-workload.channels_out // hw.block_out)


def legal(hw: HwConfig, workload: Workload, s: Schedule) -> Legality:
    copies = s.h_threading * s.oc_threading
    rows = (s.tile_h - 1) * workload.stride_h + workload.kernel_h
    columns = (s.tile_w - 1) * workload.stride_w + workload.kernel_w
    if s.tile_b * rows * columns * s.tile_ci * copies > hw.inp_depth // 4:
        return Legality(ok=False, rule="inp", detail="too many input tiles")
    if s.tile_b * s.tile_h * s.tile_w * s.tile_co * copies > hw.acc_depth // 4:
        return Legality(ok=False, rule="acc", detail="too many accumulators")
    return Legality(ok=True)


def default_schedule(hw: HwConfig, workload: Workload) -> Schedule:
    del hw, workload
    return Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1)


def bound(hw: HwConfig, workload: Workload, memory: MemoryModel) -> Bound:
    del memory
    ci, co = blocks(hw, workload)
    pixels = workload.n * workload.out_height * workload.out_width
    cycles = pixels * ci * co * workload.kernel_h * workload.kernel_w
    return Bound(
        cycles=cycles,
        limiter="mac",
        mac_cycles=cycles,
        vector_cycles=0,
        read_bytes=0,
        write_bytes=0,
    )


def estimate(hw: HwConfig) -> Area:
    bram = math.ceil((hw.inp_bytes + hw.wgt_bytes + hw.acc_bytes + hw.out_bytes) / 4096)
    return Area(lut=10 * hw.macs_per_cycle, ff=1, bram36=bram, dsp=hw.macs_per_cycle // 2)


def fits(hw: HwConfig, board: Board) -> Fit:
    area = estimate(hw)
    ok = area.bram36 <= board.bram36 and area.dsp <= board.dsp
    text = f"BRAM36 {area.bram36} of {board.bram36}, DSP {area.dsp} of {board.dsp}"
    return Fit(ok=ok, text=text, area=area)


def prior(hw: HwConfig, workload: Workload, memory: MemoryModel) -> Callable[[Schedule], float]:
    """A prior that knows the trend and not the ruggedness."""
    ideal = bound(hw, workload, memory).cycles
    return lambda s: ideal * (1 + 1 / s.tile_h + 1 / s.tile_w)


def joint_prior(
    configs: Sequence[HwConfig], workload: Workload, memory: MemoryModel
) -> Callable[[JointPoint], float]:
    """`prior` on the configuration of each point."""
    del configs
    return lambda point: prior(point.hw, workload, memory)(point.schedule)


RULES = Rules(
    legal=legal,
    default_schedule=default_schedule,
    bound=bound,
    estimate=estimate,
    fits=fits,
    channel_blocks=blocks,
    prior=prior,
    joint_prior=joint_prior,
    ranks=False,
)


def cycles_of(hw: HwConfig, workload: Workload, s: Schedule) -> int:
    """Smooth in every knob, optimum at large tiles with two threads, plus a little ruggedness."""
    ideal = bound(hw, workload, MEMORY).cycles
    ci, co = blocks(hw, workload)
    waste = (
        (workload.out_height / s.tile_h) * 0.05
        + (workload.out_width / s.tile_w) * 0.05
        + (ci / s.tile_ci) * 0.1
        + (co / s.tile_co) * 0.1
        + (0.3 if s.h_threading * s.oc_threading == 1 else 0.0)
        + (0.1 if s.loop_order.value == "weight" else 0.0)
        + (0.05 if s.fusion.value == "tile" else 0.0)
    )
    text = f"{hw.config_hash}{workload.key}{s}"
    rugged = hashlib.sha256(text.encode()).digest()[0] / 255 * 0.02
    return int(ideal * (1 + waste + rugged)) + 100
