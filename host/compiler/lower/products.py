# SPDX-License-Identifier: Apache-2.0
"""The layer of a product of two activations, element by element or by one number a channel.

With data x and factor y, scales sx and sy, zero points zx and zy, the real product is
``sx * sy * (x - zx) * (y - zy)``. The accumulator is ``x * (y - zy)``, exact; what is missing is
``-zx * (y - zy)``. It is the epilogue's residual term, with y as the residual:

    ``((acc + bias) * m1 + y * m2 * 2^8) / 2^shift``

- m1 and shift are `snap_scales` of ``sx * sy / output scale``; ``m2 = rint(-zx * m1 / 2^8)``;
- ``bias = rint(-zy * m2 * 2^8 / m1)``, which takes the zero point of y off that term.

m1 has 15 bits, so the roundings of m2 and of the bias shift a result by less than 2.5 steps of the
accumulator, which are ``sx * sy``. With zx = 0 both are exact.

The maximum or minimum of two tensors of one scale is computed of their codes, and rounded once.

PReLU, whose slope is one number per channel, as operators that there are already.

``PReLU(x) = x + (slope - 1) * min(x, 0)``. The minimum is a clip at the scale of ``x``, which is
exact. The rest is a depthwise 1x1 convolution of it with ``x`` as residual: one rounding, and any
slope.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import numpy as np

from tilewright.host.compiler.lower.epilogue import COPY_WEIGHT, operator_epilogue
from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer
from tilewright.host.compiler.lower.qgraph import (
    QConv,
    QExtreme,
    QGraph,
    QMultiply,
    QOperator,
    QPrelu,
    QRescale,
    QTensor,
)
from tilewright.host.compiler.lower.workloads import refused, workload_on
from tilewright.host.machine.isa import RESIDUAL_SHIFT
from tilewright.host.network.requant import RequantParams
from tilewright.host.network.workload import Kind

_INT16_MAX: Final = 2**15 - 1


def expand_prelus(graph: QGraph) -> tuple[QGraph, dict[str, str]]:
    """The graph without `QPrelu`, and by name of an operator that is new where it comes from."""
    tensors, operators = dict(graph.tensors), list[QOperator]()
    origins: dict[str, str] = {}
    for operator in graph.operators:
        if not isinstance(operator, QPrelu):
            operators.append(operator)
            continue
        data = graph.tensors[operator.inputs[0]]
        negative = replace(data, name=f"{operator.output}/negative")
        tensors[negative.name] = negative
        clip = QRescale(
            name=f"{operator.name}/negative",
            inputs=(data.name,),
            output=negative.name,
            bounds=(None, 0.0),
        )
        change = operator.slopes - 1
        rest = QConv(
            name=operator.name,
            inputs=(negative.name, data.name),
            output=operator.output,
            bounds=operator.bounds,
            lookup=operator.lookup,
            weights=(np.sign(change) * COPY_WEIGHT).astype(np.int8)[:, None, None, None],
            weight_scales=np.where(change == 0, 1, np.abs(change)) / COPY_WEIGHT,
            bias=np.zeros(len(change)),
            groups=len(change),
        )
        operators += [clip, rest]
        origins[clip.name] = operator.name
    return replace(graph, tensors=tensors, operators=tuple(operators)), origins


def product_layer(
    operator: QMultiply | QExtreme,
    first: QTensor,
    second: QTensor,
    target: tuple[ChannelSlice, QTensor],
    part_of: Callable[[str], ChannelSlice],
) -> Layer:
    """The layer of a product, or of a maximum or minimum."""
    output, result = target
    if isinstance(operator, QExtreme):
        data, factor = first, second
        kind = Kind.MAXIMUM if operator.maximum else Kind.MINIMUM
        requant = _extreme_epilogue(operator, data, factor, result)
    else:
        data, factor = _roles(operator, first, second)
        kind = Kind.MULTIPLY if data.shape == factor.shape else Kind.SCALE
        requant = _epilogue(operator, data, factor, result)
    return Layer(
        name=operator.name,
        workload=workload_on(operator, data, kind=kind),
        data=part_of(data.name),
        weights=None,
        factor=part_of(factor.name),
        factor_zero=0 if isinstance(operator, QExtreme) else factor.zero_point,
        output=output,
        requant=requant,
        operators=(operator.name,),
    )


def _roles(operator: QMultiply, first: QTensor, second: QTensor) -> tuple[QTensor, QTensor]:
    """Data and factor: a factor may have one pixel; one without a zero point saves a pass."""
    if first.shape == second.shape:
        return (second, first) if second.zero_point and not first.zero_point else (first, second)
    for data, factor in ((first, second), (second, first)):
        if factor.shape == (*data.shape[:2], 1, 1):
            return data, factor
    raise refused(operator, f"{first.shape} times {second.shape} is not one number a channel")


def _extreme_epilogue(
    operator: QExtreme, first: QTensor, second: QTensor, output: QTensor
) -> RequantParams:
    """Of codes of one scale."""
    known = {(each.scale, each.zero_point) for each in (first, second)}
    if len(known) > 1 or first.shape != second.shape:
        raise refused(operator, "what is compared has several scales or shapes")
    channels = first.shape[1]
    return operator_epilogue(
        operator,
        output,
        units=np.full(channels, first.scale),
        bias=np.full(channels, -first.zero_point, float),
    )


def _epilogue(
    operator: QMultiply, data: QTensor, factor: QTensor, output: QTensor
) -> RequantParams:
    channels = data.shape[1]
    plain = operator_epilogue(
        operator,
        output,
        units=np.full(channels, data.scale * factor.scale),
        bias=np.zeros(channels),
    )
    step = 2**RESIDUAL_SHIFT
    m2 = np.rint(-data.zero_point * plain.m1.astype(np.float64) / step)
    bias = np.rint(-factor.zero_point * m2 * step / np.maximum(plain.m1, 1))
    codes = np.array([[-128], [127]])  # of the factor; what is off is linear in them
    off = plain.m1 * (bias + data.zero_point * (codes - factor.zero_point)) + m2 * step * codes
    if max(np.abs(off / 2.0**plain.shift).max(), np.abs(m2).max() / _INT16_MAX) > 1:
        raise refused(operator, "its result is so fine that a zero point cannot be taken off it")
    return replace(plain, m2=m2.astype(np.int16), bias=bias.astype(np.int32))
