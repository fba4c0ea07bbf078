# SPDX-License-Identifier: Apache-2.0
"""Which results of a region lie in DRAM as the model has them, so that nobody unpacks them.

A layer's output lies in blocks of channels, because the next layer reads it so. Where no layer
reads it, all channels of a pixel can lie together. That is the model's order where channels are
its last axis, such as logits of tokens. STORE then writes a row for each pixel, as long as a tile
has channels. Short rows take STORE longer. So an output lies so only if that costs less than to
unpack it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from math import prod

from tilewright.host.compiler.lower.layer_graph import Layer, LayerGraph
from tilewright.host.compiler.lower.qgraph import is_channels_last
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.lowering.outputs import channels_last
from tilewright.host.lowering.plan import Plan, make_plan
from tilewright.host.lowering.store_cycles import store_cycles
from tilewright.host.lowering.transfers import ROW_MAX, STRIDE_MAX
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload


@dataclass(frozen=True, kw_only=True)
class ModelOrder:
    """What decides how the results of a region lie.

    Attributes:
        shapes: that the model gives them, where they differ from the normal form.
        board: its memory's timing and its CPU.
    """

    shapes: Mapping[str, tuple[int, ...]]
    board: Board

    def results(
        self,
        graph: LayerGraph,
        computed: Iterable[tuple[Layer, Workload]],
        hw: HwConfig,
        schedule_of: Callable[[Workload], Schedule],
    ) -> frozenset[str]:
        """Results whose channels lie together at each pixel.

        Args:
            graph: the region.
            computed: its layers, with their workloads as they are computed.
            hw: the configuration.
            schedule_of: a legal schedule for each workload.
        """
        ends = self._ends(graph, hw)
        found = set()
        for layer, workload in computed:
            name = layer.output.tensor
            if name in ends and _writes(layer, graph.tensors[name].shape):
                plan = make_plan(hw, workload, schedule_of(workload))
                if isinstance(plan, Plan) and self._pays(plan):
                    found.add(name)
        return frozenset(found)

    def _ends(self, graph: LayerGraph, hw: HwConfig) -> Collection[str]:
        """Results that no layer reads, of one image of several pixels, with channels last."""
        read = {graph.storage(name) for layer in graph.layers for name in layer.reads()}
        fixed = {*read, *graph.inputs, *graph.constants, *graph.aliases, *graph.aliases.values()}

        def fits(name: str) -> bool:
            shape = graph.tensors[name].shape
            n, channels, height, width = shape
            whole = n == hw.batch == 1 and height * width > 1 and channels % hw.block_out == 0
            return whole and is_channels_last(shape, self.shapes.get(name, shape))

        return {name for name in graph.outputs if name not in fixed and fits(name)}

    def _pays(self, plan: Plan) -> bool:
        """Whether the CPU saves more by not writing the elements anew than STORE takes longer.

        STORE goes on beside the array and LOAD: what they take at least hides it.
        """
        shape = plan.shape
        line = shape.out_width * shape.out_blocks
        row = plan.columns.count * shape.out_blocks
        if row > ROW_MAX or line * shape.out_height > STRIDE_MAX:
            return False
        memory, cpu = self.board.memory, self.board.cpu
        hidden = max(bound(plan.hw, plan.workload, memory).cycles, store_cycles(plan, memory))
        longer = max(store_cycles(channels_last(plan), memory) - hidden, 0.0)
        saved = cpu.work_seconds(nbytes=prod(plan.workload.output_shape))
        return longer / (self.board.clock_mhz * 1e6) < saved


def _writes(layer: Layer, shape: tuple[int, int, int, int]) -> bool:
    """Whether a layer is one of GEMM's that writes a whole tensor, and adds none to it."""
    workload = layer.workload
    whole = workload.kind.weighs and workload.output_shape == shape
    return whole and layer.spread is None and layer.residual is None
