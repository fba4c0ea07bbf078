# SPDX-License-Identifier: Apache-2.0
"""Which results are scalar functions of one rounded value: a table computes them from it."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import is_kind, scalar_of
from tilewright.host.compiler.read.own_operators import OwnOperators

_KINDS: Final = (
    "Abs", "Add", "Ceil", "Clip", "Cos", "Div", "Elu", "Erf", "Exp", "Floor", "Gelu",
    "HardSigmoid", "HardSwish", "LeakyRelu", "Log", "Mish", "Mul", "Neg", "PRelu", "Pow", "Relu",
    "Selu", "Sigmoid", "Sign", "Sin", "Softplus", "Softsign", "Sqrt", "Sub", "Tanh",
)  # fmt: skip
"""Operators that work element by element; of several inputs all but one may be numbers."""


class PointwiseResults:
    """Follows a graph in order; values that come from one rounded value by numbers alone.

    Args:
        own: operators of the graph besides those of ONNX.
    """

    def __init__(self, own: OwnOperators) -> None:
        self._sources: dict[ir.Value, ir.Value] = {}
        self._own = own

    def continues(self, node: ir.Node) -> bool:
        """Whether a node works on a result that a table computes."""
        return any(value in self._sources for value in node.inputs if value is not None)

    def takes(self, node: ir.Node, rounded: Collection[ir.Value]) -> bool:
        """Whether a table computes a node's result, from one of the rounded values."""
        own = self._own.find(node.domain, node.op_type)
        if not is_kind(node, *_KINDS) and (own is None or not own.pointwise):
            return False
        found = set()
        for value in node.inputs:
            if value is None or scalar_of(value) is not None:
                continue
            source = self._sources.get(value, value)
            if source not in rounded:
                return False
            found.add(source)
        if len(found) != 1 or len(node.outputs) != 1:
            return False
        self._sources[node.outputs[0]] = found.pop()
        return True
