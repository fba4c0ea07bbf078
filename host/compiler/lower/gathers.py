# SPDX-License-Identifier: Apache-2.0
"""Moves of pixels: their layer, and several that follow each other as one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer
from tilewright.host.compiler.lower.qgraph import QGather, QGraph, QOperator, QReshape, QTensor
from tilewright.host.compiler.lower.workloads import refused, workload_on
from tilewright.host.lowering.gathers import copy_params
from tilewright.host.network.workload import Kind


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
