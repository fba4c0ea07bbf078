# SPDX-License-Identifier: Apache-2.0
"""Which operators become regions, and what an offload costs."""

import itertools
import time
from itertools import product
from math import inf

import numpy as np
import pytest
from support.networks.compiled_runs import assert_same_outputs
from support.networks.small_models import Model, imported
from support.randomness import fresh_rng, generator, where

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.divide.offload import (
    FlowGraph,
    OperatorCost,
    TransferCost,
    assign,
    convex_groups,
    place,
    total_seconds,
)
from tilewright.host.compiler.divide.relax_regions import RegionWriter
from tilewright.host.compiler.pipeline import partition


def test_a_region_that_stands_is_not_written_again(monkeypatch) -> None:
    """When others leave; it only has another number then."""
    model = Model(fresh_rng())
    x = model.input(1, 4, 8, 8)
    for _ in range(4):  # on the CPU between them: a function, and no table
        x = model.add("Sigmoid", model.add("Conv", x, model.weights(4, 4, 1, 1)))
    network, written = imported(model.proto(x)), []
    write = RegionWriter._write

    def counted(self, name, steps):
        written.append(tuple(step.index for step in steps))
        return write(self, name, steps)

    monkeypatch.setattr(RegionWriter, "_write", counted)
    graphs = []

    def first_one(graph):
        graphs.append(graph)
        return {} if len(graphs) > 2 else {graph.candidates[0].id: "left"}

    parts = partition(network, first_one)
    assert len(written) == len(set(written)) == 4
    assert [len(graph.regions) for graph in graphs] == [4, 3, 2]
    assert [region.name for region in parts.regions] == ["region0", "region1"]
    assert_same_outputs(network, parts)


def test_unknown_candidates_are_refused() -> None:
    model = Model(fresh_rng())
    y = model.add("Conv", model.input(1, 3, 5, 5), model.weights(4, 3, 3, 3))
    with pytest.raises(WorkloadError, match=r"leave: must be ids of candidates, not \[99\]"):
        partition(imported(model.proto(y)), lambda _: {99})


# -- Offload by minimum cut, against every assignment there is
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


def subsets(names):
    return itertools.chain.from_iterable(
        itertools.combinations(names, size) for size in range(len(names) + 1)
    )


@pytest.mark.parametrize("number", range(60))
def test_no_assignment_is_cheaper(number):
    candidates, crossings = draw(generator(f"offload {number}"))
    names = [c.name for c in candidates]
    least = min(cost(candidates, crossings, set(subset)) for subset in subsets(names))
    found = assign(candidates, crossings)
    facts = where(candidates=candidates, crossings=crossings)
    assert found.seconds == pytest.approx(least), facts
    assert cost(candidates, crossings, found.accelerated) == pytest.approx(least), facts


def test_fractions_of_a_second_are_no_matter_of_the_order():
    """Names are hashed with a salt of the process, which orders the search for a cut.

    The digits network, whose last layer stayed on the CPU in every fourth process: sums of floats
    left no edge of the cut exactly full.
    """
    seconds = [
        (0.0, inf),
        (1.689846153846154e-05, 1.92e-06),
        (0.0004613907692307692, 1.152e-05),
        (6.4e-06, 3.2e-06),
        (0.0, 0.0),
        (5.185230769230769e-05, 4.288e-05),
        (1.1696153846153846e-06, 1.08e-06),
        (0.0, inf),
        (0.0, inf),
    ]
    moved = [
        5.1280000000000004e-05, 5.032e-05, 5.512e-05, 6.0240000000000006e-05,
        5.2560000000000005e-05, 5.2560000000000005e-05, 5.032e-05, 5.0050000000000004e-05,
        5.02e-05, 5.02e-05,
    ]  # fmt: skip
    for label in range(400):
        names = [f"{label}/{number}" for number in range(len(seconds))]
        candidates = [
            OperatorCost(name=name, cpu_seconds=cpu, accelerator_seconds=accelerator)
            for name, (cpu, accelerator) in zip(names, seconds, strict=True)
        ]
        crossings = [
            TransferCost(producer=producer, consumers=(consumer,), seconds=cost)
            for producer, consumer, cost in zip(["", *names], [*names, ""], moved, strict=True)
        ]
        assert assign(candidates, crossings).accelerated == set(names[1:7])


def test_refuses_costs_that_are_none():
    with pytest.raises(WorkloadError, match="conv: a cost must be a number of seconds"):
        assign([OperatorCost(name="conv", cpu_seconds=float("nan"))], [])
    with pytest.raises(WorkloadError, match="crossing: must be a known operator, not 'x'"):
        assign([], [TransferCost(producer="x", consumers=(), seconds=1.0)])


