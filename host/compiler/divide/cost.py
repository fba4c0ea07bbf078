# SPDX-License-Identifier: Apache-2.0
"""Seconds that operators cost on either side: the figures behind `host.compiler.divide.offload`.

The accelerator's cost is the bound of the layers (`host.lowering.cycle_bound`) that compute an
operator where the accelerator takes all that it can: fused, with the copies and moves that are
really made. The rest is what `host.compiler.pack.latency` reports, from the board's rates
(`host.machine.board.CpuModel`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf, prod
from typing import Any, Final

from tilewright.host.common.errors import TilewrightError
from tilewright.host.compiler.divide.offload import OperatorCost, TransferCost, place
from tilewright.host.compiler.divide.placement import (
    OffloadCandidate,
    OffloadGraph,
    OperatorPlacement,
    Work,
)
from tilewright.host.compiler.lower.layer_graph import LayerGraph
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import QGraph, QOperator, QTensor
from tilewright.host.compiler.lower.region import as_computed, workloads_in_place
from tilewright.host.lowering import default_schedule
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.workload import Workload

_MOVES_THAT_WEIGH: Final = 0.05
"""Of the accelerator's time."""


class CostModel:
    """Costs of a network's operators on a board.

    Args:
        hw: the configuration.
        board: the board.
        lower: a region to its layers.
    """

    def __init__(
        self, hw: HwConfig, board: Board, lower: Callable[[QGraph], LayerGraph] | None = None
    ) -> None:
        self._hw: Final = hw
        self._board: Final = board
        self._lower: Final = lower or (lambda region: layer_graph(region, hw))
        self._prices: Final[dict[tuple[Any, ...], float]] = {}
        self._known: Final[dict[int, tuple[QGraph, list[tuple[str, Workload]] | None]]] = {}
        """Layers of regions that were asked for, by identity."""

    def refused(self, graph: OffloadGraph) -> dict[int, str]:
        """Why the accelerator does not run candidates."""
        failing = {
            number for number, region in enumerate(graph.regions) if self._layers(region) is None
        }
        found = {}
        for candidate in graph.candidates:
            if candidate.region in failing:
                try:
                    self._one_by_one(graph, candidate)
                except TilewrightError as error:
                    found[candidate.id] = f"the accelerator cannot run it: {_told(error)}"
        return found

    def dear(self, graph: OffloadGraph) -> dict[int, str]:
        """The candidates whose place is the CPU, at the least total cost."""
        return self._left(graph, self._in_place(graph)[0])

    def dear_alone(self, graph: OffloadGraph) -> dict[int, str]:
        """The same with another price of moves, if moves weigh: those that a candidate asks for.

        In place a move is paid by who stands behind it, though who stands in front of it may leave
        for the CPU and spare it too. No price of a single candidate says both.
        """
        seconds, moved = self._in_place(graph)
        if moved < _MOVES_THAT_WEIGH * sum(seconds.values()):
            return {}
        return self._left(
            graph,
            {
                candidate.id: sum(self._seconds(w) for _, w in self._one_by_one(graph, candidate))
                for candidate in graph.candidates
            },
        )

    def _left(self, graph: OffloadGraph, seconds: Mapping[int, float]) -> dict[int, str]:
        """What a minimum cut leaves to the CPU."""
        cpu = self._board.cpu
        costs = {
            candidate.id: OperatorCost(
                name=str(candidate.id),
                cpu_seconds=cpu.work_seconds(macs=candidate.work.macs, nbytes=candidate.work.bytes),
                accelerator_seconds=seconds[candidate.id],
            )
            for candidate in graph.candidates
        }
        others = {node.id: OperatorCost(name=str(node.id), cpu_seconds=0.0)
                  for node in graph.cpu_nodes}  # fmt: skip
        crossings = [
            TransferCost(
                producer="" if edge.source is None else str(edge.source),
                consumers=(*map(str, edge.readers), *(("",) if edge.leaves else ())),
                seconds=cpu.transfer_seconds(edge.bytes),
            )
            for edge in graph.edges
        ]
        nodes = [cost for _, cost in sorted((costs | others).items())]
        taken = place(nodes, crossings, cpu.call_seconds).accelerated
        return {
            number: f"with its conversions it takes {_milliseconds(cost.cpu_seconds)} on the CPU "
            f"and {_milliseconds(cost.accelerator_seconds)} on the accelerator, and its "
            "transfers cost more than that saves"
            for number, cost in costs.items()
            if cost.name not in taken
        }

    def _in_place(self, graph: OffloadGraph) -> tuple[dict[int, float], float]:
        """By candidate, of the layers that compute it and move data for it; and all that moves.

        What fuses with another candidate costs nothing. A region that does not lower as a whole
        is priced operator by operator.
        """
        owners, own = {}, set()
        for candidate in graph.candidates:
            for operator, _ in _operators(candidate):
                owners[candidate.region, operator.name] = candidate.id
            if candidate.operator is not None:
                own.add((candidate.region, candidate.operator.name))
        found, moved = dict.fromkeys((candidate.id for candidate in graph.candidates), 0.0), 0.0
        for number, region in enumerate(graph.regions):
            layers = self._layers(region)
            if layers is None:
                layers = [
                    layer
                    for candidate in graph.candidates
                    if candidate.region == number
                    for layer in self._one_by_one(graph, candidate)
                ]
            latest, waiting = None, 0.0
            for name, workload in layers:
                # What reorders pixels between operators is the price of the one in front of it.
                latest = owners.get((number, name), latest)
                seconds = self._seconds(workload)
                waiting += seconds
                moved += 0.0 if (number, name) in own else seconds
                if latest is not None:
                    found[latest] += waiting
                    waiting = 0.0
        return found, moved

    def seconds(
        self,
        regions: Sequence[LayerGraph],
        placements: Iterable[OperatorPlacement],
        conversions: Work,
    ) -> float:
        """What an inference takes at least: layers at their bound, crossings, the CPU's part."""
        cpu = self._board.cpu
        layers = (each for graph in regions for each in workloads_in_place(self._hw, graph))
        crossing = sum(
            prod(graph.tensors[name].shape)
            for graph in regions
            for name in (*graph.inputs, *graph.outputs)
        )
        left = sum((each.work for each in placements if each.place == "cpu"), start=conversions)
        return (
            sum(map(self._seconds, layers))
            + len(regions) * cpu.call_seconds
            + cpu.transfer_seconds(crossing)
            + cpu.work_seconds(macs=left.macs, nbytes=left.bytes)
        )

    def _seconds(self, workload: Workload) -> float:
        cycles = bound(self._hw, workload, self._board.memory).cycles
        return cycles / (self._board.clock_mhz * 1e6)

    def why_not(self, operator: QOperator, tensors: Sequence[QTensor]) -> str | None:
        """Why the accelerator does not run an operator behind others; None: it does."""
        try:
            self._alone(operator, tensors, from_host=False)
        except TilewrightError as error:
            return _told(error)
        return None

    def price(self, operator: QOperator, tensors: Sequence[QTensor]) -> float:
        """Seconds of an operator behind others; infinite if the accelerator does not run it."""
        ways = [
            getattr(operator, name, None) for name in ("heads", "windows", "b_rows_are_outputs")
        ]
        key = (type(operator), *ways, *(tensor.shape for tensor in tensors))
        if key not in self._prices:
            try:
                layers = self._alone(operator, tensors, from_host=False)
                self._prices[key] = sum(self._seconds(workload) for _, workload in layers)
            except TilewrightError:
                self._prices[key] = inf
        return self._prices[key]

    def _one_by_one(
        self, graph: OffloadGraph, candidate: OffloadCandidate
    ) -> list[tuple[str, Workload]]:
        """The layers of a candidate's operators, nothing fused."""
        found = []
        for operator, tensors in _operators(candidate):
            assert candidate.region is not None
            first = operator.inputs[0] in graph.regions[candidate.region].inputs
            found += self._alone(operator, tensors, from_host=first)
        return found

    def _alone(
        self, operator: QOperator, tensors: Sequence[QTensor], *, from_host: bool
    ) -> list[tuple[str, Workload]]:
        """The layers of one operator, whose data the host writes or other layers."""
        alone = QGraph(
            name=operator.name,
            tensors={tensor.name: tensor for tensor in tensors},
            operators=(operator,),
            inputs=tuple(dict.fromkeys(operator.inputs)),
            outputs=(operator.output,),
        )
        graph = layer_graph(alone, self._hw)
        workloads = [as_computed(self._hw, layer, from_host=from_host) for layer in graph.layers]
        return self._scheduled(graph, workloads)

    def _layers(self, region: QGraph) -> list[tuple[str, Workload]] | None:
        """The layers of a region, each with the name of its first operator."""
        if id(region) not in self._known:
            layers = None
            with suppress(TilewrightError):
                graph = self._lower(region)
                layers = self._scheduled(graph, workloads_in_place(self._hw, graph))
            self._known[id(region)] = region, layers
        return self._known[id(region)][1]

    def _scheduled(
        self, graph: LayerGraph, workloads: Sequence[Workload]
    ) -> list[tuple[str, Workload]]:
        for workload in set(workloads):  # windows have equal ones
            default_schedule(self._hw, workload)
        names = (layer.operators[0] for layer in graph.layers)
        return list(zip(names, workloads, strict=True))


def _operators(
    candidate: OffloadCandidate,
) -> Iterable[tuple[QOperator, tuple[QTensor, ...]]]:
    """A candidate's own operator and its moves, each with its tensors."""
    if candidate.operator is not None and candidate.output is not None:
        yield candidate.operator, (*candidate.inputs, candidate.output)
    yield from candidate.moves


def _told(error: TilewrightError) -> str:
    """What is wrong, in one sentence; a rule alone does not say of what."""
    if not error.rule.startswith("must"):
        return error.rule
    return f"{error.field.removeprefix('.')} {error.rule}, not {error.value}"


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
