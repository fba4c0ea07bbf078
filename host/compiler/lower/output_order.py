# SPDX-License-Identifier: Apache-2.0
"""Which results of a region the caller gets where they lie in memory, so that nobody unpacks them.

A layer's output lies in blocks of channels, because the next layer reads it so. Where no layer
reads it, all channels of a pixel can lie together, with what fills up the last block behind them.
Logits of tokens are then in the model's order. Images and heads of detectors are not, but an array
with other strides is a view of that memory: it serves a caller, and what converts it for one.

STORE writes a row for each pixel, as long as a tile has channels. Short rows take STORE longer. So
an output lies so only if that costs less than to unpack it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tilewright.host.compiler.lower.layer_graph import Layer, LayerGraph
from tilewright.host.compiler.lower.qgraph import is_channels_last
from tilewright.host.compiler.lower.region_program import RegionProgram, TensorBuffer
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.lowering.outputs import channels_last, store_cycles
from tilewright.host.lowering.plan import Plan, make_plan
from tilewright.host.lowering.transfers import ROW_MAX, STRIDE_MAX
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import blocks_of
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload


def pixel_channels(hw: HwConfig, channels: int) -> int:
    """Channels that STORE writes for a pixel where all of them lie together."""
    return blocks_of(channels, hw.block_out) * hw.block_out


@dataclass(frozen=True, kw_only=True)
class Leaving:
    """What decides how the results of a region lie and leave.

    Attributes:
        shapes: that the model gives them, where they differ from the normal form.
    """

    shapes: Mapping[str, tuple[int, ...]]
    any_strides: frozenset[str]  # those whose readers take any strides (`qgraph.QGraph`)
    board: Board | None  # its memory's timing and its CPU; None: all lie in blocks

    def views(self, program: RegionProgram) -> frozenset[str]:
        """Results that the caller gets where they lie, once the region is lowered."""
        return frozenset(
            buffer.tensor
            for buffer in program.outputs
            if buffer.channels_together and program.hw.batch == 1 and self._is_taken(buffer)
        )

    def _is_taken(self, buffer: TensorBuffer) -> bool:
        """Whether a result serves its readers where it lies, at less than what a copy costs."""
        fills = buffer.block == buffer.shape[1]
        in_order = fills and self._is_in_order(buffer.tensor, buffer.shape)
        return in_order or (
            buffer.tensor in self.any_strides and buffer.nbytes < 2 * prod(buffer.shape)
        )

    def _is_in_order(self, name: str, shape: tuple[int, ...]) -> bool:
        return is_channels_last(shape, self.shapes.get(name, shape))

    def stored_together(
        self,
        graph: LayerGraph,
        computed: Iterable[tuple[Layer, Workload]],
        hw: HwConfig,
        schedule_of: Callable[[Workload], Schedule],
    ) -> frozenset[str]:
        """Results whose channels lie together at each pixel because STORE writes them so."""
        if self.board is None:
            return frozenset()
        writers: dict[str, list[tuple[Layer, Workload]]] = {}
        for layer, workload in computed:
            writers.setdefault(layer.output.tensor, []).append((layer, workload))
        found = set()
        for name in self._ends(graph, hw):
            shape = graph.tensors[name].shape
            if not all(_writes(layer, shape) for layer, _ in writers[name]):
                continue
            plans = [make_plan(hw, each, schedule_of(each)) for _, each in writers[name]]
            known = [plan for plan in plans if isinstance(plan, Plan)]
            if len(known) == len(plans) and _fits(known, shape) and self._pays(known, shape):
                found.add(name)
        return frozenset(found)

    def _ends(self, graph: LayerGraph, hw: HwConfig) -> Iterable[str]:
        """Results that no layer reads, of several pixels of one image, for who takes them so."""
        read = {graph.storage(name) for layer in graph.layers for name in layer.reads()}
        fixed = {*read, *graph.inputs, *graph.constants, *graph.aliases, *graph.aliases.values()}

        def fits(name: str) -> bool:
            shape = graph.tensors[name].shape
            n, channels, height, width = shape
            fills = channels == pixel_channels(hw, channels)
            serves = name in self.any_strides or (fills and self._is_in_order(name, shape))
            return n == hw.batch == 1 and height * width > 1 and serves

        return [name for name in dict.fromkeys(graph.outputs) if name not in fixed and fits(name)]

    def _pays(self, plans: Sequence[Plan], shape: tuple[int, int, int, int]) -> bool:
        """Whether the CPU saves more by not writing the elements anew than STORE takes longer.

        STORE goes on beside the array and LOAD: what they take at least hides it. The CPU reads
        what fills up the last block, too.
        """
        assert self.board is not None
        memory, cpu = self.board.memory, self.board.cpu
        longer = 0.0
        for plan in plans:
            floor = bound(plan.hw, plan.workload, memory).cycles
            hidden = max(floor, store_cycles(plan, memory))
            longer += max(store_cycles(channels_last(plan), memory) - hidden, 0.0)
        pixels, elements = prod(shape[2:]), prod(shape)
        read = pixels * pixel_channels(plans[0].hw, shape[1])
        saved = cpu.transfer_seconds(elements) - cpu.work_seconds(nbytes=read)
        return longer / (self.board.clock_mhz * 1e6) < saved


def _writes(layer: Layer, shape: tuple[int, int, int, int]) -> bool:
    """Whether a layer is one of GEMM's that writes all channels of whole rows, and adds nothing."""
    workload, spread = layer.workload, layer.spread
    _, channels, _, width = workload.output_shape
    if not workload.kind.weighs or layer.residual is not None:
        return False
    if spread is None:
        return workload.output_shape == shape
    steps = spread.row_step, spread.column_step, spread.first_column
    rows = steps == (1, 1, 0) and (spread.height, spread.width) == shape[2:]
    return rows and (channels, width) == (shape[1], shape[3]) and layer.output.channel == 0


def _fits(plans: Sequence[Plan], shape: tuple[int, int, int, int]) -> bool:
    """Whether STORE can write such rows."""
    blocks = plans[0].shape.out_blocks
    longest = max(plan.columns.count * blocks for plan in plans)
    return longest <= ROW_MAX and prod(shape[2:]) * blocks <= STRIDE_MAX
