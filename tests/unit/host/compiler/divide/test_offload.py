# SPDX-License-Identifier: Apache-2.0
"""Offload by minimum cut, against every assignment there is."""

from __future__ import annotations

import itertools
from math import inf

import pytest
from support.randomness import generator, where

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.divide.offload import OperatorCost, TransferCost, assign


def draw(rng):
    count = int(rng.integers(1, 8))
    candidates = [
        OperatorCost(
            name=str(i),
            cpu_seconds=float(rng.integers(0, 20)),
            accelerator_seconds=inf if rng.random() < 0.3 else float(rng.integers(0, 9)),
        )
        for i in range(count)
    ]
    crossings = []
    for i in range(-1, count):
        later = [*map(str, range(i + 1, count)), ""]
        readers = rng.permutation(later)[: int(rng.integers(1, 4))]
        crossings.append(
            TransferCost(
                producer="" if i < 0 else str(i),
                consumers=tuple(map(str, readers)),
                seconds=float(rng.integers(0, 8)),
            )
        )
    return candidates, crossings


def cost(candidates, crossings, accelerated):
    total = sum(
        c.accelerator_seconds if c.name in accelerated else c.cpu_seconds for c in candidates
    )
    for crossing in crossings:
        home = crossing.producer in accelerated
        if any((name in accelerated) != home for name in crossing.consumers):
            total += crossing.seconds
    return total


@pytest.mark.parametrize("number", range(60))
def test_no_assignment_is_cheaper(number):
    rng = generator(f"offload {number}")
    candidates, crossings = draw(rng)
    names = [c.name for c in candidates]
    subsets = itertools.chain.from_iterable(
        itertools.combinations(names, size) for size in range(len(names) + 1)
    )
    least = min(cost(candidates, crossings, set(subset)) for subset in subsets)
    found = assign(candidates, crossings)
    facts = where(candidates=candidates, crossings=crossings)
    assert found.seconds == pytest.approx(least), facts
    assert cost(candidates, crossings, found.accelerated) == pytest.approx(least), facts


def test_a_cheap_operator_stays_with_its_neighbours():
    candidates = [
        OperatorCost(name="conv1", cpu_seconds=10.0, accelerator_seconds=1.0),
        OperatorCost(name="add", cpu_seconds=0.1, accelerator_seconds=0.5),
        OperatorCost(name="conv2", cpu_seconds=10.0, accelerator_seconds=1.0),
    ]
    crossings = [
        TransferCost(producer="", consumers=("conv1",), seconds=1.0),
        TransferCost(producer="conv1", consumers=("add",), seconds=1.0),
        TransferCost(producer="add", consumers=("conv2",), seconds=1.0),
        TransferCost(producer="conv2", consumers=("",), seconds=1.0),
    ]
    found = assign(candidates, crossings)
    assert found.accelerated == {"conv1", "add", "conv2"}
    assert found.seconds == pytest.approx(4.5)
    assert found.cpu_only_seconds == pytest.approx(20.1)


def test_crossings_that_cost_more_than_they_save_leave_all_on_the_cpu():
    candidates = [OperatorCost(name="conv", cpu_seconds=1.0, accelerator_seconds=0.1)]
    crossings = [TransferCost(producer="", consumers=("conv",), seconds=2.0)]
    assert assign(candidates, crossings).accelerated == frozenset()


def test_refuses_costs_that_are_none():
    with pytest.raises(WorkloadError, match="conv: a cost must be a number of seconds"):
        assign([OperatorCost(name="conv", cpu_seconds=float("nan"))], [])
    with pytest.raises(WorkloadError, match="crossing: must be a known operator, not 'x'"):
        assign([], [TransferCost(producer="x", consumers=(), seconds=1.0)])
