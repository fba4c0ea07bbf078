# SPDX-License-Identifier: Apache-2.0
"""Which operators run on the accelerator: the cheapest assignment, crossings included.

Every operator has a cost on the CPU and, if it can run there, on the accelerator; a tensor whose
producer and some consumer lie on different sides costs one crossing (quantise, pack, flush).
`assign` finds the least sum over *all* assignments: a minimum cut, not a greedy choice, so that a
cheap operator between two expensive ones stays where its neighbours are. Costs are whole
attoseconds: sums of them are exact, so that the cut does not depend on the order in which a search
meets the operators.

A call of the accelerator is paid per region, and how many regions there are is no sum over tensors.
`place` spreads the price of a call over the crossings, cuts, counts the true sum (`total_seconds`),
and drops or moves what makes it smaller.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite
from typing import Final

from tilewright.host.common.errors import WorkloadError


@dataclass(kw_only=True)
class _Group:
    """Nodes as bit masks."""

    members: int  # of the group
    before: int  # nodes on which a member depends, members among them
    behind: int  # nodes so far that depend on a member and are none

    def joined(self, other: _Group) -> _Group | None:
        """Both as one, or ``None`` if a path would leave it and enter again."""
        members = self.members | other.members
        before = self.before | other.before
        behind = (self.behind | other.behind) & ~members
        if before & behind:
            return None
        return _Group(members=members, before=before, behind=behind)


def convex_groups(sources: Sequence[Sequence[int]], members: Collection[int]) -> list[list[int]]:
    """Connected sets of nodes that can be computed one whole set after another.

    In topological order each node joins the groups of the nodes that it reads, the latest first,
    where the union is convex: no path leaves it and enters it again. Convex groups may still wait
    for each other, if branches run side by side; then groups are formed anew, with paths through
    whole groups in mind.
    """
    groups = _convex_groups(sources, members)
    return groups if _in_sequence(sources, groups) else _groups_in_sequence(sources, members)


def _in_sequence(sources: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]) -> bool:
    """Whether there is an order in which each group, and each other node, finds what it reads."""
    home = list(range(len(sources)))
    for group in groups:
        for node in group:
            home[node] = group[0]
    readers: list[set[int]] = [set() for _ in sources]
    for node, reads in enumerate(sources):
        for source in reads:
            if home[source] != home[node]:
                readers[home[source]].add(home[node])
    waits = [0] * len(sources)
    for behind in readers:
        for node in behind:
            waits[node] += 1
    ready = [node for node, count in enumerate(waits) if home[node] == node and not count]
    for node in ready:
        for reader in readers[node]:
            waits[reader] -= 1
            if not waits[reader]:
                ready.append(reader)
    return not any(waits)


def _groups_in_sequence(
    sources: Sequence[Sequence[int]], members: Collection[int]
) -> list[list[int]]:
    """As `convex_groups`, where a path through any node of a group goes through all of it."""
    allowed = frozenset(members)
    leader = list(range(len(sources)))
    units: dict[int, int] = {}  # nodes of each group and each other node, as a bit mask
    before: dict[int, int] = {}  # what each depends on
    for node, reads in enumerate(sources):
        units[node], before[node] = 1 << node, 0
        for source in reads:
            home = _leader(leader, source)
            before[node] |= before[home] | units[home]
        for source in sorted(reads, reverse=True) if node in allowed else ():
            other = _leader(leader, source)
            if source not in allowed or other == node:
                continue
            union = units[node] | units[other]
            needed = (before[node] | before[other]) & ~union
            if any(units[unit] & needed and before[unit] & union for unit in units):
                continue
            leader[other] = node
            units[node], before[node] = union, needed
            del units[other], before[other]
            for unit, depends in before.items():
                if depends & union:
                    before[unit] |= union | needed
    return [_bits(mask) for first, mask in units.items() if first in allowed]


def _convex_groups(sources: Sequence[Sequence[int]], members: Collection[int]) -> list[list[int]]:
    allowed = frozenset(members)
    before: list[int] = []
    leader = list(range(len(sources)))
    groups: dict[int, _Group] = {}
    for node, reads in enumerate(sources):
        mask = 0
        for source in reads:
            mask |= before[source] | 1 << source
        before.append(mask)
        if node in allowed:
            group = _Group(members=1 << node, before=mask, behind=0)
            for source in sorted(reads, reverse=True):
                other = _leader(leader, source)
                joined = group.joined(groups[other]) if other in groups else None
                if joined is not None:
                    group = joined
                    leader[other] = node
                    del groups[other]
        for other_group in groups.values():
            if mask & other_group.members:
                other_group.behind |= 1 << node
        if node in allowed:
            groups[node] = group
    return [_bits(group.members) for group in groups.values()]


def _leader(leader: list[int], node: int) -> int:
    """The last node of a node's group, by way of which its members are linked."""
    while leader[node] != node:
        leader[node] = leader[leader[node]]
        node = leader[node]
    return node


