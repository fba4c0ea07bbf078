# SPDX-License-Identifier: Apache-2.0
"""Costs of layers on described cores: certified, frugal, and of any shape where that is allowed."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from tilewright.host.lowering import default_schedule, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import conv2d, dense, depthwise
from tilewright.sim.twin.device import Twin
from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.exact import best_mapping
from tilewright.tuner.mapping.mapping import mapping_from
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest, NestKind
from tilewright.tuner.multicore.analyse import shapes_of, twin_cost
from tilewright.tuner.multicore.core_cost import IMPOSSIBLE, SLACK, STEP, mapped_cost

CORE = Architecture(
    name="small",
    pes=16,
    max_clusters=4,
    max_cluster_size=4,
    l1_bytes=24,
    l2_bytes=512,
    noc_bytes_per_cycle=16,
    dram_bytes_per_cycle=1,
    outer_parallel="KY",
    inner_parallel="CX",
    l1_energy=1,
    l2_energy=1,
    dram_energy=1,
)
NESTS = (
    LoopNest(name="fc", sizes=(24, 32, 1, 1, 1, 1)),
    LoopNest(name="rows", sizes=(16, 24, 8, 1, 1, 1)),
    LoopNest(name="conv", sizes=(8, 6, 7, 7, 3, 3)),
    LoopNest(name="depthwise", kind=NestKind.DEPTHWISE, sizes=(1, 12, 7, 7, 3, 3)),
)


def at(nest, arch, link, batch):
    """Cycles without stalls, bytes, and cycles at a link, of the legal rows of a batch."""
    free = CostModel(nest, replace(arch, dram_bytes_per_cycle=1e12)).costs(batch)
    tied = CostModel(nest, replace(arch, dram_bytes_per_cycle=float(link))).costs(batch)
    moved = sum(free[f"dram_{tensor}_bytes"] for tensor in ("weight", "input", "output"))
    legal = free.legal
    return free["cycles"][legal], moved[legal], tied["cycles"][legal]


@pytest.mark.parametrize("link", [0.5, 2.0, 16.0])
@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
def test_is_as_fast_as_the_certified_best_mapping_and_told_as_it_is(nest, link):
    cost = mapped_cost(nest, CORE, link)
    best = best_mapping(nest, replace(CORE, dram_bytes_per_cycle=link), Objective.LATENCY)
    assert cost.gap == 0
    mapping = mapping_from(cost.how)
    (latency,), (moved,), _ = at(nest, CORE, link, mapping.row()[None])
    assert (cost.latency, cost.bytes) == (latency, moved)
    assert cost.shape == (mapping.clusters, mapping.cluster_size)
    assert cost.tile_bytes <= CORE.l2_bytes / CORE.buffers
    assert max(latency, moved / link) <= best.value * (1 + SLACK)
    assert latency >= nest.macs / CORE.pes


def a_step_less(cost, best, link):
    """Cycles and bytes that no mapping keeps to: one of both is a step below the cost's."""
    cycles = best * (1 + SLACK)
    less = 1e-9 + 1 / STEP
    if cost.bytes > cost.latency * link:
        return cost.latency * less, cycles * link
    return cycles, cost.bytes * less


@pytest.mark.parametrize("link", [0.05, 0.5, 4.0, 16.0])
@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
def test_it_is_certified_that_no_mapping_does_as_well_with_a_step_less(nest, link):
    best = best_mapping(nest, replace(CORE, dram_bytes_per_cycle=link), Objective.LATENCY).value
    cycles, moved = a_step_less(mapped_cost(nest, CORE, link), best, link)
    slower = replace(CORE, dram_bytes_per_cycle=float(moved / cycles))
    assert best_mapping(nest, slower, Objective.LATENCY).value > cycles * (1 - 1e-6)


FLAT = (
    LoopNest(name="fc", sizes=(4, 6, 1, 1, 1, 1)),
    LoopNest(name="outputs", sizes=(6, 1, 4, 1, 1, 1)),
    LoopNest(name="strided", sizes=(1, 6, 5, 1, 1, 1), stride_y=2),
)
"""Nests of two loops, few enough mappings to try them all."""


