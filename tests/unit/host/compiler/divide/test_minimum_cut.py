# SPDX-License-Identifier: Apache-2.0
"""The minimum cut is that of all assignments to two sides, and of these the one with the most."""

from itertools import product

import pytest
from support.randomness import fresh_rng

from tilewright.host.compiler.divide.offload import FlowGraph


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
