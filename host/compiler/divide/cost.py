# SPDX-License-Identifier: Apache-2.0
"""Seconds that operators cost on either side: the figures behind `host.compiler.divide.offload`.

The accelerator's cost is the bound of the layers (`host.lowering.cycle_bound`) that compute an
operator where the accelerator takes all that it can: fused, with the copies and moves that are
really made. The rest is what `host.compiler.pack.latency` reports, from the board's rates
(`host.machine.board.CpuModel`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod
from typing import Final

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
        self._reasons: Final[dict[int, str]] = {}

    def why(self, candidate: int) -> str:
        """Why `choose` has left a candidate to the CPU."""
        return self._reasons[candidate]

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

    def choose(self, graph: OffloadGraph) -> set[int]:
        """Ids of the candidates whose place is the accelerator, at the least total cost."""
        cpu, seconds = self._board.cpu, self._accelerator_seconds(graph)
        costs = [
            OperatorCost(
                name=str(candidate.id),
                cpu_seconds=cpu.work_seconds(macs=candidate.work.macs, nbytes=candidate.work.bytes),
                accelerator_seconds=seconds[candidate.id],
            )
            for candidate in graph.candidates
        ]
        left = [OperatorCost(name=str(node.id), cpu_seconds=0.0) for node in graph.cpu_nodes]
        nodes = sorted((*costs, *left), key=lambda cost: int(cost.name))
        crossings = [
            TransferCost(
                producer="" if edge.source is None else str(edge.source),
                consumers=(*map(str, edge.readers), *(("",) if edge.leaves else ())),
                seconds=cpu.transfer_seconds(edge.bytes),
            )
            for edge in graph.edges
        ]
        for cost in costs:
            self._reasons[int(cost.name)] = (
                f"with its conversions it takes {_milliseconds(cost.cpu_seconds)} on the CPU "
                f"and {_milliseconds(cost.accelerator_seconds)} on the accelerator, and its "
                "transfers cost more than that saves"
            )
        return {int(name) for name in place(nodes, crossings, cpu.call_seconds).accelerated}

    def _accelerator_seconds(self, graph: OffloadGraph) -> dict[int, float]:
        """By candidate, of the layers that compute it and move data for it.

        What fuses with another candidate costs nothing. A region that does not lower as a whole
        is priced operator by operator.
        """
        owners = {
            (candidate.region, operator.name): candidate.id
            for candidate in graph.candidates
            for operator, _ in _operators(candidate)
        }
        found = dict.fromkeys((candidate.id for candidate in graph.candidates), 0.0)
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
                waiting += self._seconds(workload)
                if latest is not None:
                    found[latest] += waiting
                    waiting = 0.0
        return found

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
        try:
            graph = self._lower(region)
            return self._scheduled(graph, workloads_in_place(self._hw, graph))
        except TilewrightError:
            return None

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
