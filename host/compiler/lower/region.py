# SPDX-License-Identifier: Apache-2.0
"""Lowers the layers of a region into one `RegionProgram`, from its inputs to its outputs.

Layers follow each other in one instruction stream: a fence of tokens between two layers takes the
place of the host. Activations share an arena (`host.compiler.lower.memory`); weights, parameters
and micro-ops are packed once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import prod

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ScheduleError, WorkloadError
from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer, LayerGraph
from tilewright.host.compiler.lower.memory import Arena, Lifetime, place
from tilewright.host.compiler.lower.region_program import (
    Folding,
    LayerCode,
    RegionProgram,
    TensorBuffer,
)
from tilewright.host.lowering.emission import OperandPlacement
from tilewright.host.lowering.gathers import emit_gather
from tilewright.host.lowering.geometry import folds, geometry
from tilewright.host.lowering.layer import append_layer
from tilewright.host.lowering.program_builder import ProgramBuilder
from tilewright.host.lowering.row_emit import emit_rows
from tilewright.host.lowering.row_layers import packed_addend
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import REGION_ALIGNMENT
from tilewright.host.network.layout import (
    blocks_of,
    chains,
    input_block,
    output_block,
    pack_activations,
    pack_params,
    pack_table,
    pack_weights_of,
)
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload

Bytes = npt.NDArray[np.uint8]
Int8Array = npt.NDArray[np.int8]
ScheduleOf = Callable[[Workload], Schedule]
"""The schedule of a layer's workload: tuned, or `host.lowering.default_schedule`."""


def lower_region(graph: LayerGraph, hw: HwConfig, schedule_of: ScheduleOf) -> RegionProgram:
    """Lower all layers of a region into one program.

    Args:
        graph: the region, made for this configuration's channel blocks.
        hw: the configuration; more than one layer must chain on it (`host.network.layout.chains`).
        schedule_of: a legal schedule for each workload.

    Raises:
        ScheduleError: a configuration whose layers do not chain, or a schedule that is not legal.
        WorkloadError: a batch of parts that the layout does not hold.
    """
    if len(graph.layers) > 1 and not chains(hw):
        raise ScheduleError(
            "layers chain only if batch is 1 or block_in equals block_out",
            field=hw.name,
            value=f"batch {hw.batch}, block_in {hw.block_in}, block_out {hw.block_out}",
            remedy="lower each layer as a region of its own",
        )
    return _RegionLowering(graph, hw, schedule_of).lower()


def as_computed(hw: HwConfig, layer: Layer, *, from_host: bool) -> Workload:
    """The workload of a layer in its place: this is what is tuned and scheduled.

    Kernel columns can be unrolled into channels only by the host. Where another layer wrote the
    input, the channels of its partly filled block count, so that nothing is unrolled.
    """
    workload = layer.workload
    if from_host or not folds(hw, workload):
        return workload
    return replace(workload, channels_in=hw.block_in)


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


class _RegionLowering:
    def __init__(self, graph: LayerGraph, hw: HwConfig, schedule_of: ScheduleOf) -> None:
        self.graph = graph
        self.hw = hw
        self.schedule_of = schedule_of
        self.workloads = [
            as_computed(hw, layer, from_host=self._from_host(layer)) for layer in graph.layers
        ]
        self.first_reader: dict[str, Workload] = {}
        """By tensor, of the layers that read it to INP; others read what outputs are, to RES."""
        for layer, workload in zip(graph.layers, self.workloads, strict=True):
            if workload.kind.weighs and isinstance(layer.data, ChannelSlice):
                self.first_reader.setdefault(layer.data.tensor, workload)
        self.constants: list[bytes] = []
        self.constant_bytes = 0
        self.uops: list[bytes] = []
        self.uop_bytes = 0
        self.planes: dict[bytes, int] = {}
        """Offsets of what softmax adds to its rows."""
        self.held: dict[str, int] = {}
        """Where the region's own tensors lie."""

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
        codes = []
        for index, (layer, workload) in enumerate(zip(graph.layers, workloads, strict=True)):
            builder.fence()
            first = len(builder)
            offsets = {
                name: weights_at + offset for name, offset in constants[index].items()
            } | self._operands(layer, index, arena, folded=foldings[index] is not None)
            schedule = self.schedule_of(workload)
            placement = OperandPlacement(
                offsets=offsets,
                uop=uop_at + self.uop_bytes,
                pad_value=layer.pad_value,
                weights_by_input=isinstance(layer.weights, ChannelSlice),
                factor_zero=layer.factor_zero,
                spread=layer.spread,
                input_plane=0 if foldings[index] is not None else self._plane(layer.data),
                weight_plane=0 if layer.weight_packing else self._plane(layer.weights),
            )
            if layer.rows is not None:
                emitted = emit_rows(builder, workload.input_shape, layer.rows, placement)
            elif layer.pixels is not None:
                source = prod(graph.tensors[_data_tensor(layer)].shape[2:])
                emitted = emit_gather(
                    builder, workload.channels_in, layer.pixels, source, placement
                )
            else:
                emitted = append_layer(
                    builder,
                    workload,
                    schedule,
                    clip=(layer.requant.clip_min, layer.requant.clip_max),
                    placement=placement,
                )
            padding = _aligned(len(emitted.uops)) - len(emitted.uops) if emitted.uops else 0
            self.uops += [emitted.uops, bytes(padding)]
            self.uop_bytes += len(emitted.uops) + padding
            codes.append(
                LayerCode(
                    name=layer.name,
                    workload=workload,
                    schedule=schedule,
                    first=first,
                    count=len(builder) - first,
                    operators=layer.operators,
                    macs_tiles=emitted.macs_tiles,
                    bytes_read=emitted.bytes_read,
                    bytes_written=emitted.bytes_written,
                )
            )
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

    # -- activations --------------------------------------------------------------------------

    def _from_host(self, layer: Layer) -> bool:
        """Whether the host writes the layer's whole input, in whatever form suits it."""
        if not isinstance(layer.data, ChannelSlice):
            return True
        tensor = self.graph.tensors[layer.data.tensor]
        return tensor.name in self.graph.inputs and tensor.shape[1] == layer.workload.channels_in

    def _stored(self, tensor: str) -> _Stored:
        """How a tensor lies in DRAM; where layers chain it lies so for every layer."""
        shape = self.graph.tensors[tensor].shape
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
        end = len(graph.layers)
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

        for step, (layer, folding) in enumerate(zip(graph.layers, foldings, strict=True)):
            for tensor in layer.reads():
                if folding is not None and tensor == _data_tensor(layer):
                    name = _folded_name(tensor, step)
                    used(name, -1, self._folded_stored(step).nbytes)
                    used(name, step, sizes[name])
                else:
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
            for name, plane in packed_addend(hw, layer.rows).items():  # heads share a mask
                key = plane.tobytes()
                if key not in self.planes:
                    self.planes[key] = self._constant(plane)
                offsets[name] = self.planes[key]
        if isinstance(layer.weights, np.ndarray):
            weights = layer.weights
            missing = workload.channels_in - layer.workload.channels_in
            if missing:
                weights = np.pad(weights, ((0, 0), (0, missing), (0, 0), (0, 0)))
            shape = geometry(hw, workload)
            packed = pack_weights_of(
                weights, hw, depthwise=shape.depthwise, folded=shape.folded, int4=shape.int4
            )
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
        offset = self.constant_bytes
        padded = _aligned(data.size)
        self.constants += [data.tobytes(), bytes(padded - data.size)]
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