def _bits(mask: int) -> list[int]:
    """Positions of the ones, ascending."""
    return [index for index, digit in enumerate(reversed(f"{mask:b}")) if digit == "1"]


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


_ACCELERATOR, _CPU = "accelerator", "cpu"

_TICKS: Final = 10**18
"""Of a second: less than any cost that a board states."""


@dataclass(frozen=True, kw_only=True)
class OperatorCost:
    """An operator and what it costs."""

    name: str  # unique
    cpu_seconds: float  # on the CPU
    accelerator_seconds: float = inf  # on the accelerator; infinite if it cannot run there


@dataclass(frozen=True, kw_only=True)
class TransferCost:
    """A tensor between operators.

    Attributes:
        producer: the operator that writes it; empty for an input of the model, which is the CPU's.
        consumers: the operators that read it; an empty name stands for the model's output.
    """

    producer: str
    consumers: tuple[str, ...]
    seconds: float  # cost of bringing it to the other side


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The cheapest assignment."""

    accelerated: frozenset[str]  # names of the operators on the accelerator
    seconds: float  # its cost


def assign(candidates: Iterable[OperatorCost], crossings: Iterable[TransferCost]) -> Assignment:
    """Find the assignment of least total cost."""
    nodes = {candidate.name: candidate for candidate in candidates}
    graph = FlowGraph()
    for candidate in nodes.values():
        node = ("operator", candidate.name)
        _require_cost(candidate.name, candidate.cpu_seconds, finite=True)
        _require_cost(candidate.name, candidate.accelerator_seconds, finite=False)
        _add(graph, _ACCELERATOR, node, candidate.cpu_seconds)
        _add(graph, node, _CPU, candidate.accelerator_seconds)
    for index, crossing in enumerate(crossings):
        _require_cost(crossing.producer, crossing.seconds, finite=True)
        ends = []
        for name in (crossing.producer, *crossing.consumers):
            if name and name not in nodes:
                raise WorkloadError("must be a known operator", field="crossing", value=name)
            ends.append(("operator", name) if name else _CPU)
        producer, consumers = ends[0], ends[1:]
        leaves, enters = ("leaves", index), ("enters", index)
        _add(graph, producer, leaves, crossing.seconds)
        _add(graph, enters, producer, crossing.seconds)
        for consumer in consumers:
            _add(graph, leaves, consumer, inf)
            _add(graph, consumer, enters, inf)
    ticks, accelerated = graph.cut(_ACCELERATOR, _CPU)
    return Assignment(
        accelerated=frozenset(
            node[1] for node in accelerated if isinstance(node, tuple) and node[0] == "operator"
        ),
        seconds=ticks / _TICKS,
    )


def _add(graph: FlowGraph, begin: Hashable, end: Hashable, seconds: float) -> None:
    if begin != end:
        graph.add(begin, end, round(seconds * _TICKS) if isfinite(seconds) else None)


def _require_cost(name: str, seconds: float, *, finite: bool) -> None:
    if not seconds >= 0 or (finite and not isfinite(seconds)):
        raise WorkloadError(
            "a cost must be a number of seconds, not negative", field=name, value=seconds
        )


# -- with calls ------------------------------------------------------------------------------------

_CALL_SHARES: Final = (1.0, 0.5, 0.0)
"""Of a call, what a crossing pays in the cuts that are tried."""

_MOST_MOVED: Final = 48
"""Operators up to which each is tried on the other side."""


def place(
    candidates: Sequence[OperatorCost], crossings: Sequence[TransferCost], call_seconds: float
) -> Assignment:
    """An assignment of small total cost, calls of the accelerator included."""
    network = _Network(candidates, crossings, call_seconds)
    starts = [frozenset(c.name for c in candidates if isfinite(c.accelerator_seconds))]
    for share in _CALL_SHARES:
        dear = [replace(each, seconds=each.seconds + share * call_seconds) for each in crossings]
        starts.append(assign(candidates, dear).accelerated)
    found = [network.improved(start) for start in dict.fromkeys(starts)]
    return min(found, key=lambda assignment: assignment.seconds)


def total_seconds(
    candidates: Sequence[OperatorCost],
    crossings: Sequence[TransferCost],
    call_seconds: float,
    accelerated: Collection[str],
) -> float:
    """What an assignment costs: operators, crossings, and a call for each region.

    A region is a connected convex set of accelerated operators (`convex`). A tensor pays once to
    leave its region and once for each region that it enters. Operators that cost nothing on either
    side, which only name elements anew, are no region by themselves.
    """
    return _Network(candidates, crossings, call_seconds).seconds(accelerated)


class _Network:
    def __init__(
        self,
        candidates: Sequence[OperatorCost],
        crossings: Sequence[TransferCost],
        call_seconds: float,
    ) -> None:
        self._candidates = candidates
        self._crossings = crossings
        self._call_seconds = call_seconds
        self._number = {candidate.name: n for n, candidate in enumerate(candidates)}
        self._sources: list[list[int]] = [[] for _ in candidates]
        for crossing in crossings:
            for name in crossing.consumers:
                if name and crossing.producer:
                    self._sources[self._number[name]].append(self._number[crossing.producer])

    def regions(self, accelerated: Collection[str]) -> list[list[int]]:
        """Numbers of operators, region by region."""
        members = {self._number[name] for name in accelerated}
        return [
            group
            for group in convex_groups(self._sources, members)
            if any(not self._is_free(number) for number in group)
        ]

    def _is_free(self, number: int) -> bool:
        candidate = self._candidates[number]
        return candidate.cpu_seconds == candidate.accelerator_seconds == 0

    def seconds(self, accelerated: Collection[str]) -> float:
        """See `total_seconds`."""
        regions = self.regions(accelerated)
        region_of = {self._candidates[n].name: r for r, group in enumerate(regions) for n in group}
        spent = len(regions) * self._call_seconds
        for candidate in self._candidates:
            taken = candidate.name in accelerated
            spent += candidate.accelerator_seconds if taken else candidate.cpu_seconds
        for crossing in self._crossings:
            home = region_of.get(crossing.producer)
            ends = {region_of.get(name) for name in crossing.consumers}
            leaves = home is not None and ends != {home}
            spent += (leaves + len(ends - {home, None})) * crossing.seconds
        return spent

    def improved(self, accelerated: Collection[str]) -> Assignment:
        """Drop regions, and in small networks move operators, as long as the total falls."""
        best, least = frozenset(accelerated), self.seconds(accelerated)
        falls = True
        while falls:
            falls = False
            for changed in self._neighbours(best):
                seconds = self.seconds(changed)
                if seconds < least:
                    best, least, falls = changed, seconds, True
                    break
        return Assignment(accelerated=best, seconds=least)

    def _neighbours(self, accelerated: frozenset[str]) -> Iterator[frozenset[str]]:
        for group in self.regions(accelerated):
            yield accelerated - {self._candidates[n].name for n in group}
        movable = [c.name for c in self._candidates if isfinite(c.accelerator_seconds)]
        if len(movable) <= _MOST_MOVED:
            yield from (accelerated ^ {name} for name in movable)
