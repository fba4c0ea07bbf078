# SPDX-License-Identifier: Apache-2.0
"""Pointwise functions of one int8 tensor: whatever operators write them, they are 256 entries.

``quantize(f(dequantize(x), dequantize(x), ...))`` with scalars and operators that work element by
element is a table. An entry is what `f` is in float64 of the real value of a step of ``x``, divided
by the output's scale, rounded once, half to even, plus the zero point, saturated to int8. Where the
model rounds in between (``x * dequantize(quantize(sigmoid(x)))``), the entry does too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tvm import relax

from tilewright.host.compiler.divide.relax_calls import (
    constant,
    dtype_of,
    is_constant,
    operator_name,
    shape_of,
)
from tilewright.host.compiler.divide.relax_own import OwnNode

Expr = Any
Float64 = npt.NDArray[np.float64]

_erf: Final = np.vectorize(math.erf, otypes=[np.float64])

_FUNCTIONS: Final[Mapping[str, Callable[..., Float64]]] = {
    "abs": np.abs,
    "add": np.add,
    "ceil": np.ceil,
    "cos": np.cos,
    "divide": np.divide,
    "erf": _erf,
    "exp": np.exp,
    "floor": np.floor,
    "log": np.log,
    "maximum": np.maximum,
    "minimum": np.minimum,
    "multiply": np.multiply,
    "negative": np.negative,
    "nn.gelu": lambda x: x * (1 + _erf(x / math.sqrt(2))) / 2,
    "nn.gelu_tanh": lambda x: x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "nn.prelu": lambda x, slope: np.where(x > 0, x, slope * x),
    "nn.relu": lambda x: np.maximum(x, 0),
    "nn.silu": lambda x: x / (1 + np.exp(-x)),
    "power": np.power,
    "sign": np.sign,
    "sin": np.sin,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "subtract": np.subtract,
    "tanh": np.tanh,
}
"""Operators of Relax that work element by element, by name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """What is computed of a tensor.

    Attributes:
        result: a float expression.
        data: the int8 variable that it is a function of.
        values: the bound value of every variable.
        own: users' operators by the variables of their results.
    """

    result: Expr
    data: Expr
    values: Any
    own: Mapping[Expr, OwnNode]

    def entries(self, output_scale: float, output_zero_point: int) -> npt.NDArray[np.int8] | None:
        """The table for an output of this scale; None where the function has no value."""
        steps = np.arange(-128, 128, dtype=np.float64)
        with np.errstate(all="ignore"):
            real = _Evaluation(self.data, steps, self.values, self.own).of(self.result)
            rounded = _rounded(real, output_scale, output_zero_point)
        if np.isnan(rounded).any():
            return None
        return rounded.astype(np.int8)


def match_table(
    root: Expr, values: Any, own: Mapping[Expr, OwnNode]
) -> tuple[str, dict[str, Any]] | None:
    """The kind and the parts of a table that ends in a quantize call, or ``None``.

    Parts are ``data``, a dequantize call of its input, and ``curve``.
    """
    if any(not is_constant(argument) for argument in root.args[1:3]):
        return None
    ends = _leaves(root.args[0], values, own, {})
    if ends is None:
        return None
    for data, call in ends.items():
        others = _leaves(root.args[0], values, own, {data: call})
        same_shape = shape_of(data) == shape_of(root) is not None
        if others is not None and set(others) == {data} and same_shape:
            curve = Curve(result=root.args[0], data=data, values=values, own=own)
            return "table", {"data": call, "curve": curve}
    return None


