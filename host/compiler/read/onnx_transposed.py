# SPDX-License-Identifier: Apache-2.0
"""What follows a transposed convolution channel by channel, as its own weights and bias.

ONNX Runtime does this behind plain convolutions. Here: additions of, and multiplications by, one
constant per channel, and batch normalisation.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.onnx_affine import normalisation, per_channel
from tilewright.host.compiler.read.onnx_edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
    only_user,
    shape_of,
    stand_for,
)

_IMAGE_RANK: Final = 4


def fold_behind_transposed(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "ConvTranspose"):
            while _fold_next(editor, node):
                pass


def _fold_next(editor: Editor, node: ir.Node) -> bool:
    """Fold the one reader of a transposed convolution into it; whether there was one to fold."""
    weights, result = array_of(input_of(node, 1)), node.outputs[0]
    shape = shape_of(result)
    reader = only_user(result)
    if weights is None or weights.dtype != np.float32 or shape is None or reader is None:
        return False
    if len(shape) != _IMAGE_RANK or len(weights.shape) != _IMAGE_RANK:
        return False
    given = input_of(node, 2)
    bias = np.zeros(shape[1]) if given is None else array_of(given)
    found = _affine(reader, result, shape[1])
    if bias is None or found is None:
        return False
    factors, offsets = found
    groups = integer(node, "group", 1)
    # (C_in, C_out / groups, rows, columns): the channels of a group read only its own rows.
    apart = weights.astype(np.float64).reshape(groups, -1, *weights.shape[1:])
    scaled = apart * factors.reshape(groups, 1, -1, 1, 1)
    new = [
        array.astype(np.float32)
        for array in (scaled.reshape(weights.shape), bias.astype(np.float64) * factors + offsets)
    ]
    if not all(np.isfinite(array).all() for array in new):
        return False
    last = reader.outputs[0]
    stem = last.name or "enlarged"
    node.resize_inputs(3)
    node.replace_input_with(1, editor.constant(f"{stem}_weights", new[0]))
    node.replace_input_with(2, editor.constant(f"{stem}_bias", new[1]))
    stand_for(last, result)
    editor.graph.remove(reader, safe=True)
    return True


def _affine(reader: ir.Node, data: ir.Value, channels: int) -> tuple[Array, Array] | None:
    """Factors and offsets of an operator that works channel by channel on data."""
    if is_kind(reader, "BatchNormalization"):
        return normalisation(reader) if reader.inputs[0] is data else None
    if not is_kind(reader, "Add", "Mul") or shape_of(reader.outputs[0]) != shape_of(data):
        return None
    constant = reader.inputs[1] if reader.inputs[0] is data else reader.inputs[0]
    found = per_channel(data, constant)
    if found is None:
        return None
    none = np.zeros(channels) if is_kind(reader, "Mul") else np.ones(channels)
    return (found, none) if is_kind(reader, "Mul") else (none, found)
