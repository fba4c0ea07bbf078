# SPDX-License-Identifier: Apache-2.0
"""Seconds that operators cost on either side: the figures behind `host.compiler.divide.offload`.

The accelerator's cost is the bound of its layers (`host.lowering.cycle_bound`). The rest is what
`host.compiler.pack.latency` reports, from the board's rates (`host.machine.board.CpuModel`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, isfinite
from typing import Final

from tilewright.host.common.errors import TilewrightError
from tilewright.host.compiler.divide.offload import OperatorCost, TransferCost, place
from tilewright.host.compiler.divide.placement import OffloadCandidate, OffloadGraph
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import (
    QAdd,
    QConcat,
    QConv,
    QGraph,
    QOperator,
    QRescale,
    QSelect,
    QTensor,
)
from tilewright.host.compiler.lower.region import as_computed
from tilewright.host.lowering import default_schedule
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.workload import Workload


class CostModel:
    """Costs of a network's operators on a board."""

    def __init__(self, hw: HwConfig, board: Board, *, offload_all: bool = False) -> None:
        self._hw: Final = hw
        self._board: Final = board
        self._offload_all: Final = offload_all
        self._reasons: Final[dict[int, str]] = {}

    def why(self, candidate: int) -> str:
        """Why `choose` has left a candidate to the CPU."""
        return self._reasons[candidate]

    def choose(self, graph: OffloadGraph) -> set[int]:
        """Ids of the candidates whose place is the accelerator, at the least total cost."""
        cpu = self._board.cpu
        fused, inside = _fused(graph) | _noted(graph), _inside(graph)
        costs = [
            OperatorCost(
                name=str(candidate.id),
                cpu_seconds=cpu.work_seconds(macs=candidate.work.macs, nbytes=candidate.work.bytes),
                accelerator_seconds=self._accelerator_seconds(
                    candidate, fused=candidate.id in fused, from_host=candidate.id not in inside
                ),
            )
            for candidate in graph.candidates
        ]
        left = [OperatorCost(name=str(node.id), cpu_seconds=0.0) for node in graph.cpu_nodes]
        nodes = sorted((*costs, *left), key=lambda cost: int(cost.name))
        crossings = [
            TransferCost(
                producer="" if edge.source is None else str(edge.source),
                consumers=(*map(str, edge.readers), *(("",) if edge.leaves else ())),
                seconds=0.0 if self._offload_all else cpu.transfer_seconds(edge.bytes),
            )
            for edge in graph.edges
        ]
        found = place(nodes, crossings, 0.0 if self._offload_all else cpu.call_seconds)
        taken = {int(name) for name in found.accelerated}
        for cost in costs:
            if isfinite(cost.accelerator_seconds):
                self._reasons[int(cost.name)] = (
                    f"with its conversions it takes {_milliseconds(cost.cpu_seconds)} on the CPU "
                    f"and {_milliseconds(cost.accelerator_seconds)} on the accelerator, and its "
                    "transfers cost more than that saves"
                )
        return taken

    def _accelerator_seconds(
        self, candidate: OffloadCandidate, *, fused: bool, from_host: bool
    ) -> float:
        workloads: list[Workload] = []
        try:
            for move, tensors in candidate.moves:
                workloads += self._workloads(move, tensors, from_host=False)
            if candidate.operator is not None and candidate.output is not None:
                tensors = (*candidate.inputs, candidate.output)
                own = self._workloads(candidate.operator, tensors, from_host=from_host)
                workloads += [] if fused else own
        except TilewrightError as error:
            self._reasons[candidate.id] = f"the accelerator cannot run it: {_told(error)}"
            return inf
        if self._offload_all:
            return 0.0
        cycles = sum(bound(self._hw, each, self._board.memory).cycles for each in workloads)
        return cycles / (self._board.clock_mhz * 1e6)

    def why_not(self, operator: QOperator, tensors: Sequence[QTensor]) -> str | None:
        """Why the accelerator does not run an operator behind others; None: it does."""
        try:
            self._workloads(operator, tensors, from_host=False)
        except TilewrightError as error:
            return _told(error)
        return None

    def _workloads(
        self, operator: QOperator, tensors: Sequence[QTensor], *, from_host: bool
    ) -> list[Workload]:
        """Of the layers of an operator, whose data the host writes or other layers."""
        alone = QGraph(
            name=operator.name,
            tensors={tensor.name: tensor for tensor in tensors},
            operators=(operator,),
            inputs=tuple(dict.fromkeys(operator.inputs)),
            outputs=(operator.output,),
        )
        workloads = [
            as_computed(self._hw, layer, from_host=from_host)
            for layer in layer_graph(alone, self._hw).layers
        ]
        for workload in set(workloads):  # windows have equal ones
            default_schedule(self._hw, workload)
        return workloads


def _told(error: TilewrightError) -> str:
    """What is wrong, in one sentence; a rule alone does not say of what."""
    if not error.rule.startswith("must"):
        return error.rule
    return f"{error.field.removeprefix('.')} {error.rule}, not {error.value}"


def _fused(graph: OffloadGraph) -> set[int]:
    """Adds and rescalings that go into the epilogue of the layer in front of them."""
    layers = {c.id for c in graph.candidates if isinstance(c.operator, QConv)}
    epilogues = {c.id for c in graph.candidates if isinstance(c.operator, QAdd | QRescale)}
    return {
        edge.readers[0]
        for edge in graph.edges
        if edge.source in layers
        and len(edge.readers) == 1
        and not edge.leaves
        and edge.readers[0] in epilogues
    }


def _inside(graph: OffloadGraph) -> set[int]:
    """What reads the result of another candidate, which is hardly ever left to the host."""
    candidates = {candidate.id for candidate in graph.candidates}
    return {r for edge in graph.edges if edge.source in candidates for r in edge.readers}


def _noted(graph: OffloadGraph) -> set[int]:
    """Selections of channels that only concatenations and selections read.

    They are notes of where channels lie, and a concatenation is priced with copies of its parts.
    Another reader pays for channels among others: at most a copy, which is the selection's price.
    """
    operators = {candidate.id: candidate.operator for candidate in graph.candidates}
    return {
        edge.source
        for edge in graph.edges
        if edge.source is not None
        and isinstance(operators.get(edge.source), QSelect)
        and not edge.leaves
        and all(isinstance(operators.get(r), QConcat | QSelect) for r in edge.readers)
    }


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:.3g} ms"
