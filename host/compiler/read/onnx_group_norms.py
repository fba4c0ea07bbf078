# SPDX-License-Identifier: Apache-2.0
"""Normalisation of groups of channels as that of instances, whose channels are the groups.

ONNX Runtime would write it out with shapes that it computes at run time.
"""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import (
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
    number,
    shape_of,
    take_place,
)

_EPSILON: Final = 1e-5


def state_groups(model: ir.Model) -> bool:
    """Rewrite what can be, in place; whether anything was."""
    editor, changed = Editor(model.graph), False
    for node in list(model.graph):
        found = _normalised(editor, node) if is_kind(node, "GroupNormalization") else None
        if found is not None:
            take_place(editor, node, found)
            changed = True
    return changed


def _normalised(editor: Editor, node: ir.Node) -> ir.Value | None:
    """Scale and offset are of channels, as since operator set 21."""
    data, shape, groups = node.inputs[0], shape_of(node.inputs[0]), integer(node, "num_groups", 0)
    factors, offsets = (array_of(input_of(node, index)) for index in (1, 2))
    if data is None or shape is None or factors is None or offsets is None or len(shape) < 2:
        return None
    if not factors.size == offsets.size == shape[1]:
        return None
    stem = node.outputs[0].name or "normalised"
    plain = [
        editor.constant(f"{stem}_{name}", np.full(groups, value, np.float32))
        for name, value in (("scale", 1), ("offset", 0))
    ]
    rows = editor.reshaped(node, data, [shape[0], groups, prod(shape[1:]) // groups], stem=stem)
    more = {"epsilon": number(node, "epsilon", _EPSILON)}
    rows = editor.before(node, "InstanceNormalization", [rows, *plain], more, stem=stem, like=rows)
    result = editor.reshaped(node, rows, shape, stem=stem)
    for kind, each in (("Mul", factors), ("Add", offsets)):
        wide = each.astype(np.float32).reshape(-1, *[1] * (len(shape) - 2))
        number_of = editor.constant(f"{stem}_{kind}", wide)
        result = editor.before(node, kind, [result, number_of], stem=stem, like=result)
    return result
