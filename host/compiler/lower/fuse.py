# SPDX-License-Identifier: Apache-2.0
"""Rewrite a `QGraph` so that each operator left is one layer of the accelerator.

What is fused rounds once where the model rounds twice: the quantisation between a convolution and
its ReLU or residual add disappears. Its saturation does not (`QGraph.saturates`): it becomes bounds
of the layer, and where a layer has no place for bounds, nothing is fused unless it cannot clip.
`fuse` with ``keep_rounding`` keeps every quantisation of the model and fuses only what gives the
same integers.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from tilewright.host.compiler.lower.epilogue import clip_of
from tilewright.host.compiler.lower.gathers import join_gathers, with_fewer_moves
from tilewright.host.compiler.lower.qgraph import (
    UNBOUNDED,
    QAdd,
    QConv,
    QExtreme,
    QGraph,
    QMatmul,
    QMultiply,
    QOperator,
    QPool,
    QRescale,
    QReshape,
    QSelect,
    QTensor,
    compose,
)

_ABSORBING = (QConv, QAdd, QPool, QMatmul, QMultiply, QExtreme)
"""Operators whose result may be rounded to another scale."""


def fuse(graph: QGraph, *, keep_rounding: bool = False) -> QGraph:
    """Fuse activations, residual adds and flattening into the layers before and after them."""
    graph = _without_idle_moves(replace(graph, keep_rounding=keep_rounding))
    graph = _without_idle_moves(with_fewer_moves(graph))
    graph = _absorb_rescales(graph, keep_rounding=keep_rounding)
    if not keep_rounding:
        graph = _absorb_adds(graph)
        graph = _absorb_rescales(graph, keep_rounding=False)
    return _in_taken_order(_unflattened(_absorb_tables(graph)))


def _in_taken_order(graph: QGraph) -> QGraph:
    """Let a convolution write its channels in the order in which selections take them.

    Heads and parts that a model interleaves then follow each other, and nothing is copied.
    """
    readers, changed = graph.readers(), dict[str, QOperator]()
    for conv in graph.operators:
        if not isinstance(conv, QConv) or conv.groups > 1 or conv.transposed:
            continue
        selections = [each for each in readers.get(conv.output, ()) if isinstance(each, QSelect)]
        order = [channel for each in selections for channel in each.channels]
        others = len(selections) < len(readers.get(conv.output, ())) or len(conv.inputs) > 1
        if others or conv.output in graph.outputs or len(set(order)) < len(order):
            continue
        order += sorted(set(range(len(conv.weights))).difference(order))
        place = {channel: index for index, channel in enumerate(order)}
        changed[conv.name] = replace(
            conv,
            weights=conv.weights[order],
            weight_scales=conv.weight_scales[order],
            bias=conv.bias[order],
        )
        for each in selections:
            taken = tuple(place[channel] for channel in each.channels)
            changed[each.name] = replace(each, channels=taken)
    if not changed:
        return graph
    return replace(graph, operators=tuple(changed.get(o.name, o) for o in graph.operators))


def _rebuilt(graph: QGraph, operators: list[QOperator]) -> QGraph:
    """The graph with other operators and only the tensors that they name."""
    used = {*graph.inputs, *graph.outputs}
    for operator in operators:
        used.update((*operator.inputs, operator.output))
    tensors = {name: tensor for name, tensor in graph.tensors.items() if name in used}
    constants = {name: values for name, values in graph.constants.items() if name in used}
    return replace(graph, tensors=tensors, operators=tuple(operators), constants=constants)


def _without_idle_moves(graph: QGraph) -> QGraph:
    return _drop_identities(_rebuilt(graph, join_gathers(graph)))


def _drop_identities(graph: QGraph) -> QGraph:
    """Remove reshapes to the same shape and rescales that change nothing."""
    names: dict[str, str] = {}
    operators: list[QOperator] = []
    for operator in graph.operators:
        inputs = tuple(names.get(name, name) for name in operator.inputs)
        source, target = graph.tensors[inputs[0]], graph.tensors[operator.output]
        same = (source.shape, source.scale, source.zero_point) == (
            target.shape,
            target.scale,
            target.zero_point,
        )
        idle = isinstance(operator, QReshape) or (
            isinstance(operator, QRescale)
            and operator.bounds == UNBOUNDED
            and operator.lookup is None
        )
        if same and idle and operator.output not in graph.outputs:
            names[operator.output] = inputs[0]
        else:
            operators.append(replace(operator, inputs=inputs))
    return _rebuilt(graph, operators)


def _absorb_rescales(graph: QGraph, *, keep_rounding: bool) -> QGraph:
    """Give an operator the activation and scale of the rescale that alone reads its result."""
    while True:
        readers, writers = graph.readers(), graph.writers()
        for rescale in graph.operators:
            if not isinstance(rescale, QRescale) or rescale.lookup is not None:
                continue
            between = graph.tensors[rescale.inputs[0]]
            target = graph.tensors[rescale.output]
            writer = writers.get(between.name)
            exact = (between.scale, between.zero_point) == (target.scale, target.zero_point)
            if (
                isinstance(writer, _ABSORBING)
                and writer.lookup is None
                and len(readers[between.name]) == 1
                and between.name not in graph.outputs
                and (exact or not keep_rounding)
            ):
                kept = between.clips(target) if graph.saturates else UNBOUNDED
                bounds = compose(compose(writer.bounds, kept), rescale.bounds)
                merged = replace(writer, output=rescale.output, bounds=bounds)
                graph = _rebuilt(
                    graph,
                    [merged if o is writer else o for o in graph.operators if o is not rescale],
                )
                break
        else:
            return graph


def _absorb_adds(graph: QGraph) -> QGraph:
    """Turn ``add(conv(x), r)`` into a convolution with a residual, at the place of the add."""
    while True:
        readers = graph.readers()
        position = {operator.output: i for i, operator in enumerate(graph.operators)}
        for add in graph.operators:
            if not isinstance(add, QAdd) or add.inputs[0] == add.inputs[1]:
                continue
            candidates = [
                name
                for name in add.inputs
                if name in position
                and len(readers[name]) == 1
                and name not in graph.outputs
                and _takes_residual(graph.operators[position[name]], add, name)
                and not (graph.saturates and _may_clip(graph, name, add))
            ]
            if not candidates:
                continue
            chosen = max(candidates, key=position.__getitem__)
            conv = graph.operators[position[chosen]]
            other = add.inputs[1] if add.inputs[0] == chosen else add.inputs[0]
            assert isinstance(conv, QConv)
            if add.subtracts and chosen == add.inputs[1]:
                conv = replace(conv, weights=-conv.weights, bias=-conv.bias)
            merged = replace(
                conv,
                inputs=(*conv.inputs, other),
                output=add.output,
                bounds=add.bounds,
                subtracts=add.subtracts and chosen == add.inputs[0],
            )
            graph = _rebuilt(
                graph, [merged if o is add else o for o in graph.operators if o.output != chosen]
            )
            break
        else:
            return graph


def _takes_residual(operator: QOperator, add: QAdd, name: str) -> bool:
    """Whether a convolution can add what is added to its result; if it is taken off, negated."""
    negated = add.subtracts and name == add.inputs[1]
    return (
        isinstance(operator, QConv)
        and not (negated and operator.weights.min() == -128)
        and not operator.transposed
        and len(operator.inputs) == 1
        and operator.bounds == UNBOUNDED
        and operator.lookup is None
    )


def _may_clip(graph: QGraph, name: str, add: QAdd) -> bool:
    """Whether the range of a convolution's result may show in the sum that it is added to.

    It cannot at an end that the convolution never reaches, whatever its data; nor at one beyond
    which the sum lies outside of its own range, whatever is added.
    """
    conv = graph.writers()[name]
    assert isinstance(conv, QConv)
    between, target = graph.tensors[name], graph.tensors[add.output]
    first = add.inputs[0] == name
    added = _real_range(graph, add.inputs[1] if first else add.inputs[0])
    least, most = _least_and_most(graph, conv)
    low, high = between.real(-128), between.real(127)
    kept = compose((target.real(-128), target.real(127)), add.bounds)
    assert kept[0] is not None
    assert kept[1] is not None
    ends = kept[0], kept[1]
    if add.subtracts and first:
        added = -added[1], -added[0]
    elif add.subtracts:  # the sum of what the convolution is taken off, as if all were negated
        added, ends = (-added[1], -added[0]), (-ends[1], -ends[0])
    half = between.scale / 2
    below = least < low - half and low + added[1] > ends[0]
    above = most > high + half and high + added[0] < ends[1]
    return below or above


def _real_range(graph: QGraph, name: str) -> tuple[float, float]:
    """The least and the largest real value that a tensor may hold."""
    tensor, writer = graph.tensors[name], graph.writers().get(name)
    low, high = -128, 127
    if writer is not None and writer.lookup is not None:
        low, high = int(writer.lookup.entries.min()), int(writer.lookup.entries.max())
    elif writer is not None:
        low, high = clip_of(writer.bounds, tensor)
    return tensor.real(low), tensor.real(high)


def _least_and_most(graph: QGraph, conv: QConv) -> tuple[float, float]:
    """The least and the largest result that any data can give a convolution."""
    low, high = _real_range(graph, conv.inputs[0])
    if any(conv.pads):
        low, high = min(low, 0.0), max(high, 0.0)
    weights = conv.weights.reshape(conv.weights.shape[0], -1) * conv.weight_scales[:, None]
    up, down = np.maximum(weights, 0).sum(axis=1), np.minimum(weights, 0).sum(axis=1)
    least, most = up * low + down * high + conv.bias, up * high + down * low + conv.bias
    return float(least.min()), float(most.max())


def _absorb_tables(graph: QGraph) -> QGraph:
    """Let an operator look up the table that alone reads its result: the same integers."""
    readers = graph.readers()
    made: dict[str, QOperator] = {}
    writer_of: dict[str, str] = {}  # by tensor, the name of its operator
    for table in graph.operators:
        between, name = table.inputs[0], table.name
        writer = made.get(writer_of.get(between, ""))
        if (
            isinstance(table, QRescale)
            and table.lookup is not None
            and isinstance(writer, (*_ABSORBING, QRescale))
            and _addresses(table, graph.tensors[between])
            and len(readers[between]) == 1
            and between not in graph.outputs
        ):
            lookup, name = table.lookup, writer.name
            if writer.lookup is not None:  # of codes that are those of a table
                entries = lookup.entries[writer.lookup.entries.astype(int) + 128]
                lookup = replace(writer.lookup, entries=entries)
            made[name] = replace(writer, output=table.output, lookup=lookup)
        else:
            made[name] = table
        writer_of[table.output] = name
    return _rebuilt(graph, list(made.values()))


def _addresses(table: QOperator, data: QTensor) -> bool:
    """Whether a table is looked up with the codes of its data as they are."""
    lookup = table.lookup
    assert lookup is not None
    same = (lookup.scale, lookup.zero_point) == (data.scale, data.zero_point)
    return same and table.bounds == UNBOUNDED


def _unflattened(graph: QGraph) -> QGraph:
    """A dense layer on a flattened image is a convolution whose kernel is the image."""
    readers = graph.readers()
    flattened: dict[str, str] = {}
    for operator in graph.operators:
        if not isinstance(operator, QReshape) or operator.output in graph.outputs:
            continue
        source, target = graph.tensors[operator.inputs[0]], graph.tensors[operator.output]
        flat = target.shape == (source.shape[0], prod(source.shape[1:]), 1, 1)
        if flat and all(
            is_dense(reader) and target.name not in reader.inputs[1:]
            for reader in readers[target.name]
        ):
            flattened[target.name] = source.name
    operators: list[QOperator] = []
    for operator in graph.operators:
        if operator.output in flattened:
            continue
        if isinstance(operator, QConv) and operator.inputs[0] in flattened:
            source = graph.tensors[flattened[operator.inputs[0]]]
            operators.append(with_image_as_kernel(operator, source))
        else:
            operators.append(operator)
    return _rebuilt(graph, operators)


def with_image_as_kernel(dense: QConv, image: QTensor) -> QConv:
    """A dense layer on a flattened image as a convolution of the image."""
    weights = dense.weights.reshape(dense.weights.shape[0], *image.shape[1:])
    inputs = (image.name, *dense.inputs[1:])
    return replace(dense, inputs=inputs, weights=np.ascontiguousarray(weights))


def is_dense(operator: QOperator) -> bool:
    """Whether it is a plain convolution of one pixel."""
    return (
        isinstance(operator, QConv)
        and not operator.transposed
        and operator.groups == 1
        and operator.weights.shape[2:] == (1, 1)
        and operator.pads == (0, 0, 0, 0)
    )