def _leaves(
    expr: Expr, values: Any, own: Mapping[Expr, OwnNode], known: Mapping[Expr, Expr]
) -> dict[Expr, Expr] | None:
    """Dequantize calls that a pointwise expression comes from, by variable; None: it is not one."""
    found: dict[Expr, Expr] = {}
    waiting, seen = [expr], set()
    while waiting:
        expr = waiting.pop()
        while isinstance(expr, relax.Var) and expr in values and expr not in own:
            expr = values[expr]
        if expr in seen or (is_constant(expr) and constant(expr).size == 1):
            continue
        seen.add(expr)
        name = operator_name(expr).removeprefix("relax.")
        if name in ("quantize", "dequantize") and not _is_rounding(expr):
            return None
        if name == "dequantize":
            data = expr.args[0]
            inner: Expr = values.get(data) if isinstance(data, relax.Var) else None
            if isinstance(data, relax.Var) and (data in known or not known):
                found.setdefault(data, expr)
            elif operator_name(inner) == "relax.quantize":
                waiting.append(inner.args[0])
            else:
                return None
        else:
            arguments = _arguments(expr, own)
            if arguments is None:
                return None
            waiting += arguments
    return found


def _arguments(expr: Expr, own: Mapping[Expr, OwnNode]) -> list[Expr] | None:
    """What a float expression is a pointwise function of; None: it is none that is known."""
    name = operator_name(expr).removeprefix("relax.")
    if expr in own:
        return list(own[expr].inputs) if own[expr].operator.pointwise else None
    if name in ("clip", "nn.leakyrelu") or (name == "reshape" and is_constant(expr.args[0])):
        return [expr.args[0]]
    return list(expr.args) if name in _FUNCTIONS else None


def _is_rounding(call: Expr) -> bool:
    """Whether a quantize or dequantize call is of int8 with one scale and zero point."""
    numbers = call.args[1:3]
    if any(not is_constant(number) or constant(number).size != 1 for number in numbers):
        return False
    rounded = call if operator_name(call) == "relax.quantize" else call.args[0]
    return dtype_of(rounded) == "int8"


class _Evaluation:
    """Evaluates a pointwise expression in float64, for every step of an int8 tensor."""

    def __init__(
        self, data: Expr, steps: Float64, values: Any, own: Mapping[Expr, OwnNode]
    ) -> None:
        self._data = data
        self._steps = steps
        self._values = values
        self._own = own
        self._known: dict[Expr, Float64] = {}

    def of(self, expr: Expr) -> Float64:
        """The values of an expression."""
        if is_constant(expr):
            return np.full(self._steps.shape, float(constant(expr).reshape(())))
        if expr not in self._known:
            variable = isinstance(expr, relax.Var)
            self._known[expr] = self._variable(expr) if variable else self._call(expr)
        return self._known[expr]

    def _variable(self, variable: Expr) -> Float64:
        node = self._own.get(variable)
        if node is None:
            return self.of(self._values[variable])
        return node.operator.values(self.of(node.inputs[0]), node.attributes)

    def _call(self, call: Expr) -> Float64:
        name = operator_name(call).removeprefix("relax.")
        if name == "dequantize":
            scale, zero_point = (float(constant(part).reshape(())) for part in call.args[1:3])
            data = call.args[0]
            steps = self._steps if data == self._data else self._quantised(self._values[data])
            return (steps - zero_point) * scale
        first = self.of(call.args[0])
        if name == "clip":
            low, high = (float(bound.value) for bound in call.args[1:3])
            return np.minimum(np.maximum(first, low), high)
        if name == "nn.leakyrelu":
            return np.where(first > 0, first, float(call.attrs.alpha) * first)
        if name == "reshape":
            return first
        return _FUNCTIONS[name](first, *(self.of(argument) for argument in call.args[1:]))

    def _quantised(self, call: Expr) -> Float64:
        scale, zero_point = (constant(part).reshape(()) for part in call.args[1:3])
        return _rounded(self.of(call.args[0]), float(scale), int(zero_point))


def _rounded(real: Float64, scale: float, zero_point: int) -> Float64:
    """int8 steps, half to even, saturated."""
    steps: Float64 = np.clip(np.rint(real / scale) + zero_point, -128, 127)
    return steps
