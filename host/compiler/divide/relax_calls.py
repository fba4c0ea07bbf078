# SPDX-License-Identifier: Apache-2.0
"""Reading Relax expressions: names, shapes, constants."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import tvm
from tvm import relax

from tilewright.host.compiler.lower.own_call import QuantisedTensor

Expr = Any
Parts = Mapping[str, Expr]

MAX_RANK: Final = 4
"""Of a tensor that has a normal form."""


class Refusal(Exception):  # noqa: N818  (control flow, not an error)
    """Something stays on the CPU; the text says why."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Match:
    """A match of a pattern with its int8 tensors."""

    parts: Parts
    inputs: tuple[QuantisedTensor, ...]
    output: QuantisedTensor

    @property
    def call(self) -> Expr:
        """The operator itself."""
        return self.parts["operator"]


Array = npt.NDArray[Any]

BUILDING: Final = threading.RLock()
"""Held while TVM builds or compiles modules, which threads cannot do side by side: its builders
share global state."""


def operator_name(expr: Any) -> str:
    """``relax.add`` for a call of that operator; empty for anything else."""
    return str(getattr(expr.op, "name", "")) if isinstance(expr, relax.Call) else ""


def is_constant(expr: Any) -> bool:
    """Whether an expression is a constant tensor."""
    return isinstance(expr, tvm.ir.GenericConst)


def constant(expr: Any) -> Array:
    """The elements of a constant tensor."""
    return np.asarray(expr.value.numpy())


def shape_of(expr: Any) -> tuple[int, ...] | None:
    """The static shape of a tensor expression, or ``None``."""
    return shape_of_type(expr.ty)


def shape_of_type(kind: Any) -> tuple[int, ...] | None:
    """The static shape of a tensor's type, or ``None``."""
    shape = getattr(kind, "shape", None)
    if shape is None or not hasattr(shape, "values"):
        return None
    sizes = tuple(getattr(size, "value", None) for size in shape.values)
    return None if None in sizes else tuple(int(size) for size in sizes if size is not None)


def dtype_of(expr: Any) -> str:
    """The element type of a tensor expression; empty for anything else."""
    return str(getattr(expr.ty, "dtype", "") or "")


def variables_of(expr: Any) -> list[Any]:
    """The variables that an expression reads, in order, each once."""
    if isinstance(expr, relax.Var):
        return [expr]
    if isinstance(expr, relax.Call):
        parts = list(expr.args)
    elif isinstance(expr, relax.Tuple):
        parts = list(expr.fields)
    elif isinstance(expr, relax.TupleGetItem):
        parts = [expr.tuple_value]
    else:
        parts = []
    found: dict[Any, None] = {}
    for part in parts:
        found |= dict.fromkeys(variables_of(part))
    return list(found)
