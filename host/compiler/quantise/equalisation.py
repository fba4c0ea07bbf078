# SPDX-License-Identifier: Apache-2.0
"""Gives the channels of activations similar ranges, without changing what a float model computes.

An activation has one scale, so that a channel with small values is left with few steps, while
weights have a scale for each output channel. Factors on channels move differences in range from
activations to weights: cross-layer equalisation (Nagel et al., Data-Free Quantization Through
Weight Equalization and Bias Correction, 2019, section 4.1) with ranges of activations from
calibration data, as in SmoothQuant (Xiao et al., 2023, equation 4, migration strength 1/2): half of
the differences, on a logarithmic scale. More would leave small channels no room for values that
calibration has not seen.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.quantise.channel_factors import channel_axis, grouped
from tilewright.host.compiler.quantise.channel_scaling import ChannelScaling
from tilewright.host.compiler.quantise.observation import Batches, observe, require_finite
from tilewright.host.compiler.read.onnx_edit import Array, Editor

_SMALLEST_RANGE: Final = 1 / 64
"""Of a channel, relative to the largest one: calibration may have missed the rest of it."""


def equalise(
    model: ir.Model,
    rounded: Collection[str],
    accelerated: Collection[str],
    batches: Batches,
    tables: Collection[str] = (),
) -> None:
    """Equalise the channels of activations, in place.

    Args:
        model: in float, with known shapes.
        rounded: names of the activations that will be int8.
        accelerated: names of the operators that the accelerator takes.
        batches: calibration data.
        tables: names of the operators that a table computes.
    """
    scaling = ChannelScaling(model.graph, accelerated, tables)
    values = [v for n in model.graph for v in n.outputs if v.name in rounded]
    scalable = [value for value in values if scaling.classes(value).any()]
    if not scalable:
        return
    ranges, weights = np.zeros(scaling.count), np.zeros(scaling.count)
    for value, largest in zip(scalable, _largest(model, scalable, batches), strict=True):
        _raise(ranges, scaling.classes(value), largest)
    for node in scaling.layers:
        kernel, data = grouped(node), node.inputs[0]
        if kernel is None or data is None or node.name not in accelerated:
            continue
        if kernel.shape[2] > 1:  # the scale of a depthwise output takes any factor
            _raise(weights, scaling.classes(data), np.abs(kernel).max(axis=(1, 3)).reshape(-1))
    weights[weights == 0] = 1
    ratio = np.maximum(weights, _SMALLEST_RANGE) / np.maximum(ranges, _SMALLEST_RANGE)
    factors = np.where(ranges > 0, np.sqrt(ratio), 1.0)
    factors[0] = 1
    editor = Editor(model.graph)
    scaling.apply(editor, factors)
    editor.drop_unused()


def _raise(ranges: Array, classes: Array, found: Array) -> None:
    """Let the range of each class be at least what is found, relative to the largest."""
    np.maximum.at(ranges, classes, found / (found.max() or 1.0))


def _largest(model: ir.Model, values: Sequence[ir.Value], batches: Batches) -> list[Array]:
    """The largest magnitude in each channel of activations, (C,) each."""
    names = [value.name or "" for value in values]
    found: dict[str, Array] = {}
    for tensors in observe(ir.to_proto(model), names, batches):
        for name in names:
            axis = channel_axis(tensors[name].shape)
            rows = np.moveaxis(tensors[name], axis, 0).reshape(tensors[name].shape[axis], -1)
            largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
            require_finite(name, *largest)
            found[name] = np.maximum(found[name], largest) if name in found else largest
    return [found[name] for name in names]
