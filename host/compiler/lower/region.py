# SPDX-License-Identifier: Apache-2.0
"""Lowers the layers of a region into one `RegionProgram`, from its inputs to its outputs.

Layers follow each other in one instruction stream: a fence of tokens takes the place of the host.
It parts layers but those of a run, which need not wait for each other (`host.compiler.lower.runs`).
Activations share an arena (`host.compiler.lower.memory`); weights, parameters and micro-ops are
packed once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ScheduleError, WorkloadError
from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer, LayerGraph
from tilewright.host.compiler.lower.memory import Arena, Lifetime, place
from tilewright.host.compiler.lower.output_order import Leaving, pixel_channels
from tilewright.host.compiler.lower.region_program import (
    Folding,
    LayerCode,
    RegionProgram,
    TensorBuffer,
)
from tilewright.host.compiler.lower.runs import runs_of
from tilewright.host.compiler.lower.workloads import fits_int4
from tilewright.host.lowering.default import default_schedule
from tilewright.host.lowering.emission import Emitted, OperandPlacement
from tilewright.host.lowering.emit import LayersBefore
from tilewright.host.lowering.gathers import emit_gather
from tilewright.host.lowering.geometry import geometry
from tilewright.host.lowering.layer import append_layer
from tilewright.host.lowering.plan import Plan, make_plan
from tilewright.host.lowering.program_builder import ProgramBuilder
from tilewright.host.lowering.row_emit import emit_rows
from tilewright.host.lowering.row_layers import packed_addend
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import REGION_ALIGNMENT
from tilewright.host.network.int4_tiles import pack_int4
from tilewright.host.network.layout import (
    behind_a_layer,
    blocks_of,
    chains,
    folds,
    input_block,
    output_block,
    pack_activations,
    pack_params,
    pack_table,
    weight_tiles,
)
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload

Bytes = npt.NDArray[np.uint8]
Int8Array = npt.NDArray[np.int8]
ScheduleOf = Callable[[Workload], Schedule]
"""The schedule of a layer's workload: tuned, or `host.lowering.default_schedule`."""


def lower_region(
    graph: LayerGraph, hw: HwConfig, schedule_of: ScheduleOf, leaving: Leaving | None = None
) -> RegionProgram:
    """Lower all layers of a region into one program."""
    if len(graph.layers) > 1 and not chains(hw):
        raise ScheduleError(
            "layers chain only if batch is 1 or block_in equals block_out",
            field=hw.name,
            value=f"batch {hw.batch}, block_in {hw.block_in}, block_out {hw.block_out}",
            remedy="lower each layer as a region of its own",
        )
    return _RegionLowering(graph, hw, schedule_of, leaving).lower()


def as_computed(hw: HwConfig, layer: Layer, *, from_host: bool) -> Workload:
    """The workload of a layer in its place: this is what is tuned and scheduled.

    Kernel columns can be unrolled into channels only by the host.
    """
    workload = layer.workload if from_host else behind_a_layer(layer.workload)
    if workload.weight_bits == 4 and isinstance(layer.weights, np.ndarray):
        packed = fits_int4(hw, layer.weights, folded=folds(hw, workload))
        workload = workload if packed else replace(workload, weight_bits=8)
    return workload


def workloads_in_place(hw: HwConfig, graph: LayerGraph) -> list[Workload]:
    """Of each layer (`as_computed`)."""
    return [as_computed(hw, layer, from_host=_from_host(graph, layer)) for layer in graph.layers]


def _from_host(graph: LayerGraph, layer: Layer) -> bool:
    """Whether the host writes the layer's whole input, in whatever form suits it."""
    if not isinstance(layer.data, ChannelSlice):
        return True
    tensor = graph.tensors[layer.data.tensor]
    return tensor.name in graph.inputs and tensor.shape[1] == layer.workload.channels_in


@dataclass(frozen=True, kw_only=True)
class _Stored:
    """A tensor in DRAM: bytes, channels of a stored block, stored blocks of an image."""

    nbytes: int
    block: int
    planes: int


