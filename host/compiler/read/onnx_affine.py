# SPDX-License-Identifier: Apache-2.0
"""A factor and an offset for each channel of an image as a depthwise 1x1 convolution.

Batch normalisation stands alone where it follows a concatenation or a pool: behind a convolution it
is folded into that. Multiplication by one number per channel, and addition behind it, is the same
operation.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
    is_single,
    number,
    only_user,
    shape_of,
    take_place,
)

_IMAGE_RANK: Final = 4


def convolve_affine(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "BatchNormalization"):
            found = normalisation(node)
            if found is not None:
                _replace(editor, node, node.inputs[0], *found)
        elif is_kind(node, "Mul"):
            _multiplication(editor, node)


def normalisation(node: ir.Node) -> tuple[Array, Array] | None:
    """Factors and offsets of a batch normalisation with constant statistics."""
    arrays = [array_of(input_of(node, index)) for index in range(1, 5)]
    known = [array.astype(np.float64) for array in arrays if array is not None]
    if len(known) != len(arrays) or integer(node, "training_mode", 0):
        return None
    epsilon = number(node, "epsilon", 1e-5)
    scale, offset, mean, variance = known
    if not (variance + epsilon > 0).all():
        return None
    factors = scale / np.sqrt(variance + epsilon)
    return factors, offset - mean * factors


def _multiplication(editor: Editor, node: ir.Node) -> None:
    for data, other in ((0, 1), (1, 0)):
        factors = _of_many(node.inputs[data], node.inputs[other])
        if factors is None:
            continue
        source, last, offsets = node.inputs[data], node, np.zeros(factors.size)
        user = only_user(node.outputs[0])
        if is_kind(user, "Add"):
            side = 1 if user.inputs[0] is node.outputs[0] else 0
            found = _of_many(node.outputs[0], user.inputs[side])
            if found is not None:
                last, offsets = user, found
        _replace(editor, last, source, factors, offsets)
        return


def _of_many(data: ir.Value | None, constant: ir.Value | None) -> Array | None:
    """As `per_channel`, of an image with several channels and with a number stated for each."""
    found, array = per_channel(data, constant), array_of(constant)
    return found if array is not None and array.size > 1 else None


def per_channel(data: ir.Value | None, constant: ir.Value | None) -> Array | None:
    """A constant as float64 (channels,), if it is one number for each channel of an image.

    One number for all of them is that, too.
    """
    shape, array = shape_of(data), array_of(constant)
    if shape is None or len(shape) != _IMAGE_RANK or array is None or array_of(data) is not None:
        return None
    if array.ndim > _IMAGE_RANK or array.dtype != np.float32:
        return None
    aligned = (1,) * (_IMAGE_RANK - array.ndim) + array.shape
    if aligned not in ((1, shape[1], 1, 1), (1, 1, 1, 1)):
        return None
    return np.broadcast_to(array.astype(np.float64).reshape(-1), (shape[1],))


def _replace(
    editor: Editor, node: ir.Node, data: ir.Value | None, factors: Array, offsets: Array
) -> None:
    """Let a convolution of the data take the place of a node."""
    shape, result = shape_of(data), node.outputs[0]
    narrow = [array.astype(np.float32) for array in (factors, offsets)]
    if shape is None or len(shape) != _IMAGE_RANK or not is_single(data):
        return
    if shape[1] != factors.size:
        return
    if not all(np.isfinite(array).all() for array in narrow):
        return
    stem = result.name or "affine"
    weights = editor.constant(f"{stem}_factors", narrow[0].reshape(-1, 1, 1, 1))
    bias = editor.constant(f"{stem}_offsets", narrow[1])
    attributes = {
        "group": shape[1],
        "kernel_shape": [1, 1],
        "pads": [0, 0, 0, 0],
        "strides": [1, 1],
        "dilations": [1, 1],
    }
    new = editor.before(node, "Conv", [data, weights, bias], attributes, stem=stem, like=result)
    take_place(editor, node, new)
