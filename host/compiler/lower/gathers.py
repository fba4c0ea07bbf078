# SPDX-License-Identifier: Apache-2.0
"""Moves of pixels: their layer, and several that follow each other as one.

In which order of pixels each tensor is computed, so that few are moved.

Dense layers, additions, normalisation and tables take pixels in any order. So a move of all pixels
need not happen where the model has it: here it goes down through such operators until another kind
of operator reads the tensor, or a move that undoes it. A block of Swin is computed in the order of
its windows from its first normalisation to its last addition. What is moved is its input, once for
the normalisation and the residual.

The bits do not change.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import NamedTuple

import numpy as np

from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer
from tilewright.host.compiler.lower.qgraph import (
    QAdd,
    QConv,
    QGather,
    QGraph,
    QLayerNorm,
    QOperator,
    QRescale,
    QReshape,
    QTensor,
    Shape,
)
from tilewright.host.compiler.lower.workloads import refused, workload_on
from tilewright.host.lowering.gathers import Pixels, copy_params
from tilewright.host.network.workload import Kind


def with_fewer_moves(graph: QGraph) -> QGraph:
    """A graph in which no more pixels are moved, and as few as this pass knows how."""
    if not any(isinstance(operator, QGather) for operator in graph.operators):
        return graph
    found = _Orders(graph).rewritten()
    return found if _moved(found) < _moved(graph) and _computes_no_more(found, graph) else graph


def _computes_no_more(graph: QGraph, other: QGraph) -> bool:
    """Whether a graph computes nothing twice that another one computes once."""
    counts = [
        sum(not isinstance(operator, QGather | QReshape) for operator in each.operators)
        for each in (graph, other)
    ]
    return counts[0] <= counts[1]


def _moved(graph: QGraph) -> int:
    """Elements that moves write."""
    moves = (operator for operator in graph.operators if isinstance(operator, QGather))
    return sum(prod(graph.tensors[move.output].shape) for move in moves)


class _Order(NamedTuple):
    """A tensor that is another one with pixels in another order, all of them."""

    base: str  # the other one
    pixels: Pixels  # of it, for each pixel of the tensor


class _Orders:
    def __init__(self, graph: QGraph) -> None:
        self.graph = graph
        self.tensors = dict(graph.tensors)
        self.operators: list[QOperator] = []
        self.readers = graph.readers()
        self.orders: dict[str, _Order] = {}
        """Of tensors that nobody has moved so far."""
        self.moved: dict[tuple[str, bytes, Shape], str] = {}
        self.writers: dict[str, QOperator] = {}
        self.originals: dict[str, str] = {}
        """By tensor that is computed in another order, the one of the model."""

    def rewritten(self) -> QGraph:
        for operator in self.graph.operators:
            self._take(operator)
        for name in self.graph.outputs:
            self._settle(name)
        operators = self._alive()
        used = {*self.graph.inputs, *self.graph.outputs, *self.graph.constants}
        for operator in operators:
            used.update((*operator.inputs, operator.output))
        return replace(
            self.graph,
            tensors={name: tensor for name, tensor in self.tensors.items() if name in used},
            operators=tuple(operators),
        )

    def _take(self, operator: QOperator) -> None:
        source = operator.inputs[0]
        order = self.orders.get(source)
        if isinstance(operator, QGather) and self._is_order(operator):
            pixels = operator.pixels if order is None else order.pixels[operator.pixels]
            self.orders[operator.output] = _Order(source if order is None else order.base, pixels)
        elif isinstance(operator, QReshape) and order is not None and self._keeps_pixels(operator):
            self.orders[operator.output] = order
        elif _is_pixelwise(operator) and any(name in self.orders for name in operator.inputs):
            self._compute_in_order(operator)
        else:
            for name in operator.inputs:
                self._settle(name)
            self._emit(operator)

    def _is_order(self, move: QGather) -> bool:
        """Whether a move has every pixel once."""
        shape = self.tensors[move.inputs[0]].shape
        return shape[0] == 1 and np.array_equal(np.sort(move.pixels), np.arange(prod(shape[2:])))

    def _keeps_pixels(self, reshape: QReshape) -> bool:
        shapes = (self.tensors[name].shape for name in (reshape.inputs[0], reshape.output))
        return len({shape[:2] for shape in shapes}) == 1

    def _compute_in_order(self, operator: QOperator) -> None:
        """An operator on tensors in the order of the input that is known last, as bases have it."""
        position = {made.output: number for number, made in enumerate(self.operators)}
        tensors = [(name, self.orders.get(name)) for name in operator.inputs]
        _, order = max(tensors, key=lambda t: position.get(t[1].base if t[1] else t[0], -1))
        if order is None:
            for name in operator.inputs:
                self._settle(name)
            self._emit(operator)
            return
        shape = self.tensors[order.base].shape
        back = np.argsort(order.pixels)
        inputs = []
        for name, own in tensors:
            base, pixels = own or _Order(name, np.arange(back.size))
            inputs.append(self._in_order(base, pixels[back], shape))
        output = f"{operator.output}/in order"
        target = self.tensors[operator.output]
        whole = (*target.shape[:2], *shape[2:])
        self.tensors[output] = replace(target, name=output, shape=whole)
        self.originals[output] = operator.output
        self._emit(replace(operator, inputs=tuple(inputs), output=output))
        self.orders[operator.output] = _Order(output, order.pixels)

    def _settle(self, name: str) -> None:
        """Write a tensor in its own order."""
        order = self.orders.pop(name, None)
        if order is None:
            return
        found = self._in_order(*order, self.tensors[name].shape)
        same = QReshape(name=f"{name}/settled", inputs=(found,), output=name)
        self._emit(same)

    def _in_order(self, base: str, pixels: Pixels, shape: Shape) -> str:
        """The tensor that is another one with pixels in another order.

        An operator that makes few channels many, or as many, works behind the move.

        Args:
            base: the other one.
            pixels: of it.
            shape: of the result, but for its channels.
        """
        whole = (*self.tensors[base].shape[:2], *shape[2:])
        if whole == self.tensors[base].shape and np.array_equal(pixels, np.arange(pixels.size)):
            return base
        key = base, pixels.tobytes(), whole
        if key in self.moved:
            return self.moved[key]
        name = self.moved[key] = f"{base}/moved/{len(self.moved)}"
        self.tensors[name] = replace(self.tensors[base], name=name, shape=whole)
        writer = self.writers.get(base)
        if writer is not None and self._may_follow(writer):
            source = self._in_order(writer.inputs[0], pixels, whole)
            self._emit(replace(writer, inputs=(source,), output=name))
        else:
            self._emit(QGather(name=name, inputs=(base,), output=name, pixels=pixels))
        return name

    def _may_follow(self, writer: QOperator) -> bool:
        """Whether a move may go before an operator: nobody else reads what it computes."""
        if not _is_pixelwise(writer) or len(writer.inputs) > 1:
            return False
        if self.tensors[writer.inputs[0]].shape[1] > self.tensors[writer.output].shape[1]:
            return False
        name = self.originals.get(writer.output, writer.output)
        readers = self.readers[name]
        if name == writer.output or name in self.graph.outputs:
            return len(readers) == 1 and name not in self.graph.outputs
        return len(readers) == 1 or not any(map(_is_pixelwise, readers))

    def _emit(self, operator: QOperator) -> None:
        self.operators.append(operator)
        self.writers[operator.output] = operator

    def _alive(self) -> list[QOperator]:
        """Operators that something depends on."""
        needed = set(self.graph.outputs)
        kept = []
        for operator in reversed(self.operators):
            if operator.output in needed:
                needed.update(operator.inputs)
                kept.append(operator)
        return kept[::-1]


def _is_pixelwise(operator: QOperator) -> bool:
    """Whether it computes each pixel from the same pixel of its inputs."""
    if isinstance(operator, QConv):
        return (
            not operator.transposed
            and operator.weights.shape[2:] == (1, 1)
            and operator.stride == (1, 1)
            and operator.pads == (0, 0, 0, 0)
        )
    return isinstance(operator, QAdd | QLayerNorm | QRescale)


def gather_layer(
    operator: QGather, data: QTensor, result: QTensor, places: tuple[ChannelSlice, ChannelSlice],
    block_out: int,
) -> Layer:  # fmt: skip
    """The layer of a move."""
    if data.shape[0] != 1:
        raise refused(operator, "pixels move within one image")
    height, width = result.shape[2:]
    return Layer(
        name=operator.name,
        workload=workload_on(operator, data, kind=Kind.GATHER, height=height, width=width),
        data=places[0],
        weights=None,
        output=places[1],
        requant=copy_params(block_out),
        operators=(operator.name,),
        pixels=operator.pixels,
    )


def join_gathers(graph: QGraph) -> list[QOperator]:
    """The operators of a graph, in which a move that alone reads another one does both.

    A move of all pixels to where they are is a change of shape.
    """
    readers, writers = graph.readers(), graph.writers()
    joined: dict[str, QGather] = {}
    dropped: set[str] = set()
    operators: list[QOperator] = []
    for operator in graph.operators:
        if not isinstance(operator, QGather):
            operators.append(operator)
            continue
        source = operator.inputs[0]
        passed = {source}
        while isinstance(before := writers.get(source), QReshape) and _is_inner(graph, before):
            source = before.inputs[0]
            passed.add(source)
        both, first = operator, joined.get(source)
        if first is not None:
            both = replace(operator, inputs=first.inputs, pixels=first.pixels[operator.pixels])
            if all(len(readers[name]) == 1 and name not in graph.outputs for name in passed):
                dropped |= passed
        joined[operator.output] = both
        operators.append(both)
    return [_plain(graph, operator) for operator in operators if operator.output not in dropped]


def _is_inner(graph: QGraph, reshape: QReshape) -> bool:
    """Whether a change of shape leaves pixels one after another as they are."""
    source, target = graph.tensors[reshape.inputs[0]], graph.tensors[reshape.output]
    return source.shape[:2] == target.shape[:2]


def _plain(graph: QGraph, operator: QOperator) -> QOperator:
    if not isinstance(operator, QGather):
        return operator
    _, _, rows, columns = graph.tensors[operator.inputs[0]].shape
    if not np.array_equal(operator.pixels, np.arange(rows * columns)):
        return operator
    return QReshape(name=operator.name, inputs=operator.inputs, output=operator.output)
