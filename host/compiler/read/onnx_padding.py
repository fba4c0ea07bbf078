# SPDX-License-Identifier: Apache-2.0
"""Padding as numbers, where a model says how to find it: ``auto_pad`` and ``output_shape``."""

from __future__ import annotations

from math import ceil
from typing import Final

import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import (
    Editor,
    input_of,
    integers,
    is_kind,
    shape_of,
    text_of,
)

_WINDOWED: Final = ("Conv", "MaxPool", "AveragePool")


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