def all_mappings(nest):
    """Every mapping of a nest of two loops; loops of one iteration have no order."""
    first, second = (d for d, size in enumerate(nest.sizes) if size > 1)
    rest = [d for d in range(6) if d not in (first, second)]
    orders = [[first, second, *rest], [second, first, *rest]]
    tiles = [
        [(outer, inner) for outer in range(1, nest.sizes[d] + 1) for inner in range(1, outer + 1)]
        for d in (first, second)
    ]
    rows = []
    for (outer1, inner1), (outer2, inner2) in itertools.product(*tiles):
        outer, inner = [1] * 6, [1] * 6
        outer[first], inner[first], outer[second], inner[second] = outer1, inner1, outer2, inner2
        for choice in itertools.product(orders, orders, "KY", "CX", range(1, 5), range(1, 5)):
            order2, order1, parallel2, parallel1, clusters, size = choice
            parallels = (DIMENSIONS.index(parallel2), DIMENSIONS.index(parallel1))
            rows.append([*outer, *inner, *order2, *order1, *parallels, clusters, size])
    return np.array(rows, dtype=np.int32)


@pytest.mark.parametrize("nest", FLAT, ids=lambda nest: nest.name)
def test_none_of_all_mappings_does_as_well_with_a_step_less(nest):
    batch = all_mappings(nest)
    seen = set()
    for link in (0.25, 1.0, 4.0, 64.0):
        cost = mapped_cost(nest, CORE, link)
        _, _, times = at(nest, CORE, link, batch)
        seen.add(cost.bytes > cost.latency * link)
        cycles, moved = a_step_less(cost, times.min(), link)
        _, _, with_less = at(nest, CORE, moved / cycles, batch)
        assert with_less.min() > cycles * (1 - 1e-6), link
    assert seen == {True, False}


def test_a_slow_memory_does_not_make_the_core_slow():
    nest = NESTS[2]
    first = best_mapping(nest, replace(CORE, dram_bytes_per_cycle=0.5), Objective.LATENCY)
    (latency,), _, _ = at(nest, CORE, 0.5, first.mapping.row()[None])
    assert mapped_cost(nest, CORE, 0.5).latency < latency


def aligned_shapes(nest, pes):
    """Shapes whose sides divide the loops that may lie along them."""
    k, c, y, x, _, _ = nest.sizes
    rows = {d for size in (k, y) for d in range(1, size + 1) if size % d == 0}
    columns = {d for size in (c, x) for d in range(1, size + 1) if size % d == 0}
    return [(r, q) for r in rows for q in columns if r * q <= pes]


@pytest.mark.parametrize("nest", NESTS, ids=lambda nest: nest.name)
def test_a_flexible_core_is_no_slower_than_any_aligned_shape(nest):
    flexible = mapped_cost(nest, CORE, 16, flexible=True)
    assert flexible.shape[0] * flexible.shape[1] <= CORE.pes
    shapes = aligned_shapes(nest, CORE.pes)
    assert len(shapes) > 5
    model = replace(CORE, dram_bytes_per_cycle=16)
    least = min(
        best_mapping(
            nest, replace(model, max_clusters=rows, max_cluster_size=columns), Objective.LATENCY
        ).value
        for rows, columns in shapes
    )
    (_,), _, (cycles,) = at(
        nest,
        replace(CORE, max_clusters=0, max_cluster_size=0),
        16,
        mapping_from(flexible.how).row()[None],
    )
    assert max(flexible.latency, flexible.bytes / 16) <= least * (1 + SLACK)
    assert cycles > 0


def test_a_flexible_core_takes_a_shape_that_the_fixed_one_has_not():
    nest = NESTS[3]  # one output per group: nothing lies across the clusters but rows
    fixed, flexible = (mapped_cost(nest, CORE, 16, flexible=each) for each in (False, True))
    assert flexible.latency <= fixed.latency
    tall = LoopNest(name="tall", sizes=(64, 1, 1, 1, 1, 1))
    assert mapped_cost(tall, CORE, 1e3, flexible=True).shape == (16, 1)
    assert mapped_cost(tall, CORE, 1e3).shape == (4, 1)


def test_buffers_that_hold_nothing_make_it_impossible():
    assert mapped_cost(NESTS[0], replace(CORE, l1_bytes=1), 1) == IMPOSSIBLE


# -- costs of layers on cores of ours -------------------------------------------------------------

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
