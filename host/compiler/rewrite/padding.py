# SPDX-License-Identifier: Apache-2.0
"""Padding as numbers, where a model says how to find it, and as a part of what reads it."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Final, Literal

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
    only_user,
    scalar_of,
    shape_of,
    take_place,
    text_of,
)
from tilewright.host.network.operators import having

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
        elif is_kind(node, "MaxPool"):
            _pad_maximum(node)
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
            data = editor.gathered(node, data, int(axis), places, stem=stem)
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


def _pad_maximum(node: ir.Node) -> None:
    """What is padded with less than any number, and then only read by a MaxPool, is its padding."""
    reader, pad = node, _producer(node)
    order: list[int] | None = None
    if is_kind(pad, "Transpose") and only_user(pad.outputs[0]) is node:
        reader, pad, order = pad, _producer(pad), integers(pad, "perm", ())
    if not is_kind(pad, "Pad") or only_user(pad.outputs[0]) is not reader:
        return
    widths, value = _widths(pad), scalar_of(input_of(pad, 2))
    if widths is None or value is None or value > np.finfo(np.float32).min:
        return
    widths = widths[order] if order else widths
    kernel = np.array(integers(node, "kernel_shape", ()))
    dilations = np.array(integers(node, "dilations", [1] * kernel.size))
    stated = np.array(integers(node, "pads", [0] * 2 * kernel.size)).reshape(2, -1).T
    pads = stated + widths[2:]
    if text_of(pad, "mode", "constant") != "constant" or text_of(
        node, "auto_pad", "NOTSET"
    ) not in (
        "NOTSET",
        "VALID",
    ):
        return
    beyond = widths[:2].any() or widths.min() < 0 or (pads.max(axis=1) > (kernel - 1) * dilations)
    if np.any(beyond):
        return
    reader.replace_input_with(0, pad.inputs[0])
    if order:
        data = shape_of(pad.inputs[0]) or ()
        reader.outputs[0].shape = ir.Shape([data[axis] for axis in order])
    node.attributes["pads"] = ir.AttrInt64s("pads", pads.T.reshape(-1).tolist())
    node.attributes.pop("auto_pad", None)


def _producer(node: ir.Node) -> ir.Node | None:
    return node.inputs[0].producer() if node.inputs[0] is not None else None


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
    stem = f"{node.outputs[0].name}_turned"
    turned = editor.gathered(node, data, axis, places, stem=stem)
    more = {"exclusive": integer(node, "exclusive", 0)}
    total = editor.before(node, "CumSum", [turned, node.inputs[1]], more, stem=stem, like=turned)
    return editor.gathered(node, total, axis, places, stem=stem)


_WINDOWED: Final = ("Conv", *having(lambda each: each.pool == "window"))


def state_padding(editor: Editor) -> None:
    """Rewrite a graph with known shapes, in place."""
    for node in editor.graph:
        if is_kind(node, *_WINDOWED):
            _state_pads(node)
        elif is_kind(node, "ConvTranspose"):
            _state_transposed_pads(node)


def _state_pads(node: ir.Node) -> None:
    mode = text_of(node, "auto_pad", "NOTSET")
    if mode == "NOTSET":
        return
    shape, result = shape_of(input_of(node, 0)), shape_of(node.outputs[0])
    weights = shape_of(input_of(node, 1)) if node.op_type == "Conv" else None
    kernel = integers(node, "kernel_shape", weights[2:] if weights else ())
    if shape is None or result is None or not len(kernel) == len(shape) - 2 == len(result) - 2:
        return
    ones = [1] * len(kernel)
    strides, dilations = integers(node, "strides", ones), integers(node, "dilations", ones)
    totals = []
    for size, window, stride, dilation in zip(shape[2:], kernel, strides, dilations, strict=True):
        reach = (window - 1) * dilation + 1
        total = max((ceil(size / stride) - 1) * stride + reach - size, 0) if mode != "VALID" else 0
        totals.append(total)
    _write_pads(node, totals, more_before=mode == "SAME_LOWER")


def _state_transposed_pads(node: ir.Node) -> None:
    """Padding of a transposed convolution, of which ``output_shape`` says how large its result is.

    A result that is larger than without padding has more rows at the end: output padding.
    """
    mode, stated = text_of(node, "auto_pad", "NOTSET"), integers(node, "output_shape", ())
    if mode == "NOTSET" and not stated:
        return
    shape, weights = shape_of(input_of(node, 0)), shape_of(input_of(node, 1))
    result = shape_of(node.outputs[0])
    kernel = integers(node, "kernel_shape", weights[2:] if weights else ())
    if shape is None or result is None or not len(kernel) == len(shape) - 2 == len(result) - 2:
        return
    ones = [1] * len(kernel)
    strides, dilations = integers(node, "strides", ones), integers(node, "dilations", ones)
    more = integers(node, "output_padding", [0] * len(kernel))
    whole = [
        (size - 1) * step + (window - 1) * dilation + 1
        for size, window, step, dilation in zip(shape[2:], kernel, strides, dilations, strict=True)
    ]
    natural = [size + added for size, added in zip(whole, more, strict=True)]
    if stated:
        wanted = stated[-len(kernel) :]
        more = [max(a, w - size) for a, w, size in zip(more, wanted, whole, strict=True)]
    elif mode == "VALID":
        wanted = natural
    else:
        wanted = [size * stride for size, stride in zip(shape[2:], strides, strict=True)]
    totals = [max(size - w, 0) for size, w in zip(natural, wanted, strict=True)]
    found = [size + a - total for size, a, total in zip(whole, more, totals, strict=True)]
    if found != list(result[2:]):
        return
    node.attributes.pop("output_shape", None)
    node.attributes["output_padding"] = ir.AttrInt64s("output_padding", more)
    _write_pads(node, totals, more_before=mode != "SAME_UPPER")


def _write_pads(node: ir.Node, totals: list[int], *, more_before: bool) -> None:
    """State padding as numbers; what is left of an odd total lies before or behind."""
    small = [total // 2 for total in totals]
    large = [total - half for total, half in zip(totals, small, strict=True)]
    pads = [*large, *small] if more_before else [*small, *large]
    node.attributes.pop("auto_pad", None)
    node.attributes["pads"] = ir.AttrInt64s("pads", pads)
