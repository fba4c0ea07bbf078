# SPDX-License-Identifier: Apache-2.0
"""Weights and constants of a float model take factors on channels."""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    shape_of,
)
from tilewright.host.network.operators import CONVOLUTIONS

IMAGE_RANK: Final = 4
SEQUENCE_RANK: Final = 3


def channel_axis(shape: tuple[int, ...]) -> int:
    """The axis of the channels: (N, C), (N, tokens, C) or (N, C, H, W)."""
    return 2 if len(shape) == SEQUENCE_RANK else 1


def channel_vector(value: ir.Value | None, channels: int) -> Array | None:
    """A constant that has one number for each channel, as (C,); ``None``: it is none."""
    array = array_of(value)
    if array is None or array.shape[-1:] != (channels,) or array.size != channels:
        return None
    if array.dtype != np.float32:
        return None
    return array.reshape(-1)


def channel_operand(value: ir.Value | None, shape: tuple[int, ...]) -> Array | None:
    """A constant operand beside a tensor of a shape, as (C,); ``None``: it differs by pixel."""
    array, axis = array_of(value), channel_axis(shape)
    if array is None or array.dtype != np.float32:
        return None
    if array.size == 1:
        return np.broadcast_to(array.reshape(()), (shape[axis],))
    wide = (1,) * (len(shape) - array.ndim) + array.shape
    fits = len(wide) == len(shape) and wide[axis] == array.size == shape[axis]
    return array.reshape(-1) if fits else None


def grouped(node: ir.Node) -> Array | None:
    """The weights of a layer as (groups, outputs, inputs, taps); ``None``: they are not constant.

    Outputs and inputs are counted within a group.
    """
    weights = array_of(input_of(node, 1))
    rank = IMAGE_RANK if node.op_type in CONVOLUTIONS else 2
    if weights is None or weights.ndim != rank or weights.dtype != np.float32:
        return None
    if rank == 2:
        return (weights if _is_transposed(node) else weights.T)[None, :, :, None]
    first, second, height, width = weights.shape
    groups = integer(node, "group", 1)
    split = weights.reshape(groups, first // groups, second, height * width)
    return split.swapaxes(1, 2) if node.op_type == "ConvTranspose" else split


def _is_transposed(node: ir.Node) -> bool:
    return node.op_type == "Gemm" and bool(integer(node, "transB", 0))


def scale_layer(editor: Editor, node: ir.Node, before: Array, after: Array) -> None:
    """Let a layer take data that were scaled, and give scaled results."""
    weights = grouped(node)
    assert weights is not None
    groups, outputs, inputs, _ = weights.shape
    scaled = weights
    if (before != 1).any():
        scaled = scaled / before.astype(np.float32).reshape(groups, 1, inputs, 1)
    if (after != 1).any():
        scaled = scaled * after.astype(np.float32).reshape(groups, outputs, 1, 1)
        scale_vector(editor, node, 2, after)
    if scaled is weights:
        return
    if node.op_type == "ConvTranspose":
        scaled = scaled.swapaxes(1, 2)
    elif node.op_type != "Conv":
        matrix = scaled[0, :, :, 0]
        scaled = matrix if _is_transposed(node) else matrix.T
    shape = shape_of(node.inputs[1])
    _replace(editor, node, 1, scaled.reshape(shape))


def scale_vector(editor: Editor, node: ir.Node, index: int, factors: Array) -> None:
    """Scale a constant with one number for each channel, if there is one."""
    array = array_of(input_of(node, index))
    if array is not None and (factors != 1).any():
        _replace(editor, node, index, array * factors.reshape(array.shape))


def scale_operand(editor: Editor, node: ir.Node, index: int, factors: Array) -> None:
    """Scale a constant operand; a number becomes one for each channel."""
    shape = shape_of(node.outputs[0])
    if shape is None or (factors == 1).all():
        return
    channels = channel_operand(node.inputs[index], shape)
    assert channels is not None
    pixels = (1,) * (len(shape) - 1 - channel_axis(shape))
    _replace(editor, node, index, (channels * factors).reshape(-1, *pixels))


def _replace(editor: Editor, node: ir.Node, index: int, array: Array) -> None:
    constant = editor.constant(f"{node.name}_scaled", array.astype(np.float32))
    node.replace_input_with(index, constant)
