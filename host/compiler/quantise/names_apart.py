# SPDX-License-Identifier: Apache-2.0
"""Names that ONNX Runtime's quantiser would give to tensors of its own, taken away from others.

It writes over a constant ``x_scale`` of the model when it quantises a tensor ``x``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

import onnx_ir as ir

from tilewright.host.compiler.read.edit import Editor, array_of, is_kind

_ENDS: Final = (
    "_scale", "_zero_point", "_quantized", "_QuantizeLinear_Input", "_QuantizeLinear_Output",
    "_DequantizeLinear_Output",
)  # fmt: skip


_NUMBER: Final = re.compile(r"_\d+$")


def keep_names_apart(editor: Editor) -> None:
    """Rename constants and inner results of a graph in place, where another tensor takes a name."""
    graph = editor.graph
    inner = [value for node in graph for value in node.outputs if not value.is_graph_output()]
    every = {value.name or "" for value in _values(graph)}
    for value in (*graph.initializers.values(), *inner):
        name = value.name or ""
        if not _is_given(name, every):
            continue
        if not value.is_initializer():
            value.name = _apart(editor, f"{name}_inner", every)
        elif (array := array_of(value)) is not None and not value.is_graph_output():
            kept = editor.constant(_apart(editor, f"{name}_constant", every), array)
            ir.convenience.replace_all_uses_with(value, kept)
    editor.drop_unused()


def _apart(editor: Editor, name: str, every: set[str]) -> str:
    """A name that no other one begins with: it takes no end that the quantiser gives."""
    while any(each.startswith(name) for each in every):
        name += "_"
    every.add(name)
    return editor.name(name)


def _is_given(name: str, every: Collection[str]) -> bool:
    """Whether the quantiser gives a name to what it makes of another tensor, numbered or not.

    It may make that in several steps: a bias ``b`` has a ``b_quantized_zero_point``.
    """
    shorter = {
        each.removesuffix(end)
        for each in (name, _NUMBER.sub("", name))
        for end in _ENDS
        if each.endswith(end)
    }
    return any(each in every or _is_given(each, every) for each in shorter)


def rename_ends(graph: ir.Graph) -> dict[str, str]:
    """Rename inputs and outputs in place, if one bears a name that the quantiser gives."""
    every = {value.name or "" for value in _values(graph)}
    ends = dict.fromkeys((*graph.inputs, *graph.outputs))
    if not any(_is_given(value.name or "", every) for value in ends):
        return {}
    editor = Editor(graph)
    found = {}
    for value in ends:
        old, value.name = value.name or "", _apart(editor, f"{value.name}_of_model", every)
        found[value.name or ""] = old
    return found


def restore_ends(graph: ir.Graph, names: Mapping[str, str]) -> None:
    """Give inputs and outputs their names again, in place; what took one gets another."""
    editor = Editor(graph)
    ends = dict.fromkeys((*graph.inputs, *graph.outputs))
    wanted = set(names.values())
    for value in _values(graph):
        if value.name in wanted and value not in ends:
            value.name = editor.name(f"{value.name}_added")
    for value in ends:
        value.name = names.get(value.name or "", value.name)


def _values(graph: ir.Graph) -> list[ir.Value]:
    results = (value for node in graph for value in node.outputs)
    return [*graph.inputs, *graph.initializers.values(), *results]


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
