# SPDX-License-Identifier: Apache-2.0
"""The operators of a CPU part that NumPy runs, by their names in Relax.

They are those that surround the regions of a network that the accelerator runs whole: quantise and
dequantise, moves of data, arithmetic of elements, reductions, and what decodes a detector's head.
Arguments and attributes come from a file, so sizes are checked before memory is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MAX_ELEMENTS: Final = 1 << 25
"""Of one result: a board has half a gigabyte."""


def dtype_of(name: str) -> np.dtype[Any]:
    """The type of numbers that has a name."""
    found = np.dtype(name)
    if found.kind not in "biuf":
        raise ValueError(f"numbers of type {str(name)[:20]}")
    return found


def check_size(*shapes: Sequence[int]) -> None:
    """Refuse results that would not fit memory, before they are computed."""
    if any(size < 0 for shape in shapes for size in shape):
        raise ValueError("a size below 0")
    if sum(map(prod, shapes)) > MAX_ELEMENTS:
        raise ValueError(f"a tensor of more than {MAX_ELEMENTS} elements")


def _scaled(parameter: Array, data: Array, axis: int) -> Array:
    """A scale or zero point of each channel, shaped so that it meets its axis of the data."""
    if parameter.ndim == 0:
        return parameter
    if parameter.size not in (1, data.shape[axis]):
        raise ValueError(f"{parameter.size} scales for {data.shape[axis]} channels")
    shape = [1] * data.ndim
    shape[axis] = parameter.size
    return parameter.reshape(shape)


def _quantize(data: Array, scale: Array, zero_point: Array, **attributes: Any) -> Array:
    dtype, axis = dtype_of(attributes["out_dtype"]), attributes["axis"]
    limits = np.iinfo(dtype)
    with np.errstate(over="ignore"):  # masks are far below: infinity is clipped, too
        steps = np.rint(data / _scaled(scale, data, axis))
    steps = steps + _scaled(zero_point, data, axis).astype(steps.dtype)
    return np.asarray(np.clip(steps, limits.min, limits.max).astype(dtype))


def _dequantize(data: Array, scale: Array, zero_point: Array, **attributes: Any) -> Array:
    dtype, axis = dtype_of(attributes["out_dtype"]), attributes["axis"]
    steps = data.astype(np.int32) - _scaled(zero_point, data, axis).astype(np.int32)
    return np.asarray(steps.astype(dtype) * _scaled(scale, data, axis).astype(dtype))


def _softmax(data: Array, *, axis: int) -> Array:
    powers = np.exp(data - data.max(axis=axis, keepdims=True))
    return np.asarray(powers / powers.sum(axis=axis, keepdims=True))


def _log_softmax(data: Array, *, axis: int) -> Array:
    less = data - data.max(axis=axis, keepdims=True)
    return np.asarray(less - np.log(np.exp(less).sum(axis=axis, keepdims=True)))


def _sigmoid(data: Array) -> Array:
    half = data.dtype.type(0.5)
    return np.asarray(half + half * np.tanh(half * data))


def _axes(axes: Sequence[int] | int | None) -> Any:
    return tuple(axes) if isinstance(axes, list | tuple) else axes


def _reduced(
    reduce: Callable[..., Any], data: Array, *, axis: Sequence[int] | int | None, keepdims: bool
) -> Array:
    return np.asarray(reduce(data, axis=_axes(axis), keepdims=bool(keepdims)), data.dtype)


def _mean(data: Array, *, axis: Sequence[int] | int | None, keepdims: bool) -> Array:
    return _reduced(np.mean, data, axis=axis, keepdims=keepdims)


def _place(find: Callable[..., Any], data: Array, *, axis: int | None, keepdims: bool) -> Array:
    found = np.asarray(find(data, axis=axis))
    if keepdims:
        found = found.reshape([1] * data.ndim) if axis is None else np.expand_dims(found, axis)
    return found.astype(np.int64)


def _strided_slice(
    data: Array, axes: Sequence[int], begin: Sequence[int], end: Sequence[int],
    strides: Sequence[int] = (), **_: Any,
) -> Array:  # fmt: skip
    parts = [slice(None)] * data.ndim
    steps = [int(each) for each in strides] or [1] * len(axes)
    for axis, first, last, step in zip(axes, begin, end, steps, strict=True):
        stop: int | None = int(last)
        if step < 0 and int(last) < -data.shape[int(axis)]:
            stop = None  # down to the first element
        parts[int(axis)] = slice(int(first), stop, step)
    return data[tuple(parts)]


def _take(data: Array, indices: Array, *, axis: int | None, mode: str) -> Array:
    length = data.size if axis is None else data.shape[axis]
    check_size((data.size // max(length, 1), *np.shape(indices)))
    if mode == "wrap":
        return np.asarray(np.take(data, indices, axis=axis, mode="wrap"))
    return np.asarray(np.take(data, indices, axis=axis, mode="clip"))


def _gather_elements(data: Array, indices: Array, *, axis: int) -> Array:
    if data.ndim != indices.ndim:
        raise ValueError("positions of another rank than the data")
    return np.asarray(np.take_along_axis(data, indices.astype(np.int64), axis))


def _split(data: Array, *, indices_or_sections: Any, axis: int) -> list[Array]:
    places = indices_or_sections
    if isinstance(places, int):
        if not 1 <= places <= data.shape[axis]:
            raise ValueError(f"{places} parts of {data.shape[axis]}")
        size = -(-data.shape[axis] // places)
        places = [size * number for number in range(1, places)]
    return np.split(data, list(places), axis=axis)


def _broadcast_to(data: Array, shape: Sequence[int]) -> Array:
    check_size(shape)
    return np.broadcast_to(data, shape)


def _tile(data: Array, *, repeats: Sequence[int]) -> Array:
    check_size((data.size, *repeats))
    return np.tile(data, tuple(repeats))


def _repeat(data: Array, *, repeats: int, axis: int | None) -> Array:
    check_size((data.size, repeats))
    return np.repeat(data, repeats, axis=axis)


def _stack(parts: Sequence[Array], *, axis: int | None) -> Array:
    check_size(*(part.shape for part in parts))
    return np.stack(parts, axis=axis or 0)


def _concat(parts: Sequence[Array], *, axis: int | None) -> Array:
    check_size(*(part.shape for part in parts))
    return np.concatenate(parts, axis=axis or 0)


def _pad(data: Array, *, pad_width: Sequence[int], pad_mode: str, pad_value: float) -> Array:
    widths = np.reshape(pad_width, (data.ndim, 2))
    check_size(tuple(np.array(data.shape) + widths.sum(1)))
    pairs = [(int(low), int(high)) for low, high in widths]
    if pad_mode == "constant":
        return np.pad(data, pairs, constant_values=pad_value)
    if pad_mode not in {"edge", "reflect"}:
        raise ValueError(f"padding {str(pad_mode)[:20]}")
    return np.pad(data, pairs, mode="edge" if pad_mode == "edge" else "reflect")


def _matmul(left: Array, right: Array, **_: Any) -> Array:
    stacks = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    check_size((*stacks, *left.shape[-2:][:1], *right.shape[-1:]))
    return np.asarray(np.matmul(left, right))


def _topk(
    data: Array, *, k: int, axis: int, ret_type: str, largest: bool, dtype: str
) -> list[Array] | Array:
    order = np.argsort(-data if largest else data, axis=axis, kind="stable")
    places = order.take(range(min(k, data.shape[axis]) if k > 0 else data.shape[axis]), axis=axis)
    values, numbers = np.take_along_axis(data, places, axis), places.astype(dtype_of(dtype))
    both = {"values": values, "indices": numbers}
    return both.get(ret_type, [values, numbers])


def _layer_norm(
    data: Array, gamma: Array, beta: Array, *, axes: Sequence[int], epsilon: float, center: bool,
    scale: bool,
) -> Array:  # fmt: skip
    over = _axes(axes)
    if np.broadcast_shapes(data.shape, gamma.shape, beta.shape) != data.shape:
        raise ValueError("factors of another shape than the data")
    less = data - data.mean(axis=over, keepdims=True)
    normal = less / np.sqrt((less * less).mean(axis=over, keepdims=True) + epsilon)
    normal = normal * gamma if scale else normal
    return np.asarray(normal + beta if center else normal, data.dtype)


def _divide(left: Array, right: Array) -> Array:
    """As TVM: integers towards 0."""
    if np.result_type(left, right).kind not in "iu":
        return np.divide(left, right)
    signs = np.sign(left) * np.sign(right)
    return np.asarray(signs * (np.abs(left) // np.abs(right)), np.result_type(left, right))


_MOST_ERF: Final = 1 << 20


def _erf(data: Array) -> Array:
    if data.size > _MOST_ERF:
        raise ValueError(f"erf of more than {_MOST_ERF} elements")
    return np.asarray(np.frompyfunc(math.erf, 1, 1)(data), data.dtype)


PLAIN: Final[Mapping[str, Callable[..., Array]]] = {
    "abs": np.abs,
    "add": np.add,
    "ceil": np.ceil,
    "clip": np.clip,
    "cos": np.cos,
    "divide": _divide,
    "equal": np.equal,
    "erf": _erf,
    "exp": np.exp,
    "flatten": np.ravel,
    "floor": np.floor,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
    "isnan": np.isnan,
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
    "nn.batch_flatten": lambda data: data.reshape(data.shape[0], -1),
    "nn.relu": lambda data: np.maximum(data, np.zeros((), data.dtype)),
    "nn.silu": lambda data: data * _sigmoid(data),
    "not_equal": np.not_equal,
    "power": np.power,
    "reshape": np.reshape,
    "round": np.rint,
    "rsqrt": lambda data: 1 / np.sqrt(data),
    "sigmoid": _sigmoid,
    "sign": np.sign,
    "sin": np.sin,
    "sqrt": np.sqrt,
    "square": np.square,
    "subtract": np.subtract,
    "tanh": np.tanh,
    "where": np.where,
}
"""Of arguments alone, whose result has the shape that they are broadcast to."""

WITH_ATTRIBUTES: Final[Mapping[str, Callable[..., Any]]] = {
    "argmax": lambda data, **how: _place(np.argmax, data, **how),
    "argmin": lambda data, **how: _place(np.argmin, data, **how),
    "astype": lambda data, *, dtype: data.astype(dtype_of(dtype)),
    "broadcast_to": _broadcast_to,
    "concat": _concat,
    "dequantize": _dequantize,
    "expand_dims": lambda data, *, axis: np.expand_dims(data, _axes(axis)),
    "flip": lambda data, *, axis: np.flip(data, axis),
    "gather_elements": _gather_elements,
    "matmul": _matmul,
    "max": lambda data, **how: _reduced(np.max, data, **how),
    "mean": _mean,
    "min": lambda data, **how: _reduced(np.min, data, **how),
    "nn.layer_norm": _layer_norm,
    "nn.leakyrelu": lambda data, *, alpha: np.where(data > 0, data, data.dtype.type(alpha) * data),
    "nn.log_softmax": _log_softmax,
    "nn.pad": _pad,
    "nn.softmax": _softmax,
    "permute_dims": lambda data, *, axes: np.transpose(data, _axes(axes)),
    "prod": lambda data, **how: _reduced(np.prod, data, **how),
    "quantize": _quantize,
    "repeat": _repeat,
    "split": _split,
    "squeeze": lambda data, *, axis: np.squeeze(data, _axes(axis)),
    "stack": _stack,
    "strided_slice": _strided_slice,
    "sum": lambda data, **how: _reduced(np.sum, data, **how),
    "take": _take,
    "tile": _tile,
    "topk": _topk,
}
"""Of arguments and attributes, which check their sizes themselves where these can grow."""

OPERATORS: Final = frozenset({*PLAIN, *WITH_ATTRIBUTES})
"""By their names in Relax, without the prefix."""
