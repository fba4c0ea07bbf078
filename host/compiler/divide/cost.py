# SPDX-License-Identifier: Apache-2.0
"""Seconds that operators cost on either side: the figures behind `host.compiler.divide.offload`.

A ranking, not a measurement: the accelerator's cost is the bound of its layers
(`host.lowering.cycle_bound`), the CPU's follows from the board's two figures
(`host.machine.board.CpuModel`).
"""

from __future__ import annotations

from math import inf
from typing import Final

from tilewright.host.common.errors import TilewrightError
from tilewright.host.compiler.divide.offload import OperatorCost, TransferCost, assign
from tilewright.host.compiler.divide.placement import OffloadCandidate, OffloadGraph
from tilewright.host.compiler.lower.layers import layer_graph
from tilewright.host.compiler.lower.qgraph import QGraph
from tilewright.host.lowering import default_schedule
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig

MOVED_ELEMENTS: Final = 2
"""A tensor that crosses is read and written once: quantised or packed."""


class CostModel:
    """Costs of a network's operators on a board.

    Args:
        hw: the accelerator's configuration.
        board: clock, memory timing and CPU.
        offload_all: whatever the accelerator can compute costs nothing there.
    """

    def __init__(self, hw: HwConfig, board: Board, *, offload_all: bool = False) -> None:
        self._hw: Final = hw
        self._board: Final = board
        self._offload_all: Final = offload_all

    def choose(self, graph: OffloadGraph) -> set[int]:
        """Ids of the candidates whose place is the accelerator, at the least total cost."""
        cpu = self._board.cpu
        candidates, crossings = [], []
        for candidate in graph.candidates:
            moved = candidate.bytes_in + candidate.bytes_out
            seconds = candidate.macs / cpu.macs_per_second + moved / cpu.bytes_per_second
            candidates.append(
                OperatorCost(
                    name=str(candidate.id),
                    cpu_seconds=seconds if candidate.operator is not None else 0.0,
                    accelerator_seconds=self._accelerator_seconds(candidate),
                )
            )
        for node in graph.cpu_nodes:
            candidates.append(OperatorCost(name=str(node.id), cpu_seconds=0.0))
        for edge in graph.edges:
            seconds = MOVED_ELEMENTS * edge.bytes / cpu.bytes_per_second
            crossings.append(
                TransferCost(
                    producer="" if edge.source is None else str(edge.source),
                    consumers=(*map(str, edge.readers), *(("",) if edge.leaves else ())),
                    seconds=0.0 if self._offload_all else seconds + cpu.call_seconds,
                )
            )
        return {int(name) for name in assign(candidates, crossings).accelerated}

    def _accelerator_seconds(self, candidate: OffloadCandidate) -> float:
        if candidate.operator is None or candidate.output is None:
            return 0.0
        hw, operator = self._hw, candidate.operator
        tensors = {tensor.name: tensor for tensor in (*candidate.inputs, candidate.output)}
        alone = QGraph(
            name=operator.name,
            tensors=tensors,
            operators=(operator,),
            inputs=tuple(dict.fromkeys(operator.inputs)),
            outputs=(operator.output,),
        )
        try:
            layers = layer_graph(alone, hw).layers
            for layer in layers:
                default_schedule(hw, layer.workload)
        except TilewrightError:
            return inf
        if self._offload_all:
            return 0.0
        cycles = sum(bound(hw, layer.workload, self._board.memory).cycles for layer in layers)
        return cycles / (self._board.clock_mhz * 1e6)
