# SPDX-License-Identifier: Apache-2.0
"""Computations of any form: two tensors element by element, reductions over any axes, and moves.

What `relax_patterns` matches are forms that a layer computes as they stand. Here is the rest:
``quantize(activation(operator(moves of dequantised tensors and constants)))``. Its moves are
functions of index arrays (`index_maps`), whatever operators write them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from tvm import relax

from tilewright.host.compiler.divide.relax_calls import (
    Array,
    Refusal,
    constant,
    is_constant,
    operator_name,
    shape_of,
)

Expr = Any
Arrange = Callable[[Sequence[Array]], Array]
"""Makes a tensor of others by moving elements: of their index arrays, or of their elements."""

PAIRS: Final = ("add", "subtract", "multiply", "divide", "maximum", "minimum")
CHOICE: Final = "where"
"""Of two tensors, or a tensor and a constant, where constants say: they are the first operand."""
REDUCTIONS: Final = ("mean", "sum", "max")
MASKED_MEAN: Final = "masked mean"
"""A mean over windows without their padding, of a tensor and what the mean with padding misses."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Operand:
    """A tensor that is made of int8 tensors and constants by moving elements.

    Attributes:
        leaves: dequantize calls of the int8 tensors.
        constants: the constants, real numbers.
        arrange: makes it of both, in this order.
    """

    leaves: tuple[Expr, ...]
    constants: tuple[Array, ...]
    arrange: Arrange
    shape: tuple[int, ...]
    plain: bool = False  # it is its one leaf


@dataclass(frozen=True, kw_only=True, eq=False)
class Computation:
    """What a unit computes.

    Attributes:
        operator: one of `PAIRS` or `REDUCTIONS`, or `CHOICE`; empty for a move.
        operands: in order; a constant is its real numbers.
        axes: that a reduction runs over.
        shape: of what the operator computes.
        offset: real numbers that are added to a product, or 0.
        after: moves that of the result.
    """

    operator: str
    operands: tuple[Operand | Array, ...]
    axes: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    offset: Array | float = 0.0
    after: Arrange | None = None


def match_general(root: Expr, values: Any) -> dict[str, Any] | None:
    """The parts of a computation that ends in a quantize call, or ``None``.

    Parts are ``data0``, ``data1``, ... the dequantize calls of its inputs, ``computation``, and,
    where it has them, ``relu`` and ``clip``.
    """
    if any(not is_constant(argument) for argument in root.args[1:3]):
        return None
    expr = _value(root.args[0], values)
    parts: dict[str, Any] = {}
    name = _name(expr)
    if name in ("nn.relu", "clip"):
        parts[name.removeprefix("nn.")] = expr
        expr = _value(expr.args[0], values)
        name = _name(expr)
    after, inner = _moves_behind(expr, values)
    if after is not None:
        expr, name = inner, _name(inner)
    operands: list[Operand | Array | None]
    axes: tuple[int, ...] = ()
    shape = shape_of(expr) or ()
    offset, expr = _offset(expr, values)
    name = _name(expr)
    if name in PAIRS:
        operands = [_operand(argument, values) for argument in expr.args]
    elif name == CHOICE and is_constant(_value(expr.args[0], values)):
        condition = constant(_value(expr.args[0], values)) != 0
        operands = [condition.astype(np.float64)]
        operands += [_operand(argument, values) for argument in expr.args[1:]]
    elif name in REDUCTIONS:
        rank = len(shape_of(expr.args[0]) or ())
        stated = expr.attrs.axis
        axes = tuple(int(a) % rank for a in (stated if stated is not None else range(rank)))
        operands = [_operand(expr.args[0], values)]
    else:
        name, operands = "", [_operand(expr, values)]
    found = [each for each in operands if each is not None]
    tensors = [each for each in found if isinstance(each, Operand)]
    if len(found) < len(operands) or not tensors:
        return None
    leaves = [leaf for each in tensors for leaf in each.leaves]
    parts |= {f"data{index}": leaf for index, leaf in enumerate(leaves)}
    parts["computation"] = Computation(
        operator=name,
        operands=tuple(found),
        axes=axes,
        shape=shape,
        offset=offset,
        after=after,
    )
    return parts


def _offset(expr: Expr, values: Any) -> tuple[Array | float, Expr]:
    """The constant that is added to a product, and the product; 0 and any other expression."""
    if _name(expr) not in ("add", "subtract"):
        return 0.0, expr
    sides = [_value(argument, values) for argument in expr.args]
    for product, other in (sides, sides[::-1])[: 2 if _name(expr) == "add" else 1]:
        found = _operand(other, values) if _name(product) == "multiply" else None
        if isinstance(found, np.ndarray):
            return (found if _name(expr) == "add" else -found), product
    return 0.0, expr


