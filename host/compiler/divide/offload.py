# SPDX-License-Identifier: Apache-2.0
"""Which operators run on the accelerator: the cheapest assignment, crossings included.

Every operator has a cost on the CPU and, if it can run there, on the accelerator; a tensor whose
producer and some consumer lie on different sides costs one crossing (quantise, pack, flush). The
sum is least over *all* assignments: a minimum cut, not a greedy choice, so that a cheap operator
between two expensive ones stays where its neighbours are. Costs are whole attoseconds: sums of them
are exact, so that the cut does not depend on the order in which a search meets the operators.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf, isfinite
from typing import Final

import networkx as nx

from tilewright.host.common.errors import WorkloadError

_ACCELERATOR, _CPU = "accelerator", "cpu"

_TICKS: Final = 10**18
"""Of a second: less than any cost that a board states."""


@dataclass(frozen=True, kw_only=True)
class OperatorCost:
    """An operator and what it costs.

    Attributes:
        name: unique.
        cpu_seconds: on the CPU.
        accelerator_seconds: on the accelerator; infinite if it cannot run there.
    """

    name: str
    cpu_seconds: float
    accelerator_seconds: float = inf


@dataclass(frozen=True, kw_only=True)
class TransferCost:
    """A tensor between operators.

    Attributes:
        producer: the operator that writes it; empty for an input of the model, which is the CPU's.
        consumers: the operators that read it; an empty name stands for the model's output.
        seconds: cost of bringing it to the other side.
    """

    producer: str
    consumers: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The cheapest assignment.

    Attributes:
        accelerated: names of the operators on the accelerator.
        seconds: its cost.
    """

    accelerated: frozenset[str]
    seconds: float


def assign(candidates: Iterable[OperatorCost], crossings: Iterable[TransferCost]) -> Assignment:
    """Find the assignment of least total cost.

    Raises:
        WorkloadError: a cost that is negative or not a number, or an unknown operator.
    """
    nodes = {candidate.name: candidate for candidate in candidates}
    graph = nx.DiGraph()
    graph.add_nodes_from((_ACCELERATOR, _CPU))
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
    ticks, (accelerated, _) = nx.minimum_cut(graph, _ACCELERATOR, _CPU)
    return Assignment(
        accelerated=frozenset(
            node[1] for node in accelerated if isinstance(node, tuple) and node[0] == "operator"
        ),
        seconds=ticks / _TICKS,
    )


def _add(graph: nx.DiGraph, begin: object, end: object, seconds: float) -> None:
    if begin == end:
        return
    if isfinite(seconds):
        graph.add_edge(begin, end, capacity=round(seconds * _TICKS))
    else:
        graph.add_edge(begin, end)  # no capacity: infinite


def _require_cost(name: str, seconds: float, *, finite: bool) -> None:
    if not seconds >= 0 or (finite and not isfinite(seconds)):
        raise WorkloadError(
            "a cost must be a number of seconds, not negative", field=name, value=seconds
        )
