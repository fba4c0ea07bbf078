# SPDX-License-Identifier: Apache-2.0
"""The closed-form estimate against arithmetic that can be done by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tilewright.host.lowering import lower
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.lowering.program_builder import ProgramBuilder
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import Memory, Opcode
from tilewright.host.network.schedule import LoopOrder, Schedule
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.estimate import Estimator

HW = load_hwconfig("pynq-16x16")
IDEAL = load_memory("ideal")
IDEAL_WIDE = replace(IDEAL, read_bytes_per_cycle=64.0)
LAYER = conv2d("c", 28, 128, 128, 3, 1, 1)


def cycles(schedule: Schedule, *, memory: str = "ideal") -> int:
    return Estimator(HW, load_memory(memory)).cycles(lower(HW, LAYER, schedule).program)


def good(**changes: int) -> Schedule:
    values = {"tile_h": 2, "tile_w": 28, "tile_ci": 8, "tile_co": 2, "h_threading": 2, **changes}
    return Schedule(loop_order=LoopOrder.WEIGHT_STATIONARY, **values)  # type: ignore[arg-type]


def test_never_goes_below_the_bound() -> None:
    assert cycles(good()) >= bound(HW, LAYER, IDEAL).cycles


def test_a_compute_bound_schedule_with_latency_hiding_comes_near_its_bound() -> None:
    assert cycles(good()) < 1.1 * bound(HW, LAYER, IDEAL).cycles


def test_serial_schedules_cost_their_loads_on_top() -> None:
    serial = good(h_threading=1)
    loads = lower(HW, LAYER, serial).bytes_read // HW.axi_bytes
    assert cycles(serial) > cycles(good()) + loads // 4


@pytest.mark.parametrize(("bits", "cycles_more"), [(64, 2 * 64), (128, 64), (256, 64), (512, 64)])
def test_a_diagonal_costs_its_beats_and_at_least_a_cycle(bits: int, cycles_more: int) -> None:
    hw = HW.with_(axi_data_bits=bits)

    def load(tiles: int) -> int:
        builder = ProgramBuilder(hw)
        shape = {"x_size": tiles, "y_size": 1, "z_size": 1, "memory": Memory.WGT, "diagonal": 1}
        builder.emit(Opcode.LOAD, shape)
        return Estimator(hw, IDEAL_WIDE).cycles(builder.finish({"data": 65536}, {}))

    assert load(128) - load(64) == cycles_more


@pytest.mark.parametrize("memory", ["pynq-z2", "zcu104"])
def test_a_slower_memory_never_helps(memory: str) -> None:
    assert cycles(good(), memory=memory) >= cycles(good())
