# SPDX-License-Identifier: Apache-2.0
"""Which subgraphs of a canonical QDQ module the accelerator takes, as TVM dataflow patterns.

Each pattern is one unit, ``quantize(activation(operator(dequantize(...), ...)))``. What the numbers
of a match mean, and whether they fit, is the business of `relax_units`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from tvm.relax.dpl import is_const, is_op, is_tuple, wildcard

from tilewright.host.compiler.divide.relax_calls import operator_name

Pattern = Any
Expr = Any

MAX_CONCAT_INPUTS: Final = 64


@dataclass(frozen=True, kw_only=True, eq=False)
class UnitPattern:
    """A pattern and the names of its parts.

    Attributes:
        kind: of the unit.
        root: matches the quantize call.
        parts: by name, what a match tells: ``operator``; ``data`` (``data0``, ``data1``, ...) the
            dequantize calls of activations; ``weights`` the dequantize call of a constant,
            transposed by ``turned``; and, where the match has them, ``bias``, ``factor``,
            ``divisor``, ``addend``, ``gamma``, ``beta``, ``slopes``, ``relu``, ``clip``. A softmax
            adds ``data1`` to ``data0``, if it has both.
    """

    kind: str
    root: Pattern
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
        if parts is not None:
            return pattern.kind, parts
    count = _concat_inputs(root, values)
    if 0 < count <= MAX_CONCAT_INPUTS:
        parts = _concat(count).match(root, values)
        if parts is not None:
            return "concat", parts
    return None


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