def test_with_calls_of_the_accelerator_hardly_any_assignment_is_cheaper():
    """Regions are counted, not tensors: against every assignment of 60 small networks."""
    seconds = []
    for number in range(60):
        rng = generator(f"place {number}")
        candidates, crossings = draw(rng)
        call = float(rng.integers(0, 12))
        names = [c.name for c in candidates]
        least = min(total_seconds(candidates, crossings, call, s) for s in subsets(names))
        found = place(candidates, crossings, call)
        facts = where(candidates=candidates, crossings=crossings, call=call)
        assert found.seconds == total_seconds(candidates, crossings, call, found.accelerated), facts
        assert least <= found.seconds, facts
        seconds.append((found.seconds, least))
    found, least = map(sum, zip(*seconds, strict=True))
    assert found < 1.02 * least  # 3 of 600 networks were not the best


# -- minimum cut ----------------------------------------------------------------------------------


def by_trying(edges, count):
    """Cost and source's side of the minimum cut from node 0 to node count - 1."""
    found = []
    for inside in product((False, True), repeat=count - 2):
        side = {0, *(n for n, taken in enumerate(inside, 1) if taken)}
        crossing = [room for a, b, room in edges if a in side and b not in side]
        if None not in crossing:
            found.append((sum(crossing), -len(side), side))
    return min(found, key=lambda each: each[:2])


@pytest.mark.parametrize("case", range(40))
def test_random_graphs_against_all_cuts(case):
    rng = fresh_rng()
    count = int(rng.integers(3, 9))
    edges = []
    for _ in range(int(rng.integers(4, 24))):
        a, b = (int(n) for n in rng.choice(count, 2, replace=False))
        infinite = rng.random() < 0.2 and a != 0  # a cut must exist
        edges.append((a, b, None if infinite else int(rng.integers(0, 6)) * 10**20))
    graph = FlowGraph()
    graph.add(0, count - 1, 1)
    edges.append((0, count - 1, 1))
    for a, b, room in edges[:-1]:
        graph.add(a, b, room)
    cost, side = graph.cut(0, count - 1)
    expected, _, most = by_trying(edges, count)
    assert cost == expected
    assert {*side} == {node for node in most if any(node in edge[:2] for edge in edges)}


def test_a_long_chain_needs_no_deep_stack():
    graph = FlowGraph()
    for node in range(20_000):
        graph.add(node, node + 1, 5 if node != 777 else 3)
    cost, side = graph.cut(0, 20_000)
    assert (cost, len(side)) == (3, 778)


# -- convex groups of random graphs, against a search for paths -----------------------------------


def random_graph(rng: np.random.Generator) -> tuple[list[list[int]], set[int]]:
    count = int(rng.integers(1, 25))
    sources = [
        sorted({int(rng.integers(node)) for _ in range(rng.integers(0, 4))}) if node else []
        for node in range(count)
    ]
    return sources, {node for node in range(count) if rng.random() < 0.7}


def reachable(sources: list[list[int]]) -> np.ndarray:
    """Whether a path leads from a node (row) to another (column)."""
    paths = np.zeros((len(sources), len(sources)), bool)
    for node, reads in enumerate(sources):
        for source in reads:
            paths[:, node] |= paths[:, source]
            paths[source, node] = True
    return paths


def is_convex(group: set[int], paths: np.ndarray) -> bool:
    """Whether no node outside lies on a path from inside to inside."""
    inside = sorted(group)
    outside = [node for node in range(len(paths)) if node not in group]
    return not (paths[np.ix_(inside, outside)].any(0) & paths[np.ix_(outside, inside)].any(1)).any()


def has_an_order(sources: list[list[int]], groups: list[list[int]]) -> bool:
    """Whether groups, and other nodes, can be computed one after another: no two need each other.

    Those that read nothing are taken away until none is left.
    """
    home = {node: index for index, group in enumerate(groups) for node in group}
    waiting = {node: home.get(node, -1 - node) for node in range(len(sources))}
    while waiting:
        blocked = {
            waiting[node]
            for node in waiting
            for source in sources[node]
            if source in waiting and waiting[source] != waiting[node]
        }
        left = {node: unit for node, unit in waiting.items() if unit in blocked}
        if len(left) == len(waiting):
            return False
        waiting = left
    return True


def test_groups_divide_the_members_and_are_convex() -> None:
    rng = fresh_rng()
    for _ in range(300):
        sources, members = random_graph(rng)
        groups = convex_groups(sources, members)
        assert sorted(node for group in groups for node in group) == sorted(members)
        paths = reachable(sources)
        assert all(is_convex(set(group), paths) for group in groups)
        assert has_an_order(sources, groups)


def test_without_other_nodes_everything_connected_is_one_group() -> None:
    rng = fresh_rng()
    for _ in range(100):
        sources, _ = random_graph(rng)
        groups = convex_groups(sources, range(len(sources)))
        links = {(node, source) for node, reads in enumerate(sources) for source in reads}
        of = {node: index for index, group in enumerate(groups) for node in group}
        assert all(of[a] == of[b] for a, b in links)


def test_long_chains_take_no_time() -> None:
    count = 10_000
    sources = [[node - 1] if node else [] for node in range(count)]
    started = time.monotonic()
    assert len(convex_groups(sources, range(count))) == 1
    assert len(convex_groups(sources, range(0, count, 10))) == count // 10
    assert time.monotonic() - started < 30
