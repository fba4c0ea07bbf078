# SPDX-License-Identifier: Apache-2.0
"""Convex groups of random graphs, against a search for paths."""

import time

import numpy as np
from support.randomness import fresh_rng

from tilewright.host.compiler.divide.offload import convex_groups


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
    left = paths[np.ix_(inside, outside)].any(0)
    entered = paths[np.ix_(outside, inside)].any(1)
    return not (left & entered).any()


def test_groups_divide_the_members_and_are_convex() -> None:
    rng = fresh_rng()
    for _ in range(300):
        sources, members = random_graph(rng)
        groups = convex_groups(sources, members)
        assert sorted(node for group in groups for node in group) == sorted(members)
        paths = reachable(sources)
        assert all(is_convex(set(group), paths) for group in groups)


def test_without_other_nodes_everything_connected_is_one_group() -> None:
    rng = fresh_rng()
    for _ in range(100):
        sources, _ = random_graph(rng)
        groups = convex_groups(sources, range(len(sources)))
        links = {(node, source) for node, reads in enumerate(sources) for source in reads}
        of = {node: index for index, group in enumerate(groups) for node in group}
        assert all(of[a] == of[b] for a, b in links)


def test_a_path_over_another_node_divides() -> None:
    assert convex_groups([[], [0], [0, 1]], {0, 2}) == [[0], [2]]
    assert convex_groups([[], [0], [0], [1, 2]], {0, 2, 3}) in ([[0, 2], [3]], [[0], [2, 3]])


def test_long_chains_take_no_time() -> None:
    count = 10_000
    sources = [[node - 1] if node else [] for node in range(count)]
    started = time.monotonic()
    assert len(convex_groups(sources, range(count))) == 1
    assert len(convex_groups(sources, range(0, count, 10))) == count // 10
    assert time.monotonic() - started < 30
