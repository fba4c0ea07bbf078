# SPDX-License-Identifier: Apache-2.0
"""Pooling that rounds its sizes up, as pooling with more padding at the end.

With `ceil_mode` a last window may reach beyond the padding, but must begin in the image or in the
padding before it. ONNX Runtime holds to that; ONNX's shape inference and TVM do not.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.edit import (
    Editor,
    input_of,
    integer,
    integers,
    is_kind,
    shape_of,
    text_of,
)


def round_pool_down(graph: ir.Graph) -> bool:
    """State the padding of the first such pool, in place; whether there was one.

    Shapes behind it have to be inferred anew.

    Args:
        graph: with shapes that are right up to that pool.
    """
    for node in graph:
        if not is_kind(node, "MaxPool", "AveragePool") or not integer(node, "ceil_mode", 0):
            continue
        if _round_down(Editor(graph), node):
            node.attributes["ceil_mode"] = ir.AttrInt64("ceil_mode", 0)
            return True
    return False


def _round_down(editor: Editor, node: ir.Node) -> bool:
    """Whether a pool's sizes are known; its padding is stated then."""
    shape = shape_of(input_of(node, 0))
    mode = text_of(node, "auto_pad", "NOTSET")
    if mode.startswith("SAME"):
        return True  # which rounds up by itself
    if mode == "VALID":
        node.attributes["auto_pad"] = ir.AttrString("auto_pad", "NOTSET")
        node.attributes.pop("pads", None)
    if shape is None:
        return False
    sizes = shape[2:]
    kernel = integers(node, "kernel_shape", ())
    strides = integers(node, "strides", [1] * len(sizes))
    dilations = integers(node, "dilations", [1] * len(sizes))
    pads = integers(node, "pads", [0] * (2 * len(sizes)))
    if not len(sizes) == len(kernel) == len(strides) == len(dilations) == len(pads) // 2:
        return False
    before, behind = pads[: len(sizes)], pads[len(sizes) :]
    more = [
        _missing(size, (k - 1) * d + 1, stride, first, last)
        for size, k, d, stride, first, last in zip(
            sizes, kernel, dilations, strides, before, behind, strict=True
        )
    ]
    if any(more) and node.op_type == "AveragePool" and integer(node, "count_include_pad", 0):
        # Stated padding counts as elements, what lies behind it does not.
        widths = np.array([0, 0, *before, 0, 0, *behind], np.int64)
        stem = node.outputs[0].name or "pool"
        inputs = [input_of(node, 0), editor.constant(f"{stem}_pads", widths)]
        padded = editor.before(node, "Pad", inputs, stem=f"{stem}_padded", like=node.inputs[0])
        padded.shape = ir.Shape(
            (*shape[:2], *(a + n + b for a, n, b in zip(before, sizes, behind, strict=True)))
        )
        node.replace_input_with(0, padded)
        node.attributes["count_include_pad"] = ir.AttrInt64("count_include_pad", 0)
        before, behind = [0] * len(sizes), [0] * len(sizes)
    ends = [last + extra for last, extra in zip(behind, more, strict=True)]
    if any(end >= k for end, k in zip(ends, kernel, strict=True)):
        raise WorkloadError(
            "pooling with dilations must not reach beyond its padding",
            field=f"{node.op_type} {node.name}",
            remedy="export it with ceil_mode 0, or with more padding",
        )
    node.attributes["pads"] = ir.AttrInt64s("pads", [*before, *ends])
    return True


def _missing(size: int, reach: int, stride: int, before: int, behind: int) -> int:
    """Elements that a last window lacks which counts although it is not whole."""
    span = size + before + behind - reach
    windows = -(-span // stride) + 1
    if (windows - 1) * stride >= size + before:
        windows -= 1
    return max((windows - 1) * stride - span, 0)
