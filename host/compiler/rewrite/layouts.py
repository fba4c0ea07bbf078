# SPDX-License-Identifier: Apache-2.0
"""Operators that only move elements of images, as slices of channels and as convolutions.

A split is one slice per part. Nearest resizing by whole factors is a depthwise transposed
convolution with weights of 1. DepthToSpace and SpaceToDepth are convolutions with one weight of 1
per output channel and pixel. Col2Im adds patches that overlap: a transposed convolution in groups,
with one weight of 1 for each element of a patch. No rewrite changes a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    integers,
    is_kind,
    is_single,
    shape_of,
    stand_for,
    take_place,
    text_of,
)
from tilewright.host.compiler.rewrite.resizes import nearest

_IMAGE_RANK: Final = 4
_CHANNELS: Final = 1

MAX_SHUFFLED: Final = 1024
"""Channels up to which a convolution moves them to pixels: its products grow with their square."""


def move_by_layers(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "Split"):
            _slice_parts(editor, node)
        elif is_kind(node, "Resize"):
            _take_nearest(editor, node)
        elif is_kind(node, "DepthToSpace", "SpaceToDepth"):
            _shuffle_pixels(editor, node)
        elif is_kind(node, "Col2Im"):
            _add_patches(editor, node)


def _slice_parts(editor: Editor, node: ir.Node) -> None:
    """A slice for each part of a split."""
    data, shape = node.inputs[0], shape_of(node.inputs[0])
    shapes = [shape_of(output) for output in node.outputs]
    if not is_single(data) or shape is None or None in shapes:
        return
    axis = integer(node, "axis", 0) % len(shape)
    sizes = [each[axis] for each in shapes if each is not None]
    if sum(sizes) != shape[axis]:
        return
    start = 0
    for output, size in zip(node.outputs, sizes, strict=True):
        stem = output.name or "part"
        bounds = [
            editor.constant(f"{stem}_{name}", np.array([value], np.int64))
            for name, value in (("start", start), ("end", start + size), ("axis", axis))
        ]
        part = editor.before(node, "Slice", [data, *bounds], stem=stem, like=output)
        stand_for(output, part)
        start += size
    editor.graph.remove(node, safe=True)


def _take_nearest(editor: Editor, node: ir.Node) -> None:
    """Nearest resizing: by whole factors a layer, by others gathers."""
    data, shape, target = node.inputs[0], shape_of(node.inputs[0]), shape_of(node.outputs[0])
    if not is_single(data) or not shape or target is None or len(shape) != len(target):
        return
    taken = nearest(node)
    if not taken:
        return
    factors = [target[axis] // shape[axis] for axis in (2, 3)] if len(shape) == _IMAGE_RANK else []
    enlarges = all(factors) and set(taken) <= {2, 3}
    if enlarges and all(
        np.array_equal(places, np.arange(len(places)) // factors[axis - 2])
        for axis, places in taken.items()
    ):
        ones = np.ones((shape[_CHANNELS], 1, *factors), np.float32)
        _convolve(editor, node, "ConvTranspose", ones, factors, groups=shape[_CHANNELS])
        return
    for axis, places in taken.items():
        data = editor.gathered(node, data, axis, places, stem=node.outputs[0].name or "resized")
    take_place(editor, node, data)


def _shuffle_pixels(editor: Editor, node: ir.Node) -> None:
    """Channels as pixels of a larger image, or pixels as channels of a smaller one."""
    shape, side = shape_of(node.inputs[0]), integer(node, "blocksize", 1)
    target = shape_of(node.outputs[0])
    if not is_single(node.inputs[0]) or shape is None or target is None:
        return
    if len(shape) != _IMAGE_RANK:
        return
    to_space = node.op_type == "DepthToSpace"
    wide, narrow = (shape, target) if to_space else (target, shape)
    if wide[_CHANNELS] > MAX_SHUFFLED:
        return
    columns_first = to_space and text_of(node, "mode", "DCR") == "CRD"
    weights = np.zeros((wide[_CHANNELS], narrow[_CHANNELS], side, side), np.float32)
    for row in range(side):
        for column in range(side):
            for channel in range(narrow[_CHANNELS]):
                place = (row * side + column) * narrow[_CHANNELS] + channel
                if columns_first:
                    place = (channel * side + row) * side + column
                weights[place, channel, row, column] = 1
    kind = "ConvTranspose" if to_space else "Conv"
    _convolve(editor, node, kind, weights, [side, side], groups=1)


def _add_patches(editor: Editor, node: ir.Node) -> None:
    """Patches of an image, one behind another, added where they lie (PyTorch's Fold)."""
    data, shape, target = node.inputs[0], shape_of(node.inputs[0]), shape_of(node.outputs[0])
    sides = array_of(input_of(node, 2))
    if (
        not is_single(data)
        or not shape
        or not target
        or sides is None
        or len(target) != _IMAGE_RANK
    ):
        return
    stated = {
        name: integers(node, name, [default] * count)
        for name, default, count in (("strides", 1, 2), ("pads", 0, 4), ("dilations", 1, 2))
    }
    kernel, pads = [int(side) for side in sides], stated["pads"]
    counts, missing = [], []
    for axis in (0, 1):
        size, step = target[2 + axis] + pads[axis] + pads[2 + axis], stated["strides"][axis]
        rest = size - stated["dilations"][axis] * (kernel[axis] - 1) - 1
        counts.append(rest // step + 1)
        missing.append(rest % step)
    elements, channels = prod(kernel), target[_CHANNELS]
    if shape[1:] != (channels * elements, prod(counts)) or min(counts) < 1:
        return
    weights = np.tile(np.eye(elements, dtype=np.float32), (channels, 1))
    weights = weights.reshape(channels * elements, 1, *kernel)
    images = (*shape[:2], *counts)
    image = editor.reshaped(node, data, images, stem=f"{node.outputs[0].name}_patches")
    node.replace_input_with(0, image)
    more = {**stated, "output_padding": missing}
    _convolve(editor, node, "ConvTranspose", weights, kernel, groups=channels, **more)


def _convolve(
    editor: Editor,
    node: ir.Node,
    kind: str,
    weights: Array,
    sides: Sequence[int],
    *,
    groups: int,
    **others: Sequence[int],
) -> None:
    """Let a convolution whose windows touch, if nothing else is said, take a node's place.

    In a quantised model its weights are quantised, too, at a scale of 1.
    """
    result, data = node.outputs[0], node.inputs[0]
    attributes = {
        "kernel_shape": list(sides),
        "strides": list(sides),
        "group": groups,
        "pads": [0, 0, 0, 0],
        "dilations": [1, 1],
        **{name: list(numbers) for name, numbers in others.items()},
    }
    stem = result.name or "moved"
    constant = editor.constant(f"{stem}_weights", weights)
    writer = None if data is None else data.producer()
    if is_kind(writer, "Reshape") and writer.inputs[0] is not None:
        writer = writer.inputs[0].producer()
    if is_kind(writer, "DequantizeLinear"):
        steps = [
            editor.constant(f"{stem}_{name}", array)
            for name, array in (
                ("steps", weights.astype(np.int8)),
                ("scale", np.ones((), np.float32)),
                ("zero_point", np.zeros((), np.int8)),
            )
        ]
        constant = editor.before(
            node, "DequantizeLinear", steps, stem=f"{stem}_real", like=constant
        )
    moved = editor.before(node, kind, [data, constant], attributes, stem=stem, like=result)
    take_place(editor, node, moved)
