# SPDX-License-Identifier: Apache-2.0
"""Names that ONNX Runtime's quantiser would give to tensors of its own, taken away from others.

It writes over a constant ``x_scale`` of the model when it quantises a tensor ``x``.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import Editor, array_of, is_kind

_ENDS: Final = (
    "_scale", "_zero_point", "_quantized", "_QuantizeLinear_Input", "_QuantizeLinear_Output",
    "_DequantizeLinear_Output",
)  # fmt: skip


def keep_names_apart(editor: Editor) -> None:
    """Rename constants and inner results of a graph in place, where another tensor takes a name."""
    graph = editor.graph
    inner = [value for node in graph for value in node.outputs if not value.is_graph_output()]
    every = {value.name for value in (*graph.inputs, *graph.initializers.values())}
    every |= {value.name for node in graph for value in node.outputs}
    for value in (*graph.initializers.values(), *inner):
        name = value.name or ""
        if not any(name.endswith(end) and name.removesuffix(end) in every for end in _ENDS):
            continue
        if not value.is_initializer():
            value.name = editor.name(f"{name}_inner")
        elif (array := array_of(value)) is not None and not value.is_graph_output():
            kept = editor.constant(f"{name}_constant", array)
            ir.convenience.replace_all_uses_with(value, kept)
    editor.drop_unused()


def name_conversions_apart(editor: Editor) -> None:
    """Rename conversions in place whose name the quantiser took from another node."""
    known: set[str] = set()
    conversions = []
    for node in editor.graph:
        if is_kind(node, "QuantizeLinear", "DequantizeLinear"):
            conversions.append(node)
        else:
            known.add(node.name or "")
    for node in conversions:
        if node.name in known:
            node.name = editor.name(f"{node.name}_added")
        known.add(node.name or "")
