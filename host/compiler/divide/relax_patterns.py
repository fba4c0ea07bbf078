# SPDX-License-Identifier: Apache-2.0
"""Which subgraphs of a canonical QDQ module the accelerator takes, as TVM dataflow patterns.

Each pattern is one unit, ``quantize(activation(operator(dequantize(...), ...)))``. What the numbers
of a match mean, and whether they fit, is the business of `relax_units`.

Pointwise functions of one int8 tensor: whatever operators write them, they are 256 entries.

``quantize(f(dequantize(x), dequantize(x), ...))`` with scalars and operators that work element by
element is a table. An entry is what `f` is in float64 of the real value of a step of ``x``, divided
by the output's scale, rounded once, half to even, plus the zero point, saturated to int8. Where the
model rounds in between (``x * dequantize(quantize(sigmoid(x)))``), the entry does too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from tvm import relax
from tvm.relax.dpl import is_const, is_op, is_tuple, wildcard

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
    "acos": np.arccos,
    "acosh": np.arccosh,
    "add": np.add,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "cos": np.cos,
    "cosh": np.cosh,
    "divide": np.divide,
    "equal": np.equal,
    "erf": _erf,
    "exp": np.exp,
    "floor": np.floor,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "log": np.log,
    "logical_and": np.logical_and,
    "logical_not": np.logical_not,
    "logical_or": np.logical_or,
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
    "round": np.rint,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sign": np.sign,
    "sin": np.sin,
    "sinh": np.sinh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sqrt": np.sqrt,
    "square": np.square,
    "subtract": np.subtract,
    "tan": np.tan,
    "tanh": np.tanh,
    "where": lambda condition, x, y: np.asarray(np.where(condition != 0, x, y)),
}
"""Operators of Relax that work element by element, by name."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Curve:
    """What is computed of a tensor."""

    result: Expr  # a float expression
    data: Expr  # the int8 variable that it is a function of
    values: Any  # the bound value of every variable
    own: Mapping[Expr, OwnNode]  # users' operators by the variables of their results

    def entries(self, output_scale: float, output_zero_point: int) -> npt.NDArray[np.int8] | None:
        """The table for an output of this scale; None: the function has no value at all.

        A step that it has no value for, such as a root's below 0, gets that of the nearest one.
        """
        steps = np.arange(-128, 128, dtype=np.float64)
        with np.errstate(all="ignore"):
            real = _Evaluation(self.data, steps, self.values, self.own).of(self.result)
            rounded = _rounded(real, output_scale, output_zero_point)
        known = np.flatnonzero(~np.isnan(rounded))
        if not known.size:
            return None
        nearest = np.abs(np.arange(len(rounded))[:, None] - known).argmin(axis=1)
        return np.asarray(rounded[known[nearest]].astype(np.int8))


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
    if name == "astype":
        return [expr.args[0]] if dtype_of(expr) in ("float32", "bool") else None
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
        if name == "astype":
            return (first != 0).astype(np.float64) if dtype_of(call) == "bool" else first * 1.0
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


Pattern = Any

MAX_CONCAT_INPUTS: Final = 64
_MATRIX_AXES: Final = 2


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitPattern:
    """A pattern and the names of its parts.

    Attributes:
        parts: by name, what a match tells: ``operator``; ``data`` (``data0``, ``data1``, ...) the
            dequantize calls of activations; ``weights`` the dequantize call of a constant,
            transposed by ``turned``; and, where the match has them, ``bias``, ``factor``,
            ``divisor``, ``addend``, ``gamma``, ``beta``, ``slopes``, ``relu``, ``clip``. A softmax
            adds ``data1`` to ``data0``, if it has both.
    """

    kind: str  # of the unit
    root: Pattern  # matches the quantize call
    parts: Mapping[str, Pattern]

    def match(self, expr: Expr, values: Any) -> dict[str, Expr] | None:
        """The parts of a match by name, or ``None``."""
        found = self.root.extract_matched_expr(expr, values)
        if found is None:
            return None
        return {name: found[part] for name, part in self.parts.items() if part in found}


def match_unit(
    root: Expr, values: Any, *, rows: bool = False
) -> tuple[str, dict[str, Expr]] | None:
    """The kind and the parts of the unit that ends in a quantize call, or ``None``."""
    for pattern in (*_patterns(), *(_row_patterns() if rows else ())):
        parts = pattern.match(root, values)
        if parts is not None and not (pattern.kind == "dense" and _has_matrices(parts)):
            return pattern.kind, parts
    count = _concat_inputs(root, values)
    if 0 < count <= MAX_CONCAT_INPUTS:
        parts = _concat(count).match(root, values)
        if parts is not None:
            return "concat", parts
    return None


def _has_matrices(parts: Mapping[str, Expr]) -> bool:
    """Whether a dense layer's weights are several matrices: it is a product, then."""
    return constant(parts["weights"].args[0]).ndim > _MATRIX_AXES


def _quantised(x: Pattern) -> Pattern:
    return is_op("relax.quantize")(x, is_const(), is_const())


