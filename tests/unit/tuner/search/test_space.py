# SPDX-License-Identifier: Apache-2.0
"""Spaces code points as indices and offer valid ones only."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import conv2d
from tilewright.testing.analytic import BASE, BOARD, RULES, SMALL, TASKS, fits, legal
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import (
    HardwareSpace,
    JointSpace,
    ScheduleSpace,
)
from tilewright.tuner.search.space import Knob, SpaceError


def brute_force(hw: HwConfig) -> set[Schedule]:
    """Every legal schedule of SMALL in space ``full``, without the code under test."""
    ci, co = -(-SMALL.channels_in // hw.block_in), -(-SMALL.channels_out // hw.block_out)
    found = set()
    for h, w, i, o, ht, ot, order, fusion in itertools.product(
        range(1, SMALL.out_height + 1),
        range(1, SMALL.out_width + 1),
        range(1, ci + 1),
        range(1, co + 1),
        (1, 2),
        (1, 2),
        LoopOrder,
        Fusion,
    ):
        schedule = Schedule(
            tile_h=h, tile_w=w, tile_ci=i, tile_co=o, h_threading=ht, oc_threading=ot,
            loop_order=order, fusion=fusion,
        )  # fmt: skip
        if legal(hw, SMALL, schedule).ok:
            found.add(schedule)
    return found


def test_vta_space_of_resnet18_has_13760_raw_points() -> None:
    networks = pytest.importorskip("tilewright.host.network.zoo")
    tasks = [w for w in networks.load_network("vta-resnet18").workloads if w.name != "C1"]
    assert len(tasks) == 10
    sizes = [ScheduleSpace(w, BASE, host_rules(), "vta").raw_size for w in tasks]
    assert sum(sizes) == 13_760


@pytest.mark.parametrize("kind", ["full", "vta"])
@pytest.mark.parametrize("blocks", [(8, 32), (32, 16), (16, 16), (16, 32)])
def test_every_size_that_the_reduction_offers_is_legal_and_no_legal_one_is_missing(
    kind: str, blocks: tuple[int, int]
) -> None:
    hw = BASE.with_(name="other", block_in=blocks[0], block_out=blocks[1])
    workload = conv2d("w", 4, 152, 64, 1, 0, 1)
    rules = host_rules()
    extent = rules.channel_blocks(hw, workload)[0]
    small = Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1)
    legal_sizes = [
        size
        for size in range(1, extent + 1)
        if rules.legal(hw, workload, replace(small, tile_ci=size)).ok
        and (kind == "full" or extent % size == 0)
    ]
    knobs = {knob.name: knob for knob in ScheduleSpace(workload, hw, rules, kind).knobs}
    assert list(knobs["tile_ci"].values) == legal_sizes


def test_enumeration_equals_brute_force() -> None:
    space = ScheduleSpace(SMALL, BASE, RULES, "full")
    points = [space.decode(index) for index in space.enumerate()]
    assert len(points) == len(set(points))
    assert set(points) == brute_force(BASE)


def test_sampling_reaches_every_valid_point_and_no_other() -> None:
    space = ScheduleSpace(SMALL, BASE, RULES, "vta")
    rng = np.random.default_rng(0)
    assert {space.sample(rng) for _ in range(6000)} == set(space.enumerate())


@settings(max_examples=60, deadline=None)
@given(
    seed=st.integers(0, 2**32 - 1),
    task=st.sampled_from(TASKS),
    kind=st.sampled_from(["full", "vta"]),
)
def test_samples_are_valid_and_encode_inverts_decode(seed: int, task, kind: str) -> None:
    space = ScheduleSpace(task, BASE, RULES, kind)
    index = space.sample(np.random.default_rng(seed))
    assert index is not None
    schedule = space.decode(index)
    assert legal(BASE, task, schedule).ok
    assert space.encode(schedule) == index
    if kind == "vta":
        assert task.out_height % schedule.tile_h == 0
        assert schedule.loop_order is LoopOrder.OUTPUT_STATIONARY


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_neighbours_differ_in_one_knob_by_one_step(seed: int) -> None:
    space = ScheduleSpace(TASKS[2], BASE, RULES, "full")
    index = space.sample(np.random.default_rng(seed))
    assert index is not None
    neighbours = space.neighbours(index)
    assert neighbours
    for other in neighbours:
        changed = [k for k, (a, b) in enumerate(zip(index, other, strict=True)) if a != b]
        assert len(changed) == 1
        assert space.valid(other)
        knob = space.knobs[changed[0]]
        assert not knob.ordered or abs(index[changed[0]] - other[changed[0]]) == 1
        assert index in space.neighbours(other)


def test_refuses_to_enumerate_a_large_space() -> None:
    space = ScheduleSpace(TASKS[0], BASE, RULES, "full")
    with pytest.raises(SpaceError, match="enumerated"):
        next(space.enumerate(limit=100))


def test_sampling_an_empty_space_ends_without_a_point() -> None:
    space = ScheduleSpace(TASKS[0], BASE.with_(inp_bytes=1024), RULES, "full")
    none = [i for i in [space.sample(np.random.default_rng(s)) for s in range(3)] if i]
    assert all(space.valid(i) for i in none)
    shut = HardwareSpace(BOARD, BASE, RULES, {"mac_packed": (0, 1), "axi_data_bits": (128, 256)})
    assert shut.sample(np.random.default_rng(0)) is None


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1))
def test_hardware_samples_fit_the_board_and_its_port(seed: int) -> None:
    space = HardwareSpace(BOARD, BASE, RULES)
    index = space.sample(np.random.default_rng(seed))
    assert index is not None
    hw = space.decode(index)
    assert fits(hw, BOARD).ok
    assert hw.axi_data_bits <= BOARD.axi_data_bits
    assert hw.axi_burst_beats <= BOARD.axi_burst_beats
    assert space.encode(hw) == index


def test_joint_hardware_knobs_search_without_a_list() -> None:
    choices = {"block_in": (8, 16), "block_out": (16, 32)}
    space = JointSpace(SMALL, HardwareSpace(BOARD, BASE, RULES, choices), RULES, "vta")
    seen = set()
    rng = np.random.default_rng(1)
    for _ in range(200):
        index = space.sample(rng)
        assert index is not None
        point = space.decode(index)
        assert space.encode(point) == index
        seen.add((point.hw.block_in, point.hw.block_out))
    assert seen == {(8, 16), (16, 16), (8, 32)}  # 16x32 needs 256 DSPs


def test_unknown_kinds_parameters_and_values_are_refused_by_name() -> None:
    with pytest.raises(SpaceError, match="full, vta"):
        ScheduleSpace(SMALL, BASE, RULES, "fast")
    with pytest.raises(SpaceError, match="blocks"):
        HardwareSpace(BOARD, BASE, RULES, {"blocks": (1,)})
    with pytest.raises(SpaceError, match="tile_h"):
        ScheduleSpace(SMALL, BASE, RULES).encode(
            Schedule(tile_h=99, tile_w=1, tile_ci=1, tile_co=1)
        )
    with pytest.raises(SpaceError, match="distinct"):
        Knob(name="k", values=(1, 1))
