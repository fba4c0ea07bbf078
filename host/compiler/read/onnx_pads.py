# SPDX-License-Identifier: Apache-2.0
"""Padding that is more than rows of a constant: as choices of rows, slices and plain padding."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
    scalar_of,
    shape_of,
    take_place,
    text_of,
)

_REPEATING: Final[Mapping[str, Literal["edge", "reflect", "wrap"]]] = {
    "edge": "edge",
    "reflect": "reflect",
    "wrap": "wrap",
}
"""What ONNX calls padding with elements of the tensor, and NumPy."""


def rewrite_pads(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place: also running sums from the end."""
    for node in list(editor.graph):
        found = None
        if is_kind(node, "Pad"):
            found = _padded(editor, node)
        elif is_kind(node, "CumSum") and integer(node, "reverse", 0):
            found = _sum_from_the_end(editor, node)
        if found is not None:
            take_place(editor, node, found)


def _padded(editor: Editor, node: ir.Node) -> ir.Value | None:
    data, shape, widths = node.inputs[0], shape_of(node.inputs[0]), _widths(node)
    if data is None or shape is None or widths is None:
        return None
    mode, stem = text_of(node, "mode", "constant"), node.outputs[0].name or "padded"
    if mode in _REPEATING and widths.min(initial=0) >= 0:
        for axis in np.flatnonzero(widths.any(axis=1)):
            places = np.pad(np.arange(shape[axis]), widths[axis].tolist(), mode=_REPEATING[mode])
            data = _chosen(editor, node, data, int(axis), places)
        return None if data is node.inputs[0] else data
    if mode != "constant" or (widths.min(initial=0) >= 0 and input_of(node, 3) is None):
        return None
    cut, more = np.minimum(widths, 0), np.maximum(widths, 0)
    if cut.any():
        ends = [size + int(last) for size, (_, last) in zip(shape, cut, strict=True)]
        numbers = [
            editor.constant(f"{stem}_{name}", np.array(array, np.int64))
            for name, array in (("starts", -cut[:, 0]), ("ends", ends))
        ]
        data = editor.before(node, "Slice", [data, *numbers], stem=f"{stem}_cut", like=data)
        data.shape = ir.Shape(
            [size + int(both.sum()) for size, both in zip(shape, cut, strict=True)]
        )
        if not more.any():
            return data
    pads = editor.constant(f"{stem}_widths", more.T.reshape(-1).astype(np.int64))
    result = node.outputs[0]
    return editor.before(node, "Pad", [data, pads, input_of(node, 2)], stem=stem, like=result)


def _widths(node: ir.Node) -> Array | None:
    """How much is added before and behind each axis, (axes, 2); less than 0 where it is cut."""
    shape, stated = shape_of(node.inputs[0]), array_of(input_of(node, 1))
    axes = array_of(input_of(node, 3))
    if shape is None or stated is None or (axes is None and input_of(node, 3) is not None):
        return None
    widths = np.zeros((len(shape), 2), np.int64)
    widths[slice(None) if axes is None else axes.reshape(-1)] = stated.reshape(2, -1).T
    return widths


def _sum_from_the_end(editor: Editor, node: ir.Node) -> ir.Value | None:
    """A running sum of the elements in reverse, in reverse."""
    data, shape, axis = node.inputs[0], shape_of(node.inputs[0]), scalar_of(input_of(node, 1))
    if data is None or not shape or axis is None:
        return None
    axis = int(axis) % len(shape)
    places = np.arange(shape[axis])[::-1]
    turned = _chosen(editor, node, data, axis, places)
    more = {"exclusive": integer(node, "exclusive", 0)}
    stem = f"{node.outputs[0].name}_turned"
    total = editor.before(node, "CumSum", [turned, node.inputs[1]], more, stem=stem, like=turned)
    return _chosen(editor, node, total, axis, places)


def _chosen(editor: Editor, node: ir.Node, data: ir.Value, axis: int, places: Array) -> ir.Value:
    """The elements at these places of an axis."""
    stem = node.outputs[0].name or "padded"
    numbers = editor.constant(f"{stem}_places", places.astype(np.int64))
    chosen = editor.before(node, "Gather", [data, numbers], {"axis": axis}, stem=stem, like=data)
    shape = list(shape_of(data) or ())
    shape[axis] = places.size
    chosen.shape = ir.Shape(shape)
    return chosen