def _moves_behind(expr: Expr, values: Any) -> tuple[Arrange | None, Expr]:
    """How what an operator computes is moved, and the operator; ``None``: it is not."""
    moves: list[Arrange] = []
    while (read := _moved_by(expr, values)) is not None and len(read[0]) == 1:
        moves.insert(0, read[1])
        expr = _value(read[0][0], values)

    def arrange(arrays: Sequence[Array]) -> Array:
        (array,) = arrays
        for move in moves:
            array = move([array])
        return array

    computes = _name(expr) in (*PAIRS, *REDUCTIONS, CHOICE)
    return (arrange if moves and computes else None), expr


def _value(expr: Expr, values: Any) -> Expr:
    while isinstance(expr, relax.Var) and expr in values:
        expr = values[expr]
    return expr


def _name(expr: Expr) -> str:
    return operator_name(expr).removeprefix("relax.")


def _operand(expr: Expr, values: Any) -> Operand | Array | None:
    """An expression as moves of int8 tensors, or as a constant; ``None``: it is neither."""
    expr = _value(expr, values)
    if is_constant(expr):
        found = constant(expr)
        return found.astype(np.float64) if found.dtype.kind == "f" else None
    shape = shape_of(expr)
    if _name(expr) == "dequantize":
        return _leaf(expr, shape)
    read = _moved_by(expr, values)
    if read is None or shape is None:
        return None
    arguments, move = read
    inner = [_operand(argument, values) for argument in arguments]
    known = [each for each in inner if each is not None]
    if len(known) < len(inner):
        return None
    arrays = [each for each in known if not isinstance(each, Operand)]
    if len(arrays) == len(known):
        return move(arrays)
    return _composed(known, move, shape)


def _leaf(call: Expr, shape: tuple[int, ...] | None) -> Operand | Array | None:
    if any(not is_constant(part) or constant(part).size != 1 for part in call.args[1:3]):
        return None
    scale, zero_point = (float(constant(part).reshape(())) for part in call.args[1:3])
    if is_constant(call.args[0]):
        return (constant(call.args[0]).astype(np.float64) - zero_point) * scale
    if not isinstance(call.args[0], relax.Var) or shape is None:
        return None
    return Operand(
        leaves=(call,), constants=(), arrange=lambda arrays: arrays[0], shape=shape, plain=True
    )


def _composed(parts: Sequence[Operand | Array], move: Arrange, shape: tuple[int, ...]) -> Operand:
    """A move of operands and constants as one of their leaves."""
    tensors = [each for each in parts if isinstance(each, Operand)]
    leaves = sum(len(each.leaves) for each in tensors)

    def arrange(arrays: Sequence[Array]) -> Array:
        first, last = iter(arrays[:leaves]), iter(arrays[leaves:])
        made = []
        for each in parts:
            if isinstance(each, Operand):
                own = [next(first) for _ in each.leaves] + [next(last) for _ in each.constants]
                made.append(each.arrange(own))
            else:
                made.append(next(last))
        return move(made)

    constants: list[Array] = []
    for each in parts:
        constants += each.constants if isinstance(each, Operand) else [each]
    return Operand(
        leaves=tuple(leaf for each in tensors for leaf in each.leaves),
        constants=tuple(constants),
        arrange=arrange,
        shape=shape,
    )


# -- operators that move -------------------------------------------------------------------------


def _moved_by(expr: Expr, values: Any) -> tuple[list[Any], Arrange] | None:
    """What an operator moves, and how; ``None``: it does something else."""
    if isinstance(expr, relax.TupleGetItem):
        whole = _value(expr.tuple_value, values)
        if _name(whole) != "split":
            return None
        cuts, axis, index = whole.attrs.indices_or_sections, int(whole.attrs.axis), int(expr.index)
        parts = int(cuts) if isinstance(cuts, int) else [int(cut) for cut in cuts]
        return [whole.args[0]], lambda arrays: np.split(arrays[0], parts, axis)[index]
    name = _name(expr)
    if name in _VIEWS:
        shape = shape_of(expr)
        return [expr.args[0]], lambda arrays: arrays[0].reshape(shape)
    read = _MOVES.get(name)
    if read is None:
        return None
    try:
        return read(expr, values)
    except Refusal:
        return None


def _permuted(call: Expr, _values: Any) -> tuple[list[Any], Arrange]:
    axes = permutation(call)
    return [call.args[0]], lambda arrays: arrays[0].transpose(axes)


