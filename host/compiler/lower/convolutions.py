# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions as plain ones: one for each phase of the strides.

Bilinear enlargement by whole factors as depthwise convolutions, each on some output pixels.

Along one axis of n pixels, with factor k, output o is ``((2k - f) * x[i] + f * x[i + 1]) / 2k``,
where ``i = floor((2o + 1 - k) / 2k)`` and ``f = (2o + 1 - k) mod 2k``. Outside of the axis lies the
pixel at its border. So outputs of one residue modulo k are a convolution with the taps
``(2k - f, f)``, and those at the borders are copies of the first and the last pixel.

Weights are products of taps, which are whole numbers. The accumulator is exact, and the epilogue
rounds once: ``acc * scale / (2k)^2`` in steps of the output.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.lower.epilogue import operator_epilogue, rounded_result
from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer
from tilewright.host.compiler.lower.qgraph import QEnlarge, QTensor
from tilewright.host.compiler.lower.workloads import refused, workload_on
from tilewright.host.network.layout import Spread
from tilewright.host.network.workload import Kind

_MOST: Final = 127
"""Largest int8 weight."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """Outputs along one axis that one convolution computes.

    Attributes:
        first, step: the first output, and from one to the next.
    """

    first: int
    step: int
    taps: tuple[int, ...]  # whole numbers, whose sum is twice the factor
    stride: int  # of the convolution


def lines(size: int, factor: int) -> list[Line]:
    """The convolutions that compute all outputs of an axis once."""
    whole = 2 * factor
    if size == 1:
        return [Line(first=o, step=1, taps=(whole,), stride=1) for o in range(factor)]
    found = []
    for residue in range(factor):
        source, part = divmod(2 * residue + 1 - factor, whole)
        taps = (whole - part, part) if part else (whole,)
        first = residue - source * factor  # the first that reads the first pixel, unclamped
        found.append(Line(first=first, step=factor, taps=taps, stride=1))
    last = size * factor - 1
    for border in range(factor // 2):
        step = last - 2 * border
        found.append(Line(first=border, step=step, taps=(whole,), stride=size - 1))
    return found


def enlarging_layers(
    operator: QEnlarge,
    data: QTensor,
    target: tuple[ChannelSlice, QTensor],
    part_of: Callable[[str], ChannelSlice],
) -> list[Layer]:
    """The layers of an enlargement."""
    output, result = target
    _, channels, height, width = data.shape
    rows, columns = lines(height, operator.factors[0]), lines(width, operator.factors[1])
    found = []
    for number, (row, column) in enumerate(product(rows, columns)):
        taps = np.outer(row.taps, column.taps)
        taps //= np.gcd.reduce(taps, axis=None)
        if taps.max() > _MOST:
            raise refused(operator, f"factors {operator.factors} need weights above {_MOST}")
        total = int(taps.sum())
        requant = operator_epilogue(
            operator,
            result,
            units=np.full(channels, data.scale / total),
            bias=np.full(channels, -data.zero_point * total, float),
        )
        rounded = rounded_result(operator, result)
        workload = workload_on(
            operator,
            data,
            kind=Kind.DEPTHWISE,
            kernel_h=len(row.taps),
            kernel_w=len(column.taps),
            stride_h=row.stride,
            stride_w=column.stride,
            relu=requant.clip_min == rounded.zero_point and requant.clip_min > -128,
        )
        weights = np.broadcast_to(taps.astype(np.int8), workload.weight_shape)
        found.append(
            Layer(
                name=f"{operator.name}/{number}",
                workload=workload,
                data=part_of(data.name),
                weights=np.ascontiguousarray(weights),
                output=output,
                requant=requant,
                pad_value=data.zero_point,
                spread=Spread(
                    first_row=row.first,
                    first_column=column.first,
                    row_step=row.step,
                    column_step=column.step,
                    height=result.shape[2],
                    width=result.shape[3],
                ),
                operators=(operator.name,),
            )
        )
    return found


Int8Array = npt.NDArray[np.int8]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One residue of the output positions of a transposed convolution, along one axis.

    Attributes:
        pad_low, pad_high: padding of that convolution.
    """

    first: int  # first output position; the others follow at the stride
    taps: tuple[int, ...]  # kernel positions in the order of a plain convolution; -1 is a zero
    pad_low: int
    pad_high: int

    def take(self, weights: Int8Array, axis: int) -> Int8Array:
        """The phase's taps of a kernel."""
        padded = np.concatenate([weights, np.zeros_like(np.take(weights, [0], axis))], axis)
        taken: Int8Array = np.take(padded, list(self.taps), axis)
        return taken


def phases(size: int, kernel: int, stride: int, pad: int, outputs: int) -> list[Phase]:
    """The plain convolutions that make up a transposed one, along one axis.

    Output position o sums ``x[i] * w[k]`` over all ``i * stride - pad + k == o``. Of one residue of
    o modulo the stride only every stride-th tap takes part: a convolution with stride 1.
    """
    found = []
    for first in range(min(stride, outputs)):
        tap = (first + pad) % stride
        ahead = (first + pad) // stride
        taps = list(range(tap, kernel, stride))[::-1] or [-1]
        count = -(-(outputs - first) // stride)
        low = len(taps) - 1 - ahead
        taps = [-1] * max(-low, 0) + taps
        low = max(low, 0)
        high = count + len(taps) - 1 - size - low
        taps += [-1] * max(-high, 0)
        found.append(Phase(first=first, taps=tuple(taps), pad_low=low, pad_high=max(high, 0)))
    return found
