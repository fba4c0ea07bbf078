# SPDX-License-Identifier: Apache-2.0
"""Where the channels of tensors lie: splits, shuffles, concatenations that copy little.

A part of a tensor begins at a stored block of channels. The model cuts, joins and permutes channels
anywhere. So a tensor of the model is some channels of a stored tensor, in any order and with holes
between them:

- a selection (split, slice, shuffle) is a note of which channels it is; nothing is computed;
- a concatenation stores its parts at blocks. A part is computed in its place where that changes no
  other reader; otherwise it is copied, at the scale of the result;
- a convolution reads the blocks in which its channels lie: its weights for others are zero;
- a concatenation that only depthwise 1x1 convolutions read (batch normalisation in dense blocks)
  leaves its parts the scales that they have: those convolutions take account of them;
- what works channel by channel (depthwise convolution, pool, rescaling, enlargement, move of
  pixels) keeps places and holes.

A hole may hold anything, since nothing but zero weights meets it. What takes none of these forms
reads a copy without holes: by depthwise identities where channels follow each other, all of them or
in runs of whole blocks, otherwise by a 1x1 convolution with one weight per output. All are exact
but for the change of scale. Few channels that are read often are copied once before. A copy is also
made where the products with zeros would take more array cycles.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.epilogue import COPY_WEIGHT, copied_entries
from tilewright.host.compiler.lower.qgraph import (
    UNBOUNDED,
    QAdd,
    QConcat,
    QConv,
    QEnlarge,
    QExtreme,
    QGather,
    QGraph,
    QMatmul,
    QMultiply,
    QOperator,
    QPool,
    QRescale,
    QReshape,
    QSelect,
    QSoftmax,
    QTensor,
    compose,
)
from tilewright.host.network.layout import blocks_of

_IN_PLACE: Final = (QConv, QPool, QAdd, QMatmul, QMultiply, QExtreme, QRescale, QEnlarge,
                    QSoftmax)  # fmt: skip
"""Operators that can write into a concatenation."""


_BY_CHANNEL: Final = (QEnlarge, QGather, QPool, QRescale)
"""Operators whose result lies as their data do."""


@dataclass(frozen=True, kw_only=True)
class Lying:
    """A tensor of the model as channels of a stored tensor.

    Attributes:
        scales: scale and zero point of each channel, where they are not those of the stored one.
    """

    tensor: str  # name of the stored one
    channels: tuple[int, ...]  # where each channel lies in it
    scales: tuple[tuple[float, int], ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class StoredGraph:
    """A graph on stored tensors, without selections and concatenations.

    Attributes:
        inputs, outputs: tensor names.
        constants: the elements of tensors that the region holds itself.
        parts: tensors that are channels of another one: its name and the first channel.
        lies: where the tensors of the model lie that have no bytes of their own, or several scales.
    """

    name: str  # label
    tensors: Mapping[str, QTensor]  # by name
    operators: tuple[QOperator, ...]  # in an order in which every input is complete
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, npt.NDArray[np.int8]]
    parts: Mapping[str, tuple[str, int]]
    lies: Mapping[str, Lying]
    origins: Mapping[str, str]  # by name of an operator that is a copy, the one that it is made for


def store_channels(graph: QGraph, alignment: int) -> StoredGraph:
    """Give every tensor of a fused graph its place."""
    return _Storing(graph, alignment).run()


class _Storing:
    def __init__(self, graph: QGraph, alignment: int) -> None:
        self._graph = graph
        self._alignment = alignment
        self._readers = graph.readers()
        self._tensors: dict[str, QTensor] = {
            name: graph.tensors[name] for name in (*graph.inputs, *graph.constants)
        }
        self._operators: list[QOperator] = []
        self._writer: dict[str, int] = {}
        """Number of the operator that writes a stored tensor."""
        self._parts: dict[str, tuple[str, int]] = {}
        self._joined: set[str] = set()
        """Stored tensors that concatenations make of parts."""
        self._lies: dict[str, Lying] = {}
        self._copies: dict[str, str] = {}
        self._origins: dict[str, str] = {}
        self._at = ""
        """Name of the operator that is given its place."""
        self._reshaped: set[str] = set()
        """Stored tensors that a change of shape has another name for."""

    def run(self) -> StoredGraph:
        graph = self._graph
        for operator in graph.operators:
            self._at = operator.name
            if isinstance(operator, QSelect) and _is_exact(operator, graph):
                self._note(operator)
            elif isinstance(operator, QSelect):
                copied = self._copy(operator.inputs[0], operator, operator.name, operator.output)
                self._lies[operator.output] = copied
            elif isinstance(operator, QConcat):
                self._concat(operator)
            elif isinstance(operator, QConv) and operator.groups == 1:
                self._convolution(operator)
            elif isinstance(operator, _BY_CHANNEL) or _is_depthwise(operator):
                self._by_channel(operator)
            else:
                self._plain(operator)
        writers = graph.writers()
        for name in graph.outputs:
            if name not in self._tensors:
                self._at = writers[name].name
                self._leave(name)
        return StoredGraph(
            name=graph.name,
            tensors=self._tensors,
            operators=tuple(self._operators),
            inputs=graph.inputs,
            outputs=graph.outputs,
            constants=graph.constants,
            parts=self._parts,
            lies={
                name: self._lying(name)
                for name in (operator.output for operator in graph.operators)
                if name not in self._tensors or name in self._parts or self._lying(name).scales
            },
            origins=self._origins,
        )

    # -- places ------------------------------------------------------------------------------

    def _lying(self, name: str) -> Lying:
        """Where a tensor of the model lies."""
        channels = tuple(range(self._graph.tensors[name].shape[1]))
        return self._lies.get(name, Lying(tensor=name, channels=channels))

    def _span(self, at: Lying) -> tuple[int, int]:
        """The blocks that hold some channels: the first channel, and that behind the last."""
        images, stored = self._tensors[at.tensor].shape[:2]
        if images != 1:
            return 0, stored
        step = self._alignment
        low = min(at.channels) // step * step
        return low, min(-(-(max(at.channels) + 1) // step) * step, stored)

    def _view(self, at: Lying) -> tuple[QTensor, tuple[int, ...]]:
        """A stored tensor of just the blocks of some channels, and their places in it."""
        low, high = self._span(at)
        stored = self._tensors[at.tensor]
        places = tuple(channel - low for channel in at.channels)
        if places == tuple(range(len(places))) and stored.shape[0] == 1:
            high = low + len(places)
        if (low, high) == (0, stored.shape[1]):
            return stored, places
        name = f"{at.tensor}/{low}-{high}"
        n, _, rows, columns = stored.shape
        self._tensors[name] = replace(stored, name=name, shape=(n, high - low, rows, columns))
        self._parts[name] = (at.tensor, low)
        return self._tensors[name], places

    def _whole(self, name: str) -> str:
        """A stored tensor with a tensor's channels in their order, without holes."""
        tensor, places = self._view(self._lying(name))
        if places == tuple(range(tensor.shape[1])):
            return tensor.name
        if name not in self._copies:
            target = self._graph.tensors[name]
            made = QSelect(
                name=f"{name}/gathered",
                inputs=(name,),
                output=f"{name}/gathered",
                channels=tuple(range(target.shape[1])),
            )
            target = replace(target, scale=tensor.scale, zero_point=tensor.zero_point)
            self._copies[name] = self._copy(name, made, made.name, made.output, target).tensor
        return self._copies[name]

    def _emit(self, operator: QOperator, output: QTensor) -> None:
        if operator.name != self._at:
            self._origins[operator.name] = self._at
        self._tensors[output.name] = output
        self._writer[output.name] = len(self._operators)
        self._operators.append(replace(operator, output=output.name))

    def _copy(
        self,
        source: str,
        operator: QSelect | QConcat,
        label: str,
        output: str,
        target: QTensor | None = None,
    ) -> Lying:
        """Write some channels of a tensor, without holes, as a tensor of an operator's result."""
        at = self._lying(source)
        if isinstance(operator, QSelect):
            at = Lying(tensor=at.tensor, channels=tuple(at.channels[c] for c in operator.channels))
        tensor, places = self._once(*self._view(at), output)
        result = target or self._graph.tensors[operator.output]
        n, _, rows, columns = tensor.shape
        result = replace(result, name=output, shape=(n, len(places), rows, columns))
        copy = QRescale(
            name=label,
            inputs=(tensor.name,),
            output=output,
            bounds=operator.bounds,
            lookup=operator.lookup,
        )
        every = Lying(tensor=output, channels=tuple(range(len(places))))
        runs = _runs(places, self._alignment)
        if n == 1 and len(runs) > 1 and self._copies_runs(runs, tensor, len(places)):
            self._tensors[output] = result
            for first, number in runs:
                piece, name = replace(copy, name=f"{label}/{first}"), f"{output}/at {first}"
                data, _ = self._view(
                    Lying(tensor=tensor.name, channels=places[first : first + number])
                )
                self._parts[name] = (output, first)
                written = replace(result, name=name, shape=(1, number, rows, columns))
                self._emit(replace(piece, inputs=(data.name,)), written)
            return every
        exact = places == tuple(range(tensor.shape[1]))
        self._emit(copy if exact else _selection(copy, places, tensor.shape[1]), result)
        return every

    def _once(
        self, tensor: QTensor, places: tuple[int, ...], label: str
    ) -> tuple[QTensor, tuple[int, ...]]:
        """Channels of a tensor and their places; or of a copy of them, if many are read often."""
        known = sorted(set(places))
        read, made, once = (
            blocks_of(count, self._alignment)
            for count in (tensor.shape[1], len(places), len(known))
        )
        pixels = prod(tensor.shape[2:])
        if (read * made - once * (read + made)) * pixels < _LAYER:
            return tensor, places
        copy = QRescale(name=f"{label}/once", inputs=(tensor.name,), output=f"{label}/once")
        n, _, rows, columns = tensor.shape
        narrow = replace(tensor, name=copy.output, shape=(n, len(known), rows, columns))
        self._emit(_selection(copy, known, tensor.shape[1]), narrow)
        at = {place: number for number, place in enumerate(known)}
        return narrow, tuple(at[place] for place in places)

    def _copies_runs(self, runs: Sequence[tuple[int, int]], tensor: QTensor, channels: int) -> bool:
        """Whether copies of runs of whole blocks take less than a product with a matrix."""
        read, needed = (blocks_of(count, self._alignment) for count in (tensor.shape[1], channels))
        pixels = prod(tensor.shape[2:])
        return len(runs) * _LAYER + _COPY * needed * pixels < read * needed * pixels

    def _leave(self, name: str) -> None:
        """A result of the region is stored as the model has it."""
        every = tuple(range(self._graph.tensors[name].shape[1]))
        made = QSelect(name=f"{name}/gathered", inputs=(name,), output=name, channels=every)
        self._copy(name, made, made.name, name)

    # -- operators ---------------------------------------------------------------------------

    def _note(self, operator: QSelect) -> None:
        at = self._lying(operator.inputs[0])
        channels = tuple(at.channels[c] for c in operator.channels)
        self._lies[operator.output] = Lying(tensor=at.tensor, channels=channels)

    def _plain(self, operator: QOperator) -> None:
        """An operator on tensors without holes; a change of shape has bytes of its own."""
        inputs = tuple(self._whole(name) for name in operator.inputs)
        if isinstance(operator, QReshape) and inputs[0] in self._parts:
            made = replace(self._tensors[inputs[0]], name=f"{inputs[0]}/apart")
            self._emit(QRescale(name=made.name, inputs=inputs, output=made.name), made)
            inputs = (made.name,)
        if isinstance(operator, QReshape):
            self._reshaped.add(inputs[0])
        self._emit(replace(operator, inputs=inputs), self._graph.tensors[operator.output])

    def _wanted(self, name: str, products: int, pixels: int) -> Lying:
        """Where a reader takes a tensor from: where it lies, or a copy if that is cheaper."""
        at = self._lying(name)
        low, high = self._span(at)
        read, needed = (blocks_of(c, self._alignment) for c in (high - low, len(at.channels)))
        shape = self._tensors[at.tensor].shape
        if products * pixels * (read - needed) > read * needed * prod(shape[2:]):
            copy = self._whole(name)
            return Lying(tensor=copy, channels=tuple(range(len(at.channels))))
        return at

    def _convolution(self, operator: QConv) -> None:
        output = self._graph.tensors[operator.output]
        taps = prod(operator.weights.shape[2:])
        blocks = blocks_of(output.shape[1], self._alignment)
        at = self._wanted(operator.inputs[0], taps * blocks, prod(output.shape[2:]))
        tensor, places = self._view(at)
        axis = 0 if operator.transposed else 1
        weights = operator.weights
        if places != tuple(range(tensor.shape[1])):
            shape = list(weights.shape)
            shape[axis] = tensor.shape[1]
            wide = np.zeros(shape, np.int8)
            wide[(slice(None),) * axis + (list(places),)] = weights
            weights = wide
        others = tuple(self._whole(name) for name in operator.inputs[1:])
        self._emit(replace(operator, inputs=(tensor.name, *others), weights=weights), output)

    def _by_channel(self, operator: QOperator) -> None:
        """The result lies as the data do."""
        output = self._graph.tensors[operator.output]
        kernel = operator.kernel if isinstance(operator, QPool) else (1, 1)
        if isinstance(operator, QConv):
            kernel = operator.weights.shape[2:]
        at = self._wanted(operator.inputs[0], prod(kernel), prod(output.shape[2:]))
        tensor, places = self._view(at)
        if at.scales and isinstance(operator, QConv):
            operator = _rescaled(operator, tensor, at.scales)
        if places == tuple(range(tensor.shape[1])) or len(operator.inputs) > 1:
            inputs = tuple(self._whole(name) for name in operator.inputs)
            if len(operator.inputs) == 1:
                inputs = (tensor.name,)
            self._emit(replace(operator, inputs=inputs), output)
            return
        n, _, rows, columns = output.shape
        stored = replace(
            output, name=f"{output.name}/stored", shape=(n, tensor.shape[1], rows, columns)
        )
        if isinstance(operator, QConv):
            operator = _spread(operator, places, tensor.shape[1])
        self._emit(replace(operator, inputs=(tensor.name,)), stored)
        self._lies[output.name] = Lying(tensor=stored.name, channels=places)

    # -- concatenation -----------------------------------------------------------------------

    def _concat(self, concat: QConcat) -> None:
        result = self._graph.tensors[concat.output]
        if result.shape[0] != 1:
            raise WorkloadError(
                "parts of a tensor need a batch of 1",
                field=concat.name,
                remedy="run this operator on the CPU",
            )
        stored: list[tuple[str, int]] = []
        channels: list[int] = []
        scales: list[tuple[float, int]] = []
        start, loose = 0, self._leaves_scales(concat)
        for name in concat.inputs:
            at = self._lying(name)
            if not self._joins(concat, name, at, {tensor for tensor, _ in stored}, loose=loose):
                label = f"{concat.name}/{name}" if start else concat.name
                at = self._copy(name, concat, label, f"{concat.output}/{len(stored)}")
            stored.append((at.tensor, start))
            channels += [start + channel for channel in at.channels]
            part = self._tensors[at.tensor]
            scales += at.scales or [(part.scale, part.zero_point)] * len(at.channels)
            end = start + self._tensors[at.tensor].shape[1]
            start = -(-end // self._alignment) * self._alignment
        exact = channels == list(range(end))
        whole = concat.output if exact else f"{concat.output}/stored"
        for name, first in stored:
            self._parts[name] = (whole, first)
            if not loose:
                self._take_scale(name, result)
        n, _, rows, columns = result.shape
        self._tensors[whole] = replace(result, name=whole, shape=(n, end, rows, columns))
        self._joined.add(whole)
        if loose or not exact:
            self._lies[concat.output] = Lying(
                tensor=whole, channels=tuple(channels), scales=tuple(scales) if loose else ()
            )

    def _take_scale(self, name: str, result: QTensor) -> None:
        """Let a part of a concatenation be computed at its scale; a table holds what it copied."""
        own, number = self._tensors[name], self._writer.get(name)
        self._tensors[name] = replace(own, scale=result.scale, zero_point=result.zero_point)
        if number is None:
            return
        writer = self._operators[number]
        if writer.lookup is not None:
            entries = copied_entries(writer.lookup.entries, own, self._tensors[name])
            writer = replace(writer, lookup=replace(writer.lookup, entries=entries))
        elif self._graph.saturates:
            bounds = compose(writer.bounds, own.clips(self._tensors[name]))
            writer = replace(writer, bounds=bounds)
        self._operators[number] = writer

    def _leaves_scales(self, concat: QConcat) -> bool:
        """Whether the parts of a concatenation keep their scales, as all of its readers can."""
        if self._graph.keep_rounding:
            return False
        waiting = [concat]
        while waiting:
            joined = waiting.pop()
            if self._graph.saturates and self._clips(joined):
                return False
            readers = self._readers[joined.output]
            further = [reader for reader in readers if isinstance(reader, QConcat)]
            if joined.output in self._graph.outputs or joined.bounds != UNBOUNDED or joined.lookup:
                return False
            if len(further) > 1 or any(r.inputs.count(joined.output) > 1 for r in further):
                return False
            if not readers or not all(r in further or _is_affine(r) for r in readers):
                return False
            waiting += further
        return True

    def _clips(self, concat: QConcat) -> bool:
        """Whether the range of a concatenation is narrower than that of one of its parts."""
        tensors = self._graph.tensors
        result = tensors[concat.output]
        return any(result.clips(tensors[name]) != UNBOUNDED for name in concat.inputs)

    def _joins(
        self, concat: QConcat, name: str, at: Lying, taken: set[str], *, loose: bool
    ) -> bool:
        """Whether a tensor can be computed in its place of a concatenation."""
        graph, stored = self._graph, self._tensors[at.tensor]
        fixed = {*graph.inputs, *graph.constants, *graph.outputs, *self._parts, *taken}
        fixed |= self._reshaped
        if at.tensor in fixed or name in fixed or concat.bounds != UNBOUNDED or concat.lookup:
            return False
        if at.tensor not in (name, f"{name}/stored"):
            return False
        readers = self._readers[name]
        if any(isinstance(reader, QReshape) for reader in readers):
            return False
        result = graph.tensors[concat.output]
        same = loose or (stored.scale, stored.zero_point) == (result.scale, result.zero_point)
        if at.tensor in self._joined:
            return same
        writer = self._operators[self._writer[at.tensor]]
        alone = len(readers) == 1 and concat.inputs.count(name) == 1
        if not isinstance(writer, _IN_PLACE):
            return False
        free = not (isinstance(writer, QRescale) or graph.keep_rounding)
        return same or (alone and (writer.lookup is not None or free))


_LAYER: Final = 600
"""Array cycles that a layer of its own takes besides."""
_COPY: Final = 4
"""Array cycles of a copy for each block of channels of a pixel: it is read and written."""


def _runs(places: Sequence[int], step: int) -> list[tuple[int, int]]:
    """Channels that follow each other, as first and number; empty: one begins inside a block."""
    breaks = [n for n in range(1, len(places)) if places[n] != places[n - 1] + 1]
    firsts = [0, *breaks]
    if any(first % step or places[first] % step for first in firsts):
        return []
    ends = [*breaks, len(places)]
    return [(first, end - first) for first, end in zip(firsts, ends, strict=True)]


def _is_exact(operator: QSelect, graph: QGraph) -> bool:
    """Whether a selection changes no value."""
    source, target = graph.tensors[operator.inputs[0]], graph.tensors[operator.output]
    return (
        (source.scale, source.zero_point) == (target.scale, target.zero_point)
        and operator.bounds == UNBOUNDED
        and operator.lookup is None
        and len(set(operator.channels)) == len(operator.channels)
    )


def _is_depthwise(operator: QOperator) -> bool:
    return (
        isinstance(operator, QConv)
        and operator.groups > 1
        and operator.weights.shape[:2] == (operator.groups, 1)
    )


def _is_affine(operator: QOperator) -> bool:
    """Whether an operator is a factor and an offset for each channel of one tensor."""
    return (
        isinstance(operator, QConv)
        and _is_depthwise(operator)
        and not operator.transposed
        and operator.weights.shape[2:] == (1, 1)
        and not any(operator.pads)
        and len(operator.inputs) == 1
    )


def _rescaled(operator: QConv, data: QTensor, scales: Sequence[tuple[float, int]]) -> QConv:
    """A depthwise 1x1 convolution of channels whose scales are not those of their tensor."""
    own, zero_points = (np.array(column) for column in zip(*scales, strict=True))
    units = own * operator.weight_scales
    offsets = (data.zero_point - zero_points) * operator.weights[:, 0, 0, 0] * units
    return replace(operator, weight_scales=units / data.scale, bias=operator.bias + offsets)


def _selection(copy: QRescale, places: Sequence[int], channels: int) -> QConv:
    """A copy as a 1x1 convolution whose output i is channel ``places[i]`` of as many channels."""
    weights = np.zeros((len(places), channels, 1, 1), np.int8)
    weights[np.arange(len(places)), list(places)] = COPY_WEIGHT
    return QConv(
        name=copy.name,
        inputs=copy.inputs,
        output=copy.output,
        bounds=copy.bounds,
        lookup=copy.lookup,
        weights=weights,
        weight_scales=np.full(len(places), 1 / COPY_WEIGHT),
        bias=np.zeros(len(places)),
    )


def _spread(operator: QConv, places: Sequence[int], channels: int) -> QConv:
    """A depthwise convolution of some channels among others, which have no weights."""
    weights = np.zeros((channels, *operator.weights.shape[1:]), np.int8)
    scales, bias = np.ones(channels), np.zeros(channels)
    for wide, narrow in (
        (weights, operator.weights),
        (scales, operator.weight_scales),
        (bias, operator.bias),
    ):
        wide[list(places)] = narrow
    return replace(operator, weights=weights, weight_scales=scales, bias=bias, groups=channels)
