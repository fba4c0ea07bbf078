# SPDX-License-Identifier: Apache-2.0
"""Operators of tensors that are no images as operators of images: the walk over a graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping

import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import Editor, is_kind, shape_of

Rules = Mapping[tuple[str, ...], Callable[[ir.Node], bool]]
"""By kinds of operators: a rewrite in front of the node, and whether there was one."""


class AsImages(ABC):
    """Rewrites the operators of a graph with known shapes, in place.

    Args:
        editor: of the graph.
        rules: of the operators that are rewritten.
    """

    def __init__(self, editor: Editor, rules: Rules) -> None:
        self._editor = editor
        self._rules = rules

    def rewrite(self) -> None:
        """Rewrite a chain of operators whole: only what else reads it has changes of shape."""
        rewritten = [node for node in list(self._editor.graph) if self._visit(node)]
        for node in reversed(rewritten):
            result = node.outputs[0]
            if result.uses() or result.is_graph_output():
                self._restore(node, result)
            self._editor.graph.remove(node, safe=True)

    def _visit(self, node: ir.Node) -> bool:
        if len(node.outputs) != 1 or shape_of(node.outputs[0]) is None:
            return False
        return any(is_kind(node, *kinds) and rule(node) for kinds, rule in self._rules.items())

    @abstractmethod
    def _restore(self, node: ir.Node, result: ir.Value) -> None:
        """Let a value of the result's own shape take its place, in front of the node."""