def _data() -> Pattern:
    return is_op("relax.dequantize")(wildcard(), is_const(), is_const())


def _weights() -> Pattern:
    return is_op("relax.dequantize")(is_const(), is_const(), is_const())


def _unit(kind: str, operator: Pattern, result: Pattern, **parts: Pattern) -> UnitPattern:
    """A unit: the result of an operator, with or without an activation, quantised."""
    relu = is_op("relax.nn.relu")(result)
    clip = is_op("relax.clip")(result, wildcard(), wildcard())
    named = {"operator": operator, "relu": relu, "clip": clip, **parts}
    return UnitPattern(kind=kind, root=_quantised(relu | clip | result), parts=named)


def _biased(
    kind: str, operator: Pattern, data: Pattern, weights: Pattern, **parts: Pattern
) -> UnitPattern:
    bias = is_const()
    shaped = is_op("relax.reshape")(bias, wildcard())
    add = is_op("relax.add")
    result = add(operator, shaped) | add(operator, bias) | add(bias, operator) | operator
    return _unit(kind, operator, result, data=data, weights=weights, bias=bias, **parts)


def _product() -> UnitPattern:
    a, b = _data(), _data()
    operator = is_op("relax.matmul")(a, b)
    factor, divisor = is_const(), is_const()
    multiply = is_op("relax.multiply")
    result = (
        multiply(operator, factor)
        | multiply(factor, operator)
        | is_op("relax.divide")(operator, divisor)
        | operator
    )
    parts = {"data0": a, "data1": b, "factor": factor, "divisor": divisor}
    return _unit("product", operator, result, **parts)


def _plain(kind: str, name: str, *more: Pattern) -> UnitPattern:
    data = _data()
    operator = is_op(f"relax.{name}")(data, *more)
    return _unit(kind, operator, operator, data=data)


@cache
def _patterns() -> tuple[UnitPattern, ...]:
    """All patterns but concatenation; a product of two activations is not a dense layer."""
    found = []
    for name in ("nn.conv2d", "nn.conv2d_transpose"):
        data, weights = _data(), _weights()
        found.append(_biased("convolution", is_op(f"relax.{name}")(data, weights), data, weights))
    data, weights = _data(), _weights()
    turned = is_op("relax.permute_dims")(weights)
    operator = is_op("relax.matmul")(data, turned | weights)
    found.append(_biased("dense", operator, data, weights, turned=turned))
    found.append(_product())
    found += [_plain("pool", name) for name in ("nn.max_pool2d", "nn.avg_pool2d", "mean", "max")]
    for kind, name in (("add", "relax.add"), ("multiply", "relax.multiply")):
        a, b = _data(), _data()
        operator = is_op(name)(a, b)
        found.append(_unit(kind, operator, operator, data0=a, data1=b))
    found += [_plain("move", name) for name in ("permute_dims", "squeeze", "expand_dims")]
    found.append(_plain("move", "reshape", wildcard()))
    found.append(_plain("select", "strided_slice", *(wildcard() for _ in range(4))))
    found.append(_plain("gather", "take", is_const()))
    found.append(_plain("enlarge", "image.resize2d", wildcard()))
    data, slopes = _data(), is_const()
    shaped = is_op("relax.reshape")(slopes, wildcard())
    operator = is_op("relax.nn.prelu")(data, shaped | slopes)
    found.append(_unit("prelu", operator, operator, data=data, slopes=slopes))
    data = _data()
    found.append(_unit("rescale", data, data, data=data))
    return tuple(found)


@cache
def _row_patterns() -> tuple[UnitPattern, ...]:
    data, gamma, beta = _data(), is_const(), is_const()
    operator = is_op("relax.nn.layer_norm")(data, gamma, beta)
    norm = _unit("layer norm", operator, operator, data=data, gamma=gamma, beta=beta)
    data, addend = _data(), is_const()
    add = is_op("relax.add")
    operator = is_op("relax.nn.softmax")(add(data, addend) | add(addend, data) | data)
    softmax = _unit("softmax", operator, operator, data=data, addend=addend)
    data, mask, addend = _data(), _data(), is_const()
    scores = add(data, addend) | add(addend, data) | data
    operator = is_op("relax.nn.softmax")(add(scores, mask))
    masked = _unit("softmax", operator, operator, data0=data, data1=mask, addend=addend)
    return softmax, masked, norm


@cache
def _concat(count: int) -> UnitPattern:
    data = [_data() for _ in range(count)]
    operator = is_op("relax.concat")(is_tuple(data))
    return _unit("concat", operator, operator, **{f"data{i}": d for i, d in enumerate(data)})


def _concat_inputs(root: Expr, values: Any) -> int:
    """How many tensors the concatenation behind a quantize call joins; 0: there is none."""
    expr = root.args[0]
    for _ in range(2):  # the concatenation, or an activation of it
        expr = values.get(expr, expr)
        name = operator_name(expr)
        if name == "relax.concat":
            return len(values.get(expr.args[0], expr.args[0]).fields)
        if name not in ("relax.nn.relu", "relax.clip"):
            return 0
        expr = expr.args[0]
    return 0