def _stored(hw: HwConfig, shape: tuple[int, int, int, int], block: int, planes: int) -> _Stored:
    images = blocks_of(shape[0], hw.batch)
    nbytes = images * planes * shape[2] * shape[3] * hw.batch * block
    return _Stored(nbytes=nbytes, block=block, planes=planes)


_LONG_RUN: Final = 5
"""Layers of a run from which on they hide each other's loads."""


class _RegionLowering:
    def __init__(
        self,
        graph: LayerGraph,
        hw: HwConfig,
        schedule_of: ScheduleOf,
        leaving: Leaving | None,
    ) -> None:
        runs = runs_of(graph)
        self.run_of = [number for number, run in enumerate(runs) for _ in run]
        """By layer: what a run's layers read and write is in memory all the time of the run."""
        self.graph = graph = replace(graph, layers=tuple(layer for run in runs for layer in run))
        self.hw = hw
        self.schedule_of = schedule_of
        self.workloads = workloads_in_place(hw, graph)
        self.first_reader: dict[str, Workload] = {}
        """By tensor, of the layers that read it to INP; others read what outputs are, to RES."""
        for layer, workload in zip(graph.layers, self.workloads, strict=True):
            if workload.kind.weighs and isinstance(layer.data, ChannelSlice):
                self.first_reader.setdefault(layer.data.tensor, workload)
        self.constants: list[bytes] = []
        self.known: dict[bytes, int] = {}
        """Offsets of constants: layers of a run share theirs."""
        self.constant_bytes = 0
        self.uops: list[bytes] = []
        self.uop_bytes = 0
        self.held: dict[str, int] = {}
        """Where the region's own tensors lie."""
        self.channels_last: frozenset[str] = (
            frozenset()
            if leaving is None
            else leaving.stored_together(
                graph, zip(graph.layers, self.workloads, strict=True), hw, schedule_of
            )
        )
        """Results whose pixels have all their channels together."""

    def lower(self) -> RegionProgram:
        hw, graph = self.hw, self.graph
        workloads = self.workloads
        foldings = [
            _folding(hw, layer, workload)
            for layer, workload in zip(graph.layers, workloads, strict=True)
        ]
        arena = self._arena(foldings)
        held = {name: self._held(name) for name in graph.constants}
        constants = [
            self._constants(layer, workload)
            for layer, workload in zip(graph.layers, workloads, strict=True)
        ]
        weights_at = _aligned(arena.nbytes)
        self.held = {name: weights_at + offset for name, offset in held.items()}
        uop_at = weights_at + _aligned(self.constant_bytes)
        builder = ProgramBuilder(hw)
        codes: list[LayerCode] = []

        def placement(index: int) -> OperandPlacement:
            layer, folded = graph.layers[index], foldings[index] is not None
            offsets = {name: weights_at + offset for name, offset in constants[index].items()}
            return OperandPlacement(
                offsets=offsets | self._operands(layer, index, arena, folded=folded),
                uop=uop_at + self.uop_bytes,
                pad_value=layer.pad_value,
                weights_by_input=isinstance(layer.weights, ChannelSlice),
                factor_zero=layer.factor_zero,
                spread=layer.spread,
                input_plane=0 if folded else self._plane(layer.data),
                weight_plane=0 if layer.weight_packing else self._plane(layer.weights),
                channels_last=layer.output.tensor in self.channels_last,
            )

        for run in self._runs():
            builder.fence()
            if graph.layers[run[0]].rows is not None:
                codes += self._emit_rows(builder, run, placement)
                continue
            before = LayersBefore() if len(run) > 1 else None
            schedule = self._schedule(workloads[run[0]], in_long_run=len(run) >= _LONG_RUN)
            for index in run:
                codes.append(self._emit(builder, index, placement(index), schedule, before))
        program = builder.finish(
            {"activations": arena.nbytes, "weights": self.constant_bytes, "uop": self.uop_bytes},
            {"weights": b"".join(self.constants), "uop": b"".join(self.uops)},
        )
        return RegionProgram(
            hw=hw,
            name=graph.name,
            program=program,
            inputs=tuple(self._inputs(arena, foldings)),
            outputs=tuple(self._buffer(name, arena) for name in graph.outputs),
            layers=tuple(codes),
            activation_peak=arena.peak,
        )

    # -- layers -------------------------------------------------------------------------------

    def _runs(self) -> list[list[int]]:
        """The layers of each run."""
        found: list[list[int]] = [[] for _ in range(self.run_of[-1] + 1)] if self.run_of else []
        for index, run in enumerate(self.run_of):
            found[run].append(index)
        return found

    def _emit(
        self,
        builder: ProgramBuilder,
        index: int,
        placement: OperandPlacement,
        schedule: Schedule,
        before: LayersBefore | None,
    ) -> LayerCode:
        """A layer but softmax and layer normalisation."""
        layer, workload, first = self.graph.layers[index], self.workloads[index], len(builder)
        if layer.pixels is not None:
            source = prod(self.graph.tensors[_data_tensor(layer)].shape[2:])
            channels = workload.channels_in
            emitted = emit_gather(builder, channels, layer.pixels, source, placement)
        else:
            emitted = append_layer(
                builder,
                workload,
                schedule,
                clip=(layer.requant.clip_min, layer.requant.clip_max),
                placement=placement,
                before=before,
            )
        padding = _aligned(len(emitted.uops)) - len(emitted.uops) if emitted.uops else 0
        self.uops += [emitted.uops, bytes(padding)]
        self.uop_bytes += len(emitted.uops) + padding
        return self._code(index, schedule, emitted, range(first, len(builder)))

    def _emit_rows(
        self,
        builder: ProgramBuilder,
        run: list[int],
        placement: Callable[[int], OperandPlacement],
    ) -> list[LayerCode]:
        """A run of softmax, or a layer normalisation."""
        functions = [self.graph.layers[index].rows for index in run]
        layers = [
            (function, placement(index))
            for index, function in zip(run, functions, strict=True)
            if function is not None
        ]
        shape = self.workloads[run[0]].input_shape
        starts, emitted = zip(*emit_rows(builder, shape, layers), strict=True)
        spans = map(range, starts, (*starts[1:], len(builder)))
        return [
            self._code(index, self.schedule_of(self.workloads[index]), each, span)
            for index, each, span in zip(run, emitted, spans, strict=True)
        ]

    def _code(self, index: int, schedule: Schedule, emitted: Emitted, span: range) -> LayerCode:
        layer = self.graph.layers[index]
        return LayerCode(
            name=layer.name,
            workload=self.workloads[index],
            schedule=schedule,
            first=span.start,
            count=len(span),
            operators=layer.operators,
            macs_tiles=emitted.macs_tiles,
            bytes_read=emitted.bytes_read,
            bytes_written=emitted.bytes_written,
        )

    def _schedule(self, workload: Workload, *, in_long_run: bool) -> Schedule:
        """The schedule of all layers of a run: they share what is in the scratchpads.

        For a long run the largest tiles, if the scratchpads hold two such layers. Nothing is tuned
        there: the layers beside it hide what small tiles would, and large ones read least.
        """
        if in_long_run:
            largest = default_schedule(self.hw, workload)
            plan = make_plan(self.hw, workload, largest)
            if isinstance(plan, Plan) and plan.side_by_side > 1:
                return largest
        return self.schedule_of(workload)

    # -- activations --------------------------------------------------------------------------

    def _stored(self, tensor: str) -> _Stored:
        """How a tensor lies in DRAM; where layers chain it lies so for every layer."""
        shape = self.graph.tensors[tensor].shape
        if tensor in self.channels_last:
            return _stored(self.hw, shape, pixel_channels(self.hw, shape[1]), 1)
        if tensor in self.first_reader:
            block = input_block(self.hw)
            planes = blocks_of(shape[1], block)
            if not chains(self.hw):  # one layer, and its input is its own
                planes = geometry(self.hw, self.first_reader[tensor]).in_planes
            return _stored(self.hw, shape, block, planes)
        block = output_block(self.hw)
        return _stored(self.hw, shape, block, blocks_of(shape[1], block))

    def _folded_stored(self, step: int) -> _Stored:
        """How the unrolled input of a layer lies in DRAM."""
        workload = self.workloads[step]
        channels = workload.kernel_w * workload.channels_in
        shape = (workload.n, channels, workload.height, workload.out_width)
        planes = geometry(self.hw, workload).in_planes
        return _stored(self.hw, shape, input_block(self.hw), planes)

    def _arena(self, foldings: list[Folding | None]) -> Arena:
        graph = self.graph
        end = len(self.run_of)
        first: dict[str, int] = {}
        last: dict[str, int] = {}
        sizes: dict[str, int] = {}

        def used(name: str, step: int, nbytes: int) -> None:
            sizes[name] = nbytes
            first[name] = min(first.get(name, step), step)
            last[name] = max(last.get(name, step), step)

        def plain(tensor: str, step: int) -> None:
            name = graph.storage(tensor)
            if name in graph.constants:
                return
            used(name, step, self._stored(name).nbytes)

        for number, (layer, folding) in enumerate(zip(graph.layers, foldings, strict=True)):
            step = self.run_of[number]
            for tensor in layer.reads():
                folded = folding is not None and tensor == _data_tensor(layer)
                if folded:
                    name = _folded_name(tensor, number)
                    used(name, -1, self._folded_stored(number).nbytes)
                    used(name, step, sizes[name])
                if not folded or tensor in layer.reads_beside_data():
                    plain(tensor, step)
                    if graph.storage(tensor) in graph.inputs:
                        plain(tensor, -1)
            plain(layer.output.tensor, step)
        for tensor in graph.outputs:
            plain(tensor, end)
            if graph.storage(tensor) in graph.inputs:
                plain(tensor, -1)
        return place(
            {
                name: Lifetime(nbytes=sizes[name], first=first[name], last=last[name])
                for name in sizes
            },
            alignment=REGION_ALIGNMENT,
        )

    def _operands(self, layer: Layer, step: int, arena: Arena, *, folded: bool) -> dict[str, int]:
        """Byte offsets of the operands of a layer that lie among the activations."""
        offsets = {"out": self._place(layer.output, arena)}
        if isinstance(layer.data, ChannelSlice):
            offsets["inp"] = (
                arena.offsets[_folded_name(layer.data.tensor, step)]
                if folded
                else self._place(layer.data, arena)
            )
        if isinstance(layer.weights, ChannelSlice):
            offsets["wgt"] = self._place(layer.weights, arena)
        if layer.residual is not None:
            offsets["res"] = self._place(layer.residual, arena)
        if layer.factor is not None:
            offsets["factor"] = self._place(layer.factor, arena)
        if layer.mask is not None:
            offsets["mask"] = self._place(layer.mask, arena)
        return offsets

    def _plane(self, part: ChannelSlice | Int8Array | None) -> int:
        """Pixels of the tensor that holds a part; 0 of constants."""
        if not isinstance(part, ChannelSlice):
            return 0
        return prod(self.graph.tensors[self.graph.storage(part.tensor)].shape[2:])

    def _place(self, part: ChannelSlice, arena: Arena) -> int:
        name = self.graph.storage(part.tensor)
        n, _, height, width = self.graph.tensors[name].shape
        block = self._stored(name).block
        if part.channel % block or (part.channel and n != 1):
            raise WorkloadError(
                f"a part of a tensor must begin at a multiple of {block} channels, batch 1",
                field=f"{self.graph.name}.{part.tensor}",
                value=part.channel,
            )
        plane = height * width * self.hw.batch * block
        start = self.held[name] if name in self.held else arena.offsets[name]
        return start + part.channel // block * plane + part.pixel * self.hw.batch * block

    def _inputs(self, arena: Arena, foldings: list[Folding | None]) -> list[TensorBuffer]:
        graph = self.graph
        buffers = []
        for tensor in graph.inputs:
            if tensor in arena.offsets:
                buffers.append(self._buffer(tensor, arena))
        for step, (layer, folding) in enumerate(zip(graph.layers, foldings, strict=True)):
            if folding is not None:
                tensor = _data_tensor(layer)
                stored = self._folded_stored(step)
                offset = arena.offsets[_folded_name(tensor, step)]
                buffers.append(self._laid_out(tensor, offset, stored, folding))
        return buffers

    def _buffer(self, tensor: str, arena: Arena) -> TensorBuffer:
        storage = self.graph.storage(tensor)
        return self._laid_out(tensor, arena.offsets[storage], self._stored(storage))

    def _laid_out(
        self, tensor: str, offset: int, stored: _Stored, folding: Folding | None = None
    ) -> TensorBuffer:
        return TensorBuffer(
            tensor=tensor,
            shape=self.graph.tensors[tensor].shape,
            offset=offset,
            nbytes=stored.nbytes,
            block=stored.block,
            planes=stored.planes,
            folding=folding,
        )

    # -- constants ----------------------------------------------------------------------------

    def _constants(self, layer: Layer, workload: Workload) -> dict[str, int]:
        """Pack weights and parameters; their offsets in region ``weights``."""
        hw = self.hw
        offsets = {"param": self._constant(pack_params(layer.requant, block_out=hw.block_out))}
        if layer.requant.table is not None:
            table = pack_table(layer.requant.table, axi_bytes=hw.axi_bytes)
            offsets["table"] = self._constant(table)
        if layer.rows is not None:
            for name, plane in packed_addend(hw, layer.rows).items():
                offsets[name] = self._constant(plane)
        if isinstance(layer.weights, np.ndarray):
            shape = geometry(hw, workload)
            packed = weight_tiles(layer.weights, hw, depthwise=shape.depthwise, folded=shape.folded)
            if shape.int4:
                packed = pack_int4(packed, hw, f"{workload.name}.weights")
            offsets["wgt"] = self._constant(packed)
        if isinstance(layer.data, np.ndarray):
            offsets["inp"] = self._constant(
                pack_activations(layer.data, batch=hw.batch, block=input_block(hw))
            )
        return offsets

    def _held(self, name: str) -> int:
        """Pack a tensor of the region's own; its offset in region ``weights``."""
        stored, values = self._stored(name), self.graph.constants[name]
        batch = self.hw.batch
        return self._constant(
            pack_activations(values, batch=batch, block=stored.block, channel_blocks=stored.planes)
        )

    def _constant(self, data: Bytes) -> int:
        """Bytes that may have been packed before; their offset."""
        raw = data.tobytes()
        known = self.known.get(raw)
        if known is not None:
            return known
        offset = self.known[raw] = self.constant_bytes
        padded = _aligned(data.size)
        self.constants += [raw, bytes(padded - data.size)]
        self.constant_bytes += padded
        return offset


def _aligned(nbytes: int) -> int:
    return -(-max(nbytes, 1) // REGION_ALIGNMENT) * REGION_ALIGNMENT


def _data_tensor(layer: Layer) -> str:
    return layer.data.tensor if isinstance(layer.data, ChannelSlice) else ""


def _folded_name(tensor: str, step: int) -> str:
    return f"{tensor}/folded/{step}"


def _folding(hw: HwConfig, layer: Layer, workload: Workload) -> Folding | None:
    if not isinstance(layer.data, ChannelSlice) or not folds(hw, workload):
        return None
    return Folding(
        kernel_w=workload.kernel_w,
        stride_w=workload.stride_w,
        dilation_w=workload.dilation_w,
        pad_left=workload.pad_left,
        pad_right=workload.pad_right,
        out_width=workload.out_width,
        pad_value=layer.pad_value,
    )
