# SPDX-License-Identifier: Apache-2.0
"""The minimum cut of a graph with whole capacities.

By augmenting paths, of which each round takes shortest ones until none is left (Dinitz, Algorithm
for solution of a problem of maximum flow in networks with power estimation, 1970). Whole numbers
keep it exact, however large they are.
"""

from __future__ import annotations

from collections.abc import Hashable


class FlowGraph:
    """Directed edges with capacities."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._edges: list[list[int]] = []  # by node; edge e ^ 1 is e backwards
        self._ends: list[int] = []
        self._capacities: list[int | None] = []

    def add(self, begin: Hashable, end: Hashable, capacity: int | None) -> None:
        """Add an edge."""
        tail, head = self._number(begin), self._number(end)
        for node, other, room in ((tail, head, capacity), (head, tail, 0)):
            self._edges[node].append(len(self._ends))
            self._ends.append(other)
            self._capacities.append(room)

    def cut(self, source: Hashable, sink: Hashable) -> tuple[int, set[Hashable]]:
        """The minimum cut between two nodes."""
        begin, end = self._number(source), self._number(sink)
        infinite = 1 + sum(room for room in self._capacities if room is not None)
        left = [infinite if room is None else room for room in self._capacities]
        flow = 0
        while (levels := self._levels(begin, left))[end] >= 0:
            flow += self._fill(begin, end, left, levels)
        reaching = self._reaching(end, left)
        return flow, {node for node, number in self._numbers.items() if number not in reaching}

    def _number(self, node: Hashable) -> int:
        if node not in self._numbers:
            self._numbers[node] = len(self._numbers)
            self._edges.append([])
        return self._numbers[node]

    def _levels(self, begin: int, left: list[int]) -> list[int]:
        """Steps from the first node to each over edges with room; -1: it cannot be reached."""
        levels = [-1] * len(self._edges)
        levels[begin] = 0
        reached = [begin]
        for node in reached:
            for edge in self._edges[node]:
                if left[edge] and levels[self._ends[edge]] < 0:
                    levels[self._ends[edge]] = levels[node] + 1
                    reached.append(self._ends[edge])
        return levels

    def _fill(self, begin: int, end: int, left: list[int], levels: list[int]) -> int:
        """Send what fits along shortest paths, and take it from the room that is left."""
        flow, path, node = 0, list[int](), begin
        untried = [len(edges) for edges in self._edges]
        while True:
            if node == end:
                sent = min(left[edge] for edge in path)
                flow += sent
                for edge in path:
                    left[edge] -= sent
                    left[edge ^ 1] += sent
                path, node = [], begin
            while untried[node]:
                edge = self._edges[node][untried[node] - 1]
                if left[edge] and levels[self._ends[edge]] == levels[node] + 1:
                    path.append(edge)
                    node = self._ends[edge]
                    break
                untried[node] -= 1
            else:
                if not path:
                    return flow
                node = self._ends[path.pop() ^ 1]
                untried[node] -= 1

    def _reaching(self, end: int, left: list[int]) -> set[int]:
        """The nodes from which the last one can be reached over edges with room."""
        found, pending = {end}, [end]
        while pending:
            for edge in self._edges[pending.pop()]:
                other = self._ends[edge]
                if left[edge ^ 1] and other not in found:
                    found.add(other)
                    pending.append(other)
        return found
