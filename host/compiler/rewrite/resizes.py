# SPDX-License-Identifier: Apache-2.0
"""Resizing of any axes as that of an image, (N, C, H, W): TVM resizes the last axes alone."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integers,
    is_kind,
    shape_of,
    take_place,
    text_of,
)

_RANK: Final = 4
_MOST: Final = 2
"""Axes of an image that are resized."""
_EXACT: Final = 1e-3


def resize_images(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in list(editor.graph):
        if is_kind(node, "Resize"):
            _state_all_axes(editor, node)
            _state_centres(node)
            found = _as_image(editor, node)
            if found is not None:
                take_place(editor, node, found)


def _state_all_axes(editor: Editor, node: ir.Node) -> None:
    """Factors or sizes of all axes where a resizing states those of some (operator set 18)."""
    shape, axes = shape_of(node.inputs[0]), integers(node, "axes", ())
    cropped = text_of(node, "coordinate_transformation_mode", "") == "tf_crop_and_resize"
    if shape is None or not axes or cropped:
        return
    if text_of(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return
    scales, sizes = array_of(input_of(node, 2)), array_of(input_of(node, 3))
    by_factors = scales is not None and scales.size > 0
    stated = scales if by_factors else sizes
    if stated is None:
        return
    whole: Array = np.ones(len(shape), np.float32) if by_factors else np.array(shape, np.int64)
    whole[[axis % len(shape) for axis in axes]] = stated
    node.replace_input_with(1, None)
    node.replace_input_with(2 if by_factors else 3, editor.constant(f"{node.name}_axes", whole))
    del node.attributes["axes"]


def _state_centres(node: ir.Node) -> None:
    """``half_pixel_symmetric`` is ``half_pixel`` where factors give whole sizes."""
    factors, shape = _factors(node), shape_of(node.inputs[0])
    mode = text_of(node, "coordinate_transformation_mode", "half_pixel")
    if mode == "half_pixel_symmetric" and factors is not None and shape is not None:
        sizes = factors * shape
        if np.abs(sizes - np.rint(sizes)).max(initial=0) < _EXACT:
            node.attributes["coordinate_transformation_mode"] = ir.AttrString(
                "coordinate_transformation_mode", "half_pixel"
            )


def _factors(node: ir.Node) -> Array | None:
    """The factor of each axis."""
    shape, result = shape_of(node.inputs[0]), shape_of(node.outputs[0])
    scales = array_of(input_of(node, 2))
    if shape is None or result is None or "axes" in node.attributes:
        return None
    if text_of(node, "keep_aspect_ratio_policy", "stretch") != "stretch":
        return None
    if scales is not None and scales.size:
        return scales.astype(np.float64)
    return np.array(result, np.float64) / shape


def _as_image(editor: Editor, node: ir.Node) -> ir.Value | None:
    """An image whose rows and columns are the axes that are resized, in their order."""
    data, shape, result = node.inputs[0], shape_of(node.inputs[0]), shape_of(node.outputs[0])
    factors, mode = _factors(node), text_of(node, "coordinate_transformation_mode", "half_pixel")
    if data is None or shape is None or result is None or factors is None:
        return None
    if mode == "tf_crop_and_resize":
        return None
    rank = len(shape)
    moved = [i for i in range(rank) if factors[i] != 1 or shape[i] != result[i]]
    if not 1 <= len(moved) <= _MOST or (rank > 3 and moved[0] >= 2):
        return None
    kept = [i for i in range(rank) if i not in moved]
    order = [*kept, *moved]
    lead, rows = [shape[i] for i in kept], [1] * (_MOST - len(moved))
    if rows and lead and mode == "align_corners":
        rows = [lead.pop()]  # one row has no corners to align
    lead = lead if len(lead) == 2 else [1, prod(lead)]
    small = [*lead, *rows, *(shape[i] for i in moved)]
    large = [*lead, *rows, *(result[i] for i in moved)]
    stem = node.outputs[0].name or "resized"
    turned = _turned(editor, node, data, order)
    image: ir.Value | None = _shaped(editor, node, turned, small)
    inputs = [image, None]
    if input_of(node, 3) is None:
        numbers = [1.0] * (_RANK - len(moved)) + [float(factors[i]) for i in moved]
        inputs.append(editor.constant(f"{stem}_scales", np.array(numbers, np.float32)))
    else:
        inputs += [None, editor.constant(f"{stem}_sizes", np.array(large, np.int64))]
    resized = editor.before(
        node, "Resize", inputs, node.attributes, stem=stem, like=node.outputs[0]
    )
    resized.shape = ir.Shape(large)
    back = _shaped(editor, node, resized, [result[i] for i in order])
    return _turned(editor, node, back, np.argsort(order).tolist())


def _turned(editor: Editor, node: ir.Node, data: ir.Value, order: list[int]) -> ir.Value:
    """Axes in another order."""
    shape = shape_of(data) or ()
    if order == sorted(order):
        return data
    stem = node.outputs[0].name or "resized"
    turned = editor.before(node, "Transpose", [data], {"perm": order}, stem=stem, like=data)
    turned.shape = ir.Shape([shape[i] for i in order])
    return turned


def _shaped(editor: Editor, node: ir.Node, data: ir.Value, shape: list[int]) -> ir.Value:
    """A value in another shape, or itself if it has that shape."""
    if list(shape_of(data) or ()) == shape:
        return data
    return editor.reshaped(node, data, shape, stem=node.outputs[0].name or "resized")
