# SPDX-License-Identifier: Apache-2.0
"""Costs of layers on cores of ours: what the twin counts, for the best of a few schedules."""

import math

import pytest

from tilewright.host.lowering import default_schedule, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import conv2d, dense, depthwise
from tilewright.sim.twin.device import Twin
from tilewright.tuner.multicore.analyse import shapes_of, twin_cost
from tilewright.tuner.multicore.core_cost import IMPOSSIBLE

TINY = load_hwconfig("tiny-4x4")
LAYERS = (
    conv2d("conv", 12, 8, 16, 3, 1, 1),
    dense("fc", 4, 64, 40),
    depthwise("depthwise", 10, 8, 3, 1, 1),
)


def counted(hw, workload, schedule):
    """Cycles and bytes of a schedule, lowered by the definition and not natively."""
    twin = Twin(hw, load_memory("ideal"))
    counters = twin.counters(lower(hw, workload, schedule).program).values
    twin.close()
    return counters["cycles"], counters["bytes_read"] + counters["bytes_written"]


def schedule_of(how):
    enums = {"loop_order": tuple(LoopOrder), "fusion": tuple(Fusion)}
    return Schedule(**{k: enums[k][v] if k in enums else v for k, v in how.items()})


@pytest.mark.parametrize("workload", LAYERS, ids=lambda w: w.name)
def test_tells_what_its_schedule_takes_and_beats_the_default(workload):
    cost = twin_cost(workload, TINY, 4)
    assert (cost.latency, cost.bytes) == counted(TINY, workload, schedule_of(cost.how))
    cycles, moved = counted(TINY, workload, default_schedule(TINY, workload))
    assert max(cost.latency, cost.bytes / 4) <= max(cycles, moved / 4)
    assert cost.shape == (4, 4)
    assert cost.gap is None


def test_a_narrow_link_takes_a_schedule_that_moves_less():
    workload = LAYERS[0]
    wide, narrow = (twin_cost(workload, TINY, link) for link in (1e3, 1e-3))
    assert wide.latency <= narrow.latency
    assert narrow.bytes <= wide.bytes
    assert (wide.latency, wide.bytes) != (narrow.latency, narrow.bytes)


def test_shapes_keep_the_multipliers_and_are_legal():
    shapes = [(hw.block_in, hw.block_out) for hw in shapes_of(load_hwconfig("pynq-16x16"))]
    assert shapes[0] == (16, 16)
    assert len(set(shapes)) == len(shapes) > 1
    assert {rows * columns for rows, columns in shapes} == {256}
    assert list(shapes_of(TINY)) == [TINY]  # no side may be shorter than 4


def test_a_flexible_core_takes_the_shape_that_suits_the_layer():
    workload, hw = dense("few_inputs", 32, 4, 128), load_hwconfig("edge-8x8")
    fixed = twin_cost(workload, hw, 1e3)
    flexible = twin_cost(workload, hw, 1e3, flexible=True)
    each = {(hw.block_in, hw.block_out): twin_cost(workload, hw, 1e3) for hw in shapes_of(hw)}
    assert flexible.latency == min(cost.latency for cost in each.values()) < fixed.latency
    assert flexible == each[flexible.shape]


def test_a_layer_without_a_legal_schedule_is_impossible():
    cost = twin_cost(conv2d("huge", 40, 4, 4, 39, 19, 1), TINY, 1)
    assert cost == IMPOSSIBLE
    assert math.isinf(cost.latency)
