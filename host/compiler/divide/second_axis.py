# SPDX-License-Identifier: Apache-2.0
"""Slices along the second of three axes: channels of images (B, C, P), tokens of (B, T, C)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tilewright.host.compiler.divide import tensor_layouts as layouts
from tilewright.host.compiler.divide.relax_match import Refusal
from tilewright.host.compiler.divide.relax_units import OffloadUnit
from tilewright.host.compiler.divide.tensor_layouts import TensorLayout
from tilewright.host.compiler.lower.epilogue import COPY_WEIGHT
from tilewright.host.compiler.lower.own_call import placeholders
from tilewright.host.compiler.lower.qgraph import QConv, QOperator, QSelect


def placed_slice(
    operator: QSelect, unit: OffloadUnit, lying: TensorLayout
) -> tuple[QOperator, tuple[TensorLayout, ...], TensorLayout]:
    """A slice as the operator that it is, the layout that it needs, and that of its result."""
    shape, result = unit.inputs[0].shape, unit.output.shape
    sequence = layouts.sequence(shape)
    by_pixels = lying.order == layouts.pixels(shape, 1).order != sequence.order
    if by_pixels and lying.shape[:2] == shape[:2]:
        order = layouts.pixels(result, 1).order
        b, _, h, w = lying.shape
        return operator, (lying,), TensorLayout(shape=(b, result[1], h, w), order=order)
    tokens = _tokens(shape[2], shape[1], operator.channels)
    return replace(tokens, bounds=operator.bounds), (sequence,), layouts.sequence(result)


def _tokens(channels: int, tokens: int, chosen: tuple[int, ...]) -> QConv:
    """Some tokens: a depthwise convolution, of whose window one weight is not 0."""
    first, count = chosen[0], len(chosen)
    stride = chosen[1] - first if count > 1 else tokens
    if stride < 1:
        raise Refusal("it turns tokens round")
    reach = (count - 1) * stride + 1
    window = first + 1 if count == 1 else tokens - reach + 1
    weights = np.zeros((channels, 1, window, 1), np.int8)
    weights[:, :, first] = COPY_WEIGHT
    return QConv(
        **placeholders(1),
        weights=weights,
        weight_scales=np.full(channels, 1 / COPY_WEIGHT),
        bias=np.zeros(channels),
        stride=(stride, 1),
        groups=channels,
    )
