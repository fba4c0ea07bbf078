# SPDX-License-Identifier: Apache-2.0
"""Users' operators in a Relax module: which variable holds the result of one, and its layer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from tvm import relax

from tilewright.host.compiler.divide.relax_calls import constant, is_constant, operator_name
from tilewright.host.compiler.lower.own_call import OperatorCall, QuantisedTensor
from tilewright.host.compiler.lower.qgraph import (
    QAdd,
    QConv,
    QMultiply,
    QOperator,
    QPool,
    QRescale,
)
from tilewright.host.compiler.read.own_operators import OwnOperator

Expr = Any
Var = Any

OWN: Final = "own"
"""Kind of a match of `match_own`."""

_KINDS: Final[Mapping[type[QOperator], str]] = {
    QAdd: "add",
    QConv: "convolution",
    QMultiply: "multiply",
    QPool: "pool",
    QRescale: "rescale",
}
"""Of units, by their operator."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnNode:
    """A node of a user's operator, which the module has as the operators of its meaning."""

    operator: OwnOperator  # the user's
    attributes: Mapping[str, Any]  # of the node
    inputs: tuple[Expr | None, ...]  # expressions; None for what the node leaves out

    def layer(
        self, tensors: tuple[QuantisedTensor, ...], output: QuantisedTensor
    ) -> tuple[str, QOperator] | None:
        """Kind of the unit and operator with placeholders; None: the CPU shall compute it."""
        left = iter(tensors)
        inputs = tuple(
            None if each is None else constant(each) if is_constant(each) else next(left)
            for each in self.inputs
        )
        call = OperatorCall(attributes=self.attributes, inputs=inputs, output=output)
        found = self.operator.layer_of(call)
        if found is None:
            return None
        kind = _KINDS.get(type(found))
        if kind is None:
            raise self.operator.wrong("lower must return what a method of its call gives, or None")
        return kind, found


def match_own(
    root: Expr, values: Any, own: Mapping[Var, OwnNode]
) -> tuple[str, dict[str, Any]] | None:
    """Kind and parts of a user's operator in front of a quantize call, or ``None``.

    Parts are ``data0``, ``data1``, ... the dequantize calls of its inputs, and ``own``.
    """
    node = own.get(root.args[0]) if isinstance(root.args[0], relax.Var) else None
    if node is None or not node.operator.lowered or not all(map(is_constant, root.args[1:3])):
        return None
    calls = []
    for expr in node.inputs:
        if expr is None or is_constant(expr):
            continue
        call = values.get(expr, expr)
        fits = operator_name(call) == "relax.dequantize" and all(map(is_constant, call.args[1:3]))
        if not fits or not isinstance(call.args[0], relax.Var):
            return None
        calls.append(call)
    return OWN, {**{f"data{i}": call for i, call in enumerate(calls)}, "own": node}
