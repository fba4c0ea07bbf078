# SPDX-License-Identifier: Apache-2.0
"""Operators of vision transformers with channels last, in the forms that the accelerator takes.

- A roll, which PyTorch exports as two slices and their concatenation, is one gather.
- Every so many pixels of an image as channels (patch merging) are depthwise convolutions with one
  weight of 1, joined along the channels.
- The mean over the pixels is a global pool.
- A constant that is added in another shape, as masks of windows are, is added in the shape before.

No rewrite changes a result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Editor,
    array_of,
    axes_of,
    input_of,
    integer,
    is_kind,
    is_single,
    only_user,
    shape_of,
    take_place,
)

_RANK: Final = 4
_TO_IMAGE: Final = [0, 3, 1, 2]
_FROM_IMAGE: Final = [0, 2, 3, 1]


def rewrite_windows(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "Concat"):
            done = _roll(editor, node) or _merge(editor, node)
        elif is_kind(node, "ReduceMean"):
            done = _mean(editor, node)
        elif is_kind(node, "Reshape"):
            done = _addition(editor, node)
        else:
            continue
        if done is not None:
            take_place(editor, node, done)
    editor.drop_unused()  # what is read once now shall have one reader


def _roll(editor: Editor, node: ir.Node) -> ir.Value | None:
    """A gather for slices of one tensor that together are all of it, along one axis."""
    shape = shape_of(node.outputs[0])
    if shape is None or len(node.inputs) != 2:
        return None
    axis = integer(node, "axis", 0) % len(shape)
    found = [_positions(value) for value in node.inputs]
    if any(each is None or set(each[1]) != {axis} for each in found):
        return None
    (data, first), (other, second) = [each for each in found if each is not None]
    positions = np.array([*first[axis], *second[axis]], np.int64)
    if data is not other or shape_of(data) != shape or set(positions) != set(range(shape[axis])):
        return None
    stem = node.outputs[0].name or "roll"
    indices = editor.constant(f"{stem}_positions", positions)
    return editor.before(
        node, "Gather", [data, indices], {"axis": axis}, stem=stem, like=node.outputs[0]
    )


def _positions(value: ir.Value | None) -> tuple[ir.Value, dict[int, range]] | None:
    """The tensor that slices take a value from, and the positions that they take of each axis."""
    cut: dict[int, range] = {}
    while value is not None and is_kind(node := value.producer(), "Slice"):
        shape = shape_of(node.inputs[0])
        bounds = [array_of(input_of(node, index)) for index in (1, 2)]
        if shape is None or any(each is None for each in bounds):
            return None
        starts, ends = (each.reshape(-1).tolist() for each in bounds if each is not None)
        axes = _numbers(node, 3, range(len(starts)))
        steps = _numbers(node, 4, [1] * len(starts))
        for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
            place = axis % len(shape)
            if place in cut:
                return None
            cut[place] = range(shape[place])[start:end:step]
        value = node.inputs[0]
    return (value, cut) if value is not None and cut else None


def _numbers(node: ir.Node, index: int, missing: Sequence[int]) -> Sequence[int]:
    array = array_of(input_of(node, index))
    return missing if array is None else [int(number) for number in array.reshape(-1)]


def _merge(editor: Editor, node: ir.Node) -> ir.Value | None:
    """Convolutions for slices of every so many pixels, joined along channels that are last."""
    shape = shape_of(node.outputs[0])
    if shape is None or len(shape) != _RANK or integer(node, "axis", 0) % _RANK != _RANK - 1:
        return None
    parts = [_positions(value) for value in node.inputs]
    known = [each for each in parts if each is not None]
    if len(known) != len(parts) or any(each[0] is not known[0][0] for each in known):
        return None
    data = known[0][0]
    before = shape_of(data)
    if before is None or not is_single(data) or 0 in shape:
        return None
    if any(before[axis] % shape[axis] for axis in (1, 2)):
        return None
    sides = [before[axis] // shape[axis] for axis in (1, 2)]
    corners = []
    for _, cut in known:
        corner = [cut.get(axis, range(before[axis])) for axis in (1, 2)]
        if set(cut) - {1, 2} or any(
            len(each) != shape[axis] or each.step != side or each.start >= side
            for axis, each, side in zip((1, 2), corner, sides, strict=True)
        ):
            return None
        corners.append([each.start for each in corner])
    stem = node.outputs[0].name or "merged"
    image = _turned(editor, node, data, _TO_IMAGE, f"{stem}_image")
    moved = [
        _corner(editor, node, image, sides, corner, f"{stem}_{number}")
        for number, corner in enumerate(corners)
    ]
    joined = editor.before(node, "Concat", moved, {"axis": 1}, stem=f"{stem}_joined", like=image)
    joined.shape = ir.Shape([shape[axis] for axis in _TO_IMAGE])
    return _turned(editor, node, joined, _FROM_IMAGE, stem)


def _corner(
    editor: Editor,
    node: ir.Node,
    image: ir.Value,
    sides: Sequence[int],
    corner: Sequence[int],
    stem: str,
) -> ir.Value:
    """One pixel of each window of an image, as a depthwise convolution."""
    n, channels, height, width = shape_of(image) or ()
    weights = np.zeros((channels, 1, *sides), np.float32)
    weights[:, :, corner[0], corner[1]] = 1
    attributes = {
        "group": channels,
        "kernel_shape": list(sides),
        "strides": list(sides),
        "pads": [0, 0, 0, 0],
        "dilations": [1, 1],
    }
    constant = editor.constant(f"{stem}_weights", weights)
    moved = editor.before(node, "Conv", [image, constant], attributes, stem=stem, like=image)
    moved.shape = ir.Shape((n, channels, height // sides[0], width // sides[1]))
    return moved


def _mean(editor: Editor, node: ir.Node) -> ir.Value | None:
    """A global pool of an image with channels last."""
    data, shape = node.inputs[0], shape_of(node.inputs[0])
    if not is_single(data) or shape is None or len(shape) != _RANK:
        return None
    if sorted(axis % _RANK for axis in axes_of(node)) != [1, 2]:
        return None
    stem = node.outputs[0].name or "mean"
    image = _turned(editor, node, data, _TO_IMAGE, f"{stem}_image")
    pooled = editor.before(node, "GlobalAveragePool", [image], stem=f"{stem}_pooled", like=image)
    pooled.shape = ir.Shape((shape[0], shape[3], 1, 1))
    if integer(node, "keepdims", 1):
        return _turned(editor, node, pooled, _FROM_IMAGE, stem)
    return editor.before(node, "Flatten", [pooled], stem=stem, like=node.outputs[0])


def _addition(editor: Editor, node: ir.Node) -> ir.Value | None:
    """The sum with a constant before a change of shape that this node takes back."""
    total, result = node.inputs[0], node.outputs[0]
    addition = None if total is None or only_user(total) is None else total.producer()
    if not is_kind(addition, "Add"):
        return None
    for value, other in (addition.inputs, addition.inputs[::-1]):
        constant, source = array_of(other), None if value is None else value.producer()
        if constant is None or value is None or not is_kind(source, "Reshape"):
            continue
        data, wide = source.inputs[0], shape_of(value)
        shape = shape_of(data)
        if shape is None or shape != shape_of(result) or wide is None or wide != shape_of(total):
            return None
        stem = result.name or "sum"
        whole = np.ascontiguousarray(np.broadcast_to(constant, wide)).reshape(shape)
        added = editor.constant(f"{stem}_constant", whole)
        return editor.before(node, "Add", [data, added], stem=stem, like=result)
    return None


def _turned(
    editor: Editor, node: ir.Node, data: ir.Value, axes: Sequence[int], stem: str
) -> ir.Value:
    turned = editor.before(node, "Transpose", [data], {"perm": list(axes)}, stem=stem, like=data)
    sizes = shape_of(data) or ()
    turned.shape = ir.Shape([sizes[axis] for axis in axes])
    return turned
