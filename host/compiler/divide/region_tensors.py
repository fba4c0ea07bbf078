# SPDX-License-Identifier: Apache-2.0
"""Tensors and operators of a region under construction, and the moves that make one of others."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.divide import index_maps
from tilewright.host.compiler.divide import tensor_layouts as layouts
from tilewright.host.compiler.divide.index_maps import IndexMap, Source
from tilewright.host.compiler.divide.relax_calls import Refusal
from tilewright.host.compiler.divide.tensor_layouts import TensorLayout
from tilewright.host.compiler.lower.own_call import QuantisedTensor
from tilewright.host.compiler.lower.qgraph import (
    UNBOUNDED,
    Bounds,
    QConcat,
    QGather,
    QOperator,
    QRescale,
    QReshape,
    QSelect,
    QStack,
    QTensor,
    QTurn,
)

Int8Array = npt.NDArray[np.int8]


class RegionTensors:
    """What a region holds so far; a move that is wanted twice is made once.

    Args:
        turns: channels and pixels are exchanged where that is needed.

    Attributes:
        tensors: by name.
        model_shapes: the shape that the model gives each of them.
    """

    def __init__(self, *, turns: bool) -> None:
        self._turns = turns
        self.tensors: dict[str, QTensor] = {}
        self._operators: list[QOperator] = []
        self._labels: set[str] = set()
        self.model_shapes: dict[str, tuple[int, ...]] = {}
        self._constants: dict[str, Int8Array] = {}
        self._known: dict[tuple[Any, ...], str] = {}
        """Tensors that were moved, by how."""

    def tensor(
        self,
        stem: str,
        like: QuantisedTensor | QTensor,
        layout: TensorLayout,
        model_shape: tuple[int, ...],
    ) -> str:
        """A new tensor with the scale of another one."""
        name = _fresh(stem, self.tensors)
        self.tensors[name] = QTensor(
            name=name, shape=layout.shape, scale=like.scale, zero_point=like.zero_point
        )
        self.model_shapes[name] = model_shape
        return name

    def constant(self, like: QuantisedTensor | QTensor, values: Int8Array) -> str:
        """A new constant tensor of these elements (1, C, H, W)."""
        b, c, h, w = values.shape
        layout = layouts.image((b, c, h, w))
        name = self.tensor("constant", like, layout, values.shape)
        self._constants[name] = values
        return name

    def append(
        self, operator: QOperator, label: str, inputs: tuple[str, ...], output: str
    ) -> QOperator:
        """A new operator."""
        name = _fresh(label, self._labels)
        self._labels.add(name)
        self._operators.append(replace(operator, name=name, inputs=inputs, output=output))
        return self._operators[-1]

    def cheapest(self, data: IndexMap, choices: Sequence[TensorLayout]) -> TensorLayout:
        """The layout that the fewest moves lead to, of some."""
        best, least = None, 0
        for layout in choices:
            try:
                cost = index_maps.cost_of(self._move(data, layout))
            except Refusal:
                continue
            if best is None or cost < least:
                best, least = layout, cost
        if best is None:
            raise Refusal("its data lie in an order that it does not take")
        return best

    def map_of_layout(self, name: str, layout: TensorLayout, shape: Sequence[int]) -> IndexMap:
        """A model's tensor of a shape that lies in a tensor of the region."""
        places = layouts.places(layout).reshape(shape)
        return IndexMap(sources=(self._source_of(name),), places=places)

    def _source_of(self, name: str) -> Source:
        _, channels, *sides = self.tensors[name].shape
        values = self._constants.get(name)
        if values is not None:
            values = values.reshape(channels, prod(sides))
        return Source(name, channels, prod(sides), values)

    def _scaled(self, data: IndexMap, like: QuantisedTensor | QTensor, bounds: Bounds) -> IndexMap:
        sources = []
        for source in data.sources:
            if source.values is not None:
                raise Refusal("it changes the scale of constants among its data")
            key = ("rescale", source.name, like.scale, like.zero_point, bounds)
            if key not in self._known:
                old = self.tensors[source.name]
                name = self._known[key] = self._moved_tensor(
                    source.name, old.shape, "rescaled", like
                )
                copy = QRescale(name="", inputs=(), output="", bounds=bounds)
                self.append(copy, name, (source.name,), name)
            sources.append(source._replace(name=self._known[key]))
        return IndexMap(sources=tuple(sources), places=data.places)

    def shaped(
        self, name: str, shape: tuple[int, int, int, int], model_shape: tuple[int, ...] = ()
    ) -> str:
        """The same elements in another shape."""
        if self.tensors[name].shape == shape:
            return name
        stem = f"{name}_{'x'.join(str(size) for size in shape)}"
        if stem not in self.tensors:
            self.tensors[stem] = replace(self.tensors[name], name=stem, shape=shape)
            self.model_shapes[stem] = model_shape or shape
            self.append(QReshape(name="", inputs=(), output=""), stem, (name,), stem)
        return stem

    def _move(self, data: IndexMap, want: TensorLayout) -> index_maps.Move:
        return index_maps.moved(data.sources, _wanted(data, want), turns=self._turns)

    def cost(self, data: IndexMap, want: TensorLayout) -> int:
        """About how many layers it takes that elements of others lie as a reader wants them."""
        return index_maps.cost_of(self._move(data, want))

    def made(self, data: IndexMap, want: TensorLayout, like: QuantisedTensor | QTensor) -> str:
        """The tensor that holds elements of others as a reader wants them."""
        return self._written(self._move(data, want), want.shape[2:], like)

    def factor(self, data: IndexMap, want: TensorLayout, like: QuantisedTensor | QTensor) -> str:
        """As `made`, with one pixel if all would be equal."""
        wanted = _wanted(data, want)
        if (wanted == wanted[:, :1]).all():
            return self.laid(data.sources, wanted[:, :1], (1, 1), like)
        return self.made(data, want, like)

    def laid(
        self,
        sources: Sequence[Source],
        wanted: index_maps.Places,
        sides: tuple[int, int],
        like: QuantisedTensor | QTensor,
    ) -> str:
        """The tensor of these elements (channels, pixels), in rows and columns."""
        return self._written(index_maps.moved(sources, wanted, turns=self._turns), sides, like)

    def at_scale(self, name: str, like: QuantisedTensor | QTensor) -> str:
        """A tensor at another scale."""
        old = self.tensors[name]
        if (old.scale, old.zero_point) == (like.scale, like.zero_point):
            return name
        data = IndexMap(sources=(Source(name, 1, 1),), places=np.zeros(1, np.int64))
        return self._scaled(data, like, UNBOUNDED).sources[0].name

    def _written(
        self,
        move: index_maps.Move,
        sides: tuple[int, int],
        like: QuantisedTensor | QTensor,
    ) -> str:
        if isinstance(move, index_maps.Constant):
            return self.constant(like, move.values.reshape(1, -1, *sides))
        if isinstance(move, index_maps.Taken):
            return self._taken(move, sides)
        parts = []
        for part in move.parts:
            size = len(_pixels_of(part)) if not move.by_channels else 0
            parts.append(self._written(part, (size, 1) if size else sides, like))
        key = ("join", move.by_channels, *parts)
        if key not in self._known:
            shapes = [self.tensors[name].shape for name in parts]
            axis = 1 if move.by_channels else 2
            shape = list(shapes[0])
            shape[axis] = sum(each[axis] for each in shapes)
            name = self._moved_tensor(parts[0], (1, shape[1], shape[2], shape[3]), "joined", like)
            join = QConcat if move.by_channels else QStack
            self.append(join(name="", inputs=(), output=""), name, tuple(parts), name)
            self._known[key] = name
        name = self._known[key]
        if move.order is not None:
            name = (
                self.chosen(name, tuple(move.order.tolist()))
                if move.by_channels
                else self._gathered(name, move.order, sides)
            )
        return self.shaped(name, (1, self.tensors[name].shape[1], *sides), ())

    def _taken(self, move: index_maps.Taken, sides: tuple[int, int]) -> str:
        """Channels are chosen before pixels are moved, if those are no more then."""
        turned = isinstance(move.source, index_maps.Turned)
        source = move.source.source if isinstance(move.source, index_maps.Turned) else move.source
        name = self._turned(source) if turned else source.name
        if move.pixels is not None and move.pixels.size < prod(self.tensors[name].shape[2:]):
            name = self._gathered(name, move.pixels, sides)
            return self.chosen(name, move.channels)
        name = self.chosen(name, move.channels)
        if move.pixels is not None:
            return self._gathered(name, move.pixels, sides)
        return self.shaped(name, (1, self.tensors[name].shape[1], *sides), ())

    def _turned(self, source: Source) -> str:
        """The tensor whose channels are another's pixels, and whose pixels its channels."""
        key = ("turn", source.name)
        if key not in self._known:
            shape = (1, source.pixels, source.channels, 1)
            name = self._known[key] = self._moved_tensor(source.name, shape, "turned")
            self.append(QTurn(name="", inputs=(), output=""), name, (source.name,), name)
        return self._known[key]

    def _gathered(self, name: str, pixels: index_maps.Places, sides: tuple[int, int]) -> str:
        """The tensor that holds another's pixels in another order: rows as its first reader's."""
        key = ("gather", name, pixels.tobytes())
        shape = (1, self.tensors[name].shape[1], *sides)
        if key not in self._known:
            moved = self._known[key] = self._moved_tensor(name, shape, "moved")
            gather = QGather(name="", inputs=(), output="", pixels=np.array(pixels))
            self.append(gather, moved, (name,), moved)
        return self.shaped(self._known[key], shape)

    def chosen(self, name: str, channels: tuple[int, ...] | None) -> str:
        """The tensor that holds some channels of another one, in its shape."""
        if channels is None:
            return name
        key = ("choose", name, channels)
        if key not in self._known:
            batch, _, rows, columns = self.tensors[name].shape
            shape = (batch, len(channels), rows, columns)
            chosen = self._known[key] = self._moved_tensor(name, shape, "shuffled")
            select = QSelect(name="", inputs=(), output="", channels=channels)
            self.append(select, chosen, (name,), chosen)
        return self._known[key]

    def _moved_tensor(
        self,
        name: str,
        shape: tuple[int, int, int, int],
        how: str,
        like: QuantisedTensor | QTensor | None = None,
    ) -> str:
        return self.tensor(f"{name}_{how}", like or self.tensors[name], layouts.image(shape), shape)


def _wanted(data: IndexMap, want: TensorLayout) -> index_maps.Places:
    """Elements as (channels, pixels) of a normal form."""
    if want.shape[0] != 1:
        raise Refusal("its data move, and they are of several images")
    wanted = np.empty(data.places.size, np.int64)
    wanted[layouts.places(want)] = data.places.reshape(-1)
    return wanted.reshape(want.shape[1], prod(want.shape[2:]))


def _pixels_of(move: index_maps.Move) -> range:
    """The pixels that a move's result has."""
    if isinstance(move, index_maps.Constant):
        return range(move.values.shape[1])
    if isinstance(move, index_maps.Joined):
        if not move.by_channels:
            return range(sum(len(_pixels_of(part)) for part in move.parts))
        return _pixels_of(move.parts[0])
    if move.pixels is not None:
        return range(move.pixels.size)
    source = move.source
    return range(source.source.channels if isinstance(source, index_maps.Turned) else source.pixels)


def _fresh(stem: str, taken: Iterable[str]) -> str:
    known = set(taken)
    name, index = stem, 1
    while name in known:
        index += 1
        name = f"{stem}.{index}"
    return name
