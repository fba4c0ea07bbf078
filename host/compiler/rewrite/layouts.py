# SPDX-License-Identifier: Apache-2.0
"""Operators that only move elements of images, as slices of channels and as convolutions.

A split is one slice per part. Nearest resizing by whole factors is a depthwise transposed
convolution with weights of 1. DepthToSpace and SpaceToDepth are convolutions with one weight of 1
per output channel and pixel. No rewrite changes a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil, floor
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
    is_single,
    shape_of,
    stand_for,
    take_place,
    text_of,
)

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
            _enlarge(editor, node)
        elif is_kind(node, "DepthToSpace", "SpaceToDepth"):
            _shuffle_pixels(editor, node)


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


def _enlarge(editor: Editor, node: ir.Node) -> None:
    """Nearest resizing by whole factors."""
    data, result = node.inputs[0], node.outputs[0]
    shape, target = shape_of(data), shape_of(result)
    if not is_single(data) or shape is None or target is None:
        return
    if len(shape) != _IMAGE_RANK or shape[:2] != target[:2]:
        return
    if text_of(node, "mode", "nearest") != "nearest":
        return
    factors = [after // before for before, after in zip(shape[2:], target[2:], strict=True)]
    stated = array_of(input_of(node, 2))
    scales = list(factors) if stated is None or not stated.size else list(stated[2:])
    if len(scales) != len(factors):
        return
    for before, after, factor, scale in zip(shape[2:], target[2:], factors, scales, strict=True):
        if before * factor != after or factor != scale:
            return
        if _sources(node, before, after) != [place // factor for place in range(after)]:
            return
    channels = shape[_CHANNELS]
    ones = np.ones((channels, 1, *factors), np.float32)
    _convolve(editor, node, "ConvTranspose", ones, factors, groups=channels)


def _sources(node: ir.Node, before: int, after: int) -> list[int]:
    """Which element nearest resizing along one axis takes for each of its results."""
    mode = text_of(node, "coordinate_transformation_mode", "half_pixel")
    rounding = text_of(node, "nearest_mode", "round_prefer_floor")
    scale = after / before
    found = []
    for place in range(after):
        if mode == "asymmetric":
            at = place / scale
        elif mode == "half_pixel" or (mode == "pytorch_half_pixel" and after > 1):
            at = (place + 0.5) / scale - 0.5
        else:
            return []
        rounded = {
            "round_prefer_floor": ceil(at - 0.5),
            "round_prefer_ceil": floor(at + 0.5),
            "floor": floor(at),
            "ceil": ceil(at),
        }.get(rounding, -1)
        found.append(min(max(rounded, 0), before - 1))
    return found


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


def _convolve(
    editor: Editor, node: ir.Node, kind: str, weights: Array, sides: Sequence[int], *, groups: int
) -> None:
    """Let a convolution whose windows touch take a node's place."""
    result = node.outputs[0]
    attributes = {
        "kernel_shape": list(sides),
        "strides": list(sides),
        "group": groups,
        "pads": [0, 0, 0, 0],
        "dilations": [1, 1],
    }
    stem = result.name or "moved"
    constant = editor.constant(f"{stem}_weights", weights)
    moved = editor.before(
        node, kind, [node.inputs[0], constant], attributes, stem=stem, like=result
    )
    take_place(editor, node, moved)