def _sliced(call: Expr, _values: Any) -> tuple[list[Any], Arrange]:
    cut = slices(call)
    return [call.args[0]], lambda arrays: arrays[0][cut]


def _taken(call: Expr, _values: Any) -> tuple[list[Any], Arrange] | None:
    if not is_constant(call.args[1]) or call.attrs.axis is None:
        return None
    positions, axis = constant(call.args[1]).astype(np.int64), int(call.attrs.axis)
    shape = shape_of(call.args[0])
    if shape is None or not positions.size:
        return None
    if not -shape[axis] <= positions.min() <= positions.max() < shape[axis]:
        return None
    return [call.args[0]], lambda arrays: np.take(arrays[0], positions, axis)


def _broadcast(call: Expr, _values: Any) -> tuple[list[Any], Arrange]:
    shape = shape_of(call)
    assert shape is not None
    return [call.args[0]], lambda arrays: np.broadcast_to(arrays[0], shape)


def _tiled(call: Expr, _values: Any) -> tuple[list[Any], Arrange]:
    repeats = [int(count) for count in call.attrs.repeats]
    return [call.args[0]], lambda arrays: np.tile(arrays[0], repeats)


def _repeated(call: Expr, _values: Any) -> tuple[list[Any], Arrange] | None:
    if call.attrs.axis is None:
        return None
    count, axis = int(call.attrs.repeats), int(call.attrs.axis)
    return [call.args[0]], lambda arrays: np.repeat(arrays[0], count, axis)


def _flipped(call: Expr, _values: Any) -> tuple[list[Any], Arrange]:
    axis = int(call.attrs.axis)
    return [call.args[0]], lambda arrays: np.flip(arrays[0], axis)


def _joined(call: Expr, values: Any) -> tuple[list[Any], Arrange] | None:
    parts = list(getattr(_value(call.args[0], values), "fields", ()))
    axis = int(call.attrs.axis if call.attrs.axis is not None else 0)
    join = np.stack if _name(call) == "stack" else np.concatenate
    return (parts, lambda arrays: join(arrays, axis)) if parts else None


def _padded(call: Expr, _values: Any) -> tuple[list[Any], Arrange] | None:
    if str(call.attrs.pad_mode) != "constant":
        return None
    numbers = [int(width) for width in call.attrs.pad_width]
    widths = list(zip(numbers[::2], numbers[1::2], strict=True))
    value = relax.const(np.array(float(call.attrs.pad_value), np.float32))

    def arrange(arrays: Sequence[Array]) -> Array:
        data, filled = arrays
        sizes = [size + sum(width) for size, width in zip(data.shape, widths, strict=True)]
        wide = np.full(sizes, filled.reshape(()), data.dtype)
        wide[tuple(slice(w[0], w[0] + n) for w, n in zip(widths, data.shape, strict=True))] = data
        return wide

    return [call.args[0], value], arrange


_VIEWS: Final = ("expand_dims", "flatten", "reshape", "squeeze")
_MOVES: Final[Mapping[str, Callable[[Expr, Any], tuple[list[Any], Arrange] | None]]] = {
    "broadcast_to": _broadcast,
    "concat": _joined,
    "flip": _flipped,
    "nn.pad": _padded,
    "permute_dims": _permuted,
    "repeat": _repeated,
    "stack": _joined,
    "strided_slice": _sliced,
    "take": _taken,
    "tile": _tiled,
}


def permutation(call: Expr) -> tuple[int, ...]:
    """Of the model's axes, where each axis of a permutation's result was."""
    rank = len(shape_of(call) or ())
    stated = call.attrs.axes
    return tuple(int(a) % rank for a in (stated if stated is not None else range(rank)[::-1]))


def slices(call: Expr) -> tuple[slice, ...]:
    """What a slice takes of each axis; constant bounds as ONNX and Relax mean them."""
    shape = shape_of(call.args[0]) or ()
    bounds = [_numbers(call.args[index]) for index in range(1, 5)]
    chosen = [slice(None)] * len(shape)
    for axis, start, end, step in zip(*bounds, strict=True):
        size = shape[axis]
        if step < 0 and end < -size:
            chosen[axis] = slice(start, None, step)
        else:
            chosen[axis] = slice(start, end, step)
    return tuple(chosen)


def _numbers(expr: Expr) -> list[int]:
    """The integers of a tuple of constants."""
    found = []
    for field in getattr(expr, "fields", (None,)):
        value = getattr(field, "value", None)
        number = getattr(value, "value", value)
        if not isinstance(number, int):
            raise Refusal("it is no slice by constant bounds")
        found.append(number)
    return found
