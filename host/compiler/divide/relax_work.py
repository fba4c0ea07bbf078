# SPDX-License-Identifier: Apache-2.0
"""What the operators of a Relax module compute and move, counted from its shapes."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod
from typing import Any, Final

from tvm import relax

from tilewright.host.compiler.divide.placement import Work
from tilewright.host.compiler.divide.relax_calls import (
    operator_name,
    shape_of,
    shape_of_type,
    variables_of,
)
from tilewright.host.compiler.divide.relax_import import RelaxModel, operator_index

Expr = Any

_VIEWS: Final = frozenset({"relax.reshape", "relax.squeeze", "relax.expand_dims", "relax.flatten"})
"""Operators that give the same bytes another shape."""

_CONVOLUTION: Final = "relax.nn.conv"


def operator_work(model: RelaxModel) -> tuple[Work, ...]:
    """The work of each of the model's operators.

    An operator of the model that TVM imports as several (LayerNormalization, Gemm) has the work of
    all of them. What depends on constants alone is computed when the network is compiled.
    """
    found = [Work() for _ in model.operators]
    waiting = Work()
    constants: set[Expr] = set()
    for block in model.module["main"].body.blocks:
        for binding in block.bindings:
            if all(var in constants for var in variables_of(binding.value)):
                constants.add(binding.var)
                continue
            waiting += _work(binding.value, constants)
            index = operator_index(binding.var.name)
            if index is not None:
                found[index] += waiting
                waiting = Work()
    return tuple(found)


def bytes_of(expr: Expr) -> int:
    """The size of a tensor; 0 for anything else."""
    return _bytes_of_type(expr.ty)


def _work(value: Expr, constants: Collection[Expr]) -> Work:
    name = operator_name(value)
    if not name or name in _VIEWS:
        return Work()
    read = [var for var in variables_of(value) if var not in constants]
    return Work(
        macs=_macs(name, value),
        bytes=sum(map(bytes_of, read)) + sum(map(_bytes_of_type, _results(value.ty))),
    )


def _results(kind: Any) -> Sequence[Any]:
    return list(kind.fields) if isinstance(kind, relax.TupleType) else [kind]


def _bytes_of_type(kind: Any) -> int:
    shape, dtype = shape_of_type(kind), str(getattr(kind, "dtype", "") or "")
    if shape is None or not dtype:
        return 0
    bits = "".join(c for c in dtype if c.isdecimal())
    return prod(shape) * (max(int(bits), 8) // 8 if bits else 1)


def _macs(name: str, value: Expr) -> int:
    if name.startswith(_CONVOLUTION):
        weights, output = shape_of(value.args[1]), shape_of(value)
        if "transpose" in name:
            output = shape_of(value.args[0])
        if weights is None or output is None:
            return 0
        pixels = prod(output) // output[1]
        return pixels * prod(weights)
    if name == "relax.matmul":
        a, output = shape_of(value.args[0]), shape_of(value)
        return prod(output) * a[-1] if a and output is not None else 0
    return 0
