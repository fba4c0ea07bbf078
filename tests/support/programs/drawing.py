# SPDX-License-Identifier: Apache-2.0
"""Random legal configurations, workloads and schedules."""

import functools

import numpy as np
from support.randomness import generator

from tilewright.host.common.errors import WorkloadError
from tilewright.host.lowering import legal
from tilewright.host.lowering.geometry import geometry
from tilewright.host.machine.hwconfig import RULES, HwConfig
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Kind, Workload
from tilewright.sim.verify.randconfig import any_hwconfig

MAX_MACS = 400_000
"""Work of a random layer: keeps a run on the smallest array below a second."""
_compiled = functools.cache(lambda expression: compile(expression, "a rule", "eval"))


def holds(rule, values) -> bool:
    """Whether a rule of `RULES` holds for parameter values that may be illegal."""
    return bool(eval(_compiled(rule.expression), {"__builtins__": {}}, dict(values)))


def broken_rules(values) -> set[str]:
    """Names of the rules that parameter values break."""
    return {rule.name for rule in RULES if not holds(rule, values)}


def any_built(number: int, rng: np.random.Generator) -> HwConfig:
    """A random configuration to simulate.

    Number 0, the only one of a fast run, is the same in all tests of a run: it is built once.
    """
    return any_hwconfig(rng if number else generator("configuration of the run"))


def any_workload(rng, hw: HwConfig) -> Workload:
    """A small layer of any shape, with channels around multiples of the blocks."""

    def one_of(*values: int) -> int:
        return int(rng.choice(values))

    def channels(block: int) -> int:
        return max(1, block * one_of(1, 1, 2, 3) + one_of(-1, 0, 0, 1))

    while True:
        kind = Kind.DEPTHWISE if rng.random() < 0.2 else Kind.CONV2D
        channels_in = 3 if rng.random() < 0.2 else channels(hw.block_in)
        dense = rng.random() < 0.2
        sides = {
            "height": int(rng.integers(1, 12)),
            "width": 1 if dense else int(rng.integers(1, 12)),
        }
        window = (
            {}
            if dense
            else {
                "kernel_h": one_of(1, 2, 3, 3, 5),
                "kernel_w": one_of(1, 2, 3, 3, 5, 7),
                **{
                    f"{what}_{axis}": one_of(1, 1, 2, 3)
                    for what in ("stride", "dilation")
                    for axis in "hw"
                },
                **{
                    f"pad_{side}": one_of(0, 1, 1, 2, 3)
                    for side in ("top", "bottom", "left", "right")
                },
            }
        )
        narrow = hw.int4_weights and kind is Kind.CONV2D and rng.random() < 0.5
        try:
            workload = Workload(
                name="random",
                kind=kind,
                n=one_of(1, 1, hw.batch, hw.batch + 1),
                channels_in=channels_in,
                channels_out=channels_in if kind is Kind.DEPTHWISE else channels(hw.block_out),
                relu=bool(rng.integers(2)),
                residual=bool(rng.integers(2)),
                weight_bits=4 if narrow else 8,
                chained=bool(rng.integers(2)),
                **sides,
                **window,
            )
        except WorkloadError:
            continue
        if workload.macs <= MAX_MACS:
            return workload


def any_schedule(rng, hw: HwConfig, workload: Workload, *others: HwConfig) -> Schedule | None:
    """A schedule that is legal on every given configuration; None when none was found."""

    def tile(extent: int) -> int:
        return int(rng.integers(1, extent + 1))

    shape = geometry(hw, workload)
    blocks_in = 1 if shape.depthwise else shape.reduce_blocks
    unit = shape.tile_ci_unit
    for _ in range(100):
        schedule = Schedule(
            tile_b=tile(-(-workload.n // hw.batch)),
            tile_h=tile(workload.out_height),
            tile_w=tile(workload.out_width),
            tile_ci=min(tile(-(-blocks_in // unit)) * unit, blocks_in),
            tile_co=tile(-(-workload.channels_out // hw.block_out)),
            h_threading=tile(2),
            oc_threading=tile(2),
            loop_order=list(LoopOrder)[tile(len(LoopOrder)) - 1],
            fusion=list(Fusion)[tile(len(Fusion)) - 1],
        )
        if all(legal(each, workload, schedule).ok for each in (hw, *others)):
            return schedule
    return None


def any_layer(rng, hw: HwConfig, *others: HwConfig) -> tuple[Workload, Schedule]:
    """A workload with a schedule that is legal on every given configuration."""
    while True:
        workload = any_workload(rng, hw)
        schedule = any_schedule(rng, hw, workload, *others)
        if schedule is not None:
            return workload, schedule
