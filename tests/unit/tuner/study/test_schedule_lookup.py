# SPDX-License-Identifier: Apache-2.0
"""Schedules of a network that nobody measured: the closed form chooses, the twin judges it."""

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from statistics import geometric_mean

import pytest
from support.randomness import fresh_rng

import tilewright as tw
from tilewright.host.lowering import default_schedule, legal
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.layout import behind_a_layer
from tilewright.host.network.network_table import NetworkTable
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.tuner.measure.measurement import Request
from tilewright.tuner.measure.twin_oracle import TwinOracle
from tilewright.tuner.schedule.network_prior import predicted_places
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.store.location import store_location
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.schedule_lookup import Origin, ScheduleLookup

MEMORY = load_board("pynq-z2").memory


def cycles(hw: HwConfig, pairs: Sequence[tuple[Workload, Schedule]]) -> list[int]:
    """What the twin counts, each times the layer's count."""
    requests = [
        Request(hw=hw, workload=task, schedule=schedule, memory=MEMORY, max_cycles=10**9)
        for task, schedule in pairs
    ]
    with closing(TwinOracle()) as oracle:
        answers = dict(oracle.measure(requests))
    found = [answers[number].cycles for number in range(len(pairs))]
    assert all(found)
    return [pairs[number][0].count * (each or 0) for number, each in enumerate(found)]


@pytest.mark.parametrize("network", ["resnet18", "mobilenet_v2"])
def test_without_a_measurement_layers_stand_at_85_percent_of_their_bounds(network: str) -> None:
    hw = load_hwconfig("pynq-16x16")
    tasks = tw.load_network(network).workloads
    with ScheduleLookup(hw, MEMORY, budget=0) as lookup:
        taken = sum(cycles(hw, [(task, lookup(task)) for task in tasks]))
        assert lookup.origins[Origin.PREDICTED] > len(tasks) // 2
    assert taken <= sum(task.count * bound(hw, task, MEMORY).cycles for task in tasks) / 0.85


def test_predicted_schedules_are_legal_and_faster_than_untuned_ones() -> None:
    rng = fresh_rng()
    hw = load_hwconfig("edge-8x8")
    tasks = tw.load_network("mobilenet_v2").workloads
    drawn = [
        replace(tasks[number], height=int(rng.integers(1, 120)), width=int(rng.integers(1, 120)))
        for number in rng.choice(len(tasks), 12, replace=False)
    ]
    with ScheduleLookup(hw, MEMORY, budget=0) as lookup:
        entries = [lookup.entry(task) for task in drawn]
    chosen = [(task, entry.schedule) for task, entry in zip(drawn, entries, strict=True)]
    assert all(legal(hw, *pair).ok for pair in chosen)
    untuned = cycles(hw, [(task, default_schedule(hw, task)) for task in drawn])
    found = cycles(hw, chosen)
    assert geometric_mean(found) < 0.95 * geometric_mean(untuned)
    for task, entry, taken in zip(drawn, entries, found, strict=True):
        assert entry.cycles in (None, taken // task.count)
        assert (entry.origin is Origin.SEARCHED) == (entry.cycles is not None)


def test_short_layers_are_measured_beside_what_the_closed_form_chose() -> None:
    """Without a search, too: never slower than its choice, and faster in most cases."""
    rng = fresh_rng()
    hw = load_hwconfig("pynq-16x16")
    tasks = tw.load_network("mobilenet_v2").workloads
    drawn = [
        replace(tasks[number], height=size, width=size, channels_in=32, channels_out=32)
        for number in rng.choice(len(tasks), 12, replace=False)
        for size in [int(rng.integers(4, 20))]
    ]
    first = []
    for task in drawn:
        space = ScheduleSpace(task, hw, host_rules(), "full")
        first.append(space.decode(predicted_places(space, MEMORY, 1)[0]))
    with ScheduleLookup(hw, MEMORY, budget=0) as lookup:
        found = cycles(hw, [(task, lookup(task)) for task in drawn])
        assert lookup.origins == {"searched": len({task.key for task in drawn})}
    predicted = cycles(hw, list(zip(drawn, first, strict=True)))
    assert all(mine <= other for mine, other in zip(found, predicted, strict=True))
    assert geometric_mean(found) < 0.98 * geometric_mean(predicted)


@pytest.mark.parametrize(("block", "found"), [(4, True), (16, False)])
def test_a_stored_schedule_serves_a_layer_behind_another_where_nobody_folds(
    tmp_path, block: int, found: bool
) -> None:
    hw = load_hwconfig("tiny-4x4").with_(name="h", block_in=block)
    layer = tw.conv2d("a", 8, 4, 8, kernel=3, pad=1)
    tw.tune(
        NetworkTable(name="n", workloads=(layer,)),
        hw=hw, memory="pynq-z2", fidelity="twin", budget=4, runs=tmp_path,
    )  # fmt: skip
    with (
        Store(store_location("", tmp_path)) as store,
        ScheduleLookup(hw, MEMORY, budget=0, store=store) as lookup,
    ):
        assert lookup.entry(layer).origin is Origin.STORE
        behind = lookup.entry(behind_a_layer(layer)).origin
        assert (behind is Origin.STORE) == found
