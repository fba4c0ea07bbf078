# SPDX-License-Identifier: Apache-2.0
"""A match of `relax_patterns` as a unit: an operator of `qgraph` with its numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from tilewright.host.compiler.divide.relax_calls import (
    MAX_RANK,
    Array,
    Match,
    Parts,
    Refusal,
    constant,
    dtype_of,
    operator_name,
    shape_of,
)
from tilewright.host.compiler.divide.relax_general import (
    MASKED_MEAN,
    Computation,
    Operand,
    permutation,
    slices,
)
from tilewright.host.compiler.divide.relax_import import UNLIMITED
from tilewright.host.compiler.divide.relax_own import OWN
from tilewright.host.compiler.divide.tensor_layouts import natural
from tilewright.host.compiler.lower.own_call import QuantisedTensor, placeholders
from tilewright.host.compiler.lower.qgraph import (
    UNBOUNDED,
    Bounds,
    Lookup,
    QAdd,
    QConcat,
    QConv,
    QEnlarge,
    QGather,
    QLayerNorm,
    QMatmul,
    QMultiply,
    QOperator,
    QPool,
    QPrelu,
    QRescale,
    QReshape,
    QSelect,
    QSoftmax,
)


def enlarge(match: Match) -> QOperator:
    """Bilinear resizing by whole factors."""
    attrs = match.call.attrs
    modes = (str(attrs.method), str(attrs.coordinate_transformation_mode))
    if modes not in (("linear", "half_pixel"), ("linear", "pytorch_half_pixel")):
        raise Refusal(f"it is resized by {modes[0]}, {modes[1]}, not linearly by half_pixel")
    before, after = match.inputs[0].shape, match.output.shape
    if str(attrs.layout) != "NCHW" or len(before) != MAX_RANK:
        raise Refusal("it resizes something else than an image with channels first")
    rows, columns = (b // a for a, b in zip(before[2:], after[2:], strict=True))
    if (before[2] * rows, before[3] * columns) != after[2:]:
        raise Refusal(f"{before[2:]} to {after[2:]} is no enlargement by whole factors")
    return QEnlarge(**placeholders(1), factors=(rows, columns))


def prelu(match: Match) -> QOperator:
    """A ReLU with slopes for negative values."""
    slopes = constant(match.parts["slopes"]).astype(np.float64).reshape(-1)
    shape = match.output.shape
    if slopes.size > 1 and (int(match.call.attrs.axis) % len(shape) != 1 or len(shape) == 3):
        raise Refusal("its slopes are not one for each channel of an image")
    if not np.isfinite(slopes).all():
        raise Refusal("its slopes are not finite")
    layout = natural(shape)
    channels = layout.shape[1] if layout is not None else 0
    return QPrelu(**placeholders(1), slopes=np.array(np.broadcast_to(slopes, channels)))


Expr = Any

GENERAL: Final = "general"
"""Kind of a match of `relax_general`."""

RANKS: Final = (2, 3, MAX_RANK)
"""Of tensors that have a normal form."""
_ANY_RANK: Final = ("move", GENERAL, "table", "rescale")
"""Kinds to which it is all the same how their data lie."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OffloadUnit:
    """What the accelerator does in one step, between int8 tensors of the model.

    Attributes:
        inputs, output: the tensors.
        axes: of a permutation, concatenation, slice or gather, in the model's shape.
    """

    kind: str  # of the pattern
    operator: QOperator  # with the placeholders ``in0``, ``in1``, ... and ``out`` for tensors
    data: tuple[Expr, ...]  # the Relax expressions of the int8 inputs, in the operator's order
    inputs: tuple[QuantisedTensor, ...]
    output: QuantisedTensor
    axes: tuple[int, ...] = ()
    general: Computation | None = None  # the same, for tensors that lie in any way

    @property
    def moves_only(self) -> bool:
        """Whether the unit only names the same elements in another way."""
        return self.kind == "move"

    @property
    def elementwise(self) -> bool:
        """Whether each element of the output comes from the elements in its place alone."""
        if self.kind == "multiply":
            return self.inputs[0].shape == self.inputs[1].shape
        return self.kind in ("add", "rescale", "table")


def read_unit(kind: str, root: Expr, parts: Parts) -> OffloadUnit:
    """The unit of a match."""
    calls = [parts[name] for name in _data_names(parts)]
    inputs = tuple(_quantised(call, call.args[0]) for call in calls)
    output = _quantised(root, root)
    if any(0 in tensor.shape for tensor in (*inputs, output)):
        raise Refusal("it has an empty tensor")
    wrong = [t.shape for t in (*inputs, output) if len(t.shape) not in RANKS]
    if kind not in _ANY_RANK and wrong:
        raise Refusal(f"a tensor of it has {len(wrong[0])} axes {wrong[0]}, not two, three or four")
    match = Match(parts=parts, inputs=inputs, output=output)
    if kind == OWN:
        return _own_unit(match, tuple(call.args[0] for call in calls))
    operator = _READERS[kind](match)
    bounds = _bounds(parts)
    if kind in ("move", "gather") and (
        bounds != UNBOUNDED
        or (inputs[0].scale, inputs[0].zero_point) != (output.scale, output.zero_point)
    ):
        raise Refusal("it moves data and changes the scale at the same time")
    return OffloadUnit(
        kind=kind,
        operator=replace(operator, bounds=bounds),
        data=tuple(call.args[0] for call in calls),
        inputs=inputs,
        output=output,
        axes=_axes(kind, match),
        general=_masked_mean(match, calls[0]) if kind == "pool" else parts.get("computation"),
    )


def _own_unit(match: Match, data: tuple[Expr, ...]) -> OffloadUnit:
    found = match.parts["own"].layer(match.inputs, match.output)
    if found is None:
        raise Refusal("its plug-in leaves it to the CPU")
    kind, operator = found
    return OffloadUnit(
        kind=kind, operator=operator, data=data, inputs=match.inputs, output=match.output
    )


def _data_names(parts: Parts) -> list[str]:
    if "data" in parts:
        return ["data"]
    return [f"data{i}" for i in range(len(parts)) if f"data{i}" in parts]


def _quantised(call: Expr, tensor: Expr) -> QuantisedTensor:
    """The tensor on the int8 side of a quantize or dequantize call."""
    shape = shape_of(tensor)
    if shape is None:
        raise Refusal("its shape is not known before it runs")
    if dtype_of(tensor) != "int8":
        raise Refusal(f"its data are {dtype_of(tensor)}, not int8")
    scale, zero_point = constant(call.args[1]), constant(call.args[2])
    if scale.size != 1 or zero_point.size != 1:
        raise Refusal("its data have a scale for each channel")
    value = float(scale.reshape(()))
    if scale.dtype != np.float32 or not (np.isfinite(value) and value > 0):
        raise Refusal("its scale is not a positive float32 number")
    return QuantisedTensor(shape=shape, scale=value, zero_point=int(zero_point.reshape(())))


def _bounds(parts: Parts) -> Bounds:
    if "relu" in parts:
        return (0.0, None)
    if "clip" in parts:
        low, high = (float(bound.value) for bound in parts["clip"].args[1:3])
        if not low <= high:
            raise Refusal("its lower bound is above its upper bound")
        return (low if low > -UNLIMITED else None, high if high < UNLIMITED else None)
    return UNBOUNDED


def _convolution(match: Match) -> QOperator:
    call, parts = match.call, match.parts
    attrs = call.attrs
    transposed = operator_name(call) == "relax.nn.conv2d_transpose"
    layouts = (str(attrs.data_layout), str(attrs.kernel_layout))
    if layouts != ("NCHW", "IOHW" if transposed else "OIHW"):
        raise Refusal(f"its layout is {layouts[0]}, {layouts[1]}")
    channels, groups = match.output.shape[1], int(attrs.groups)
    axis = 1 if transposed else 0
    weights, scales = _weights(parts["weights"], axis, channels, groups if transposed else 1)
    return QConv(
        **placeholders(1),
        weights=weights,
        weight_scales=scales,
        bias=_bias(parts, channels, 1),
        stride=_pair(attrs.strides),
        dilation=_pair(attrs.dilation),
        pads=_four(attrs.padding),
        groups=groups,
        transposed=transposed,
        output_padding=_pair(attrs.output_padding) if transposed else (0, 0),
    )


def _weights(call: Expr, axis: int, channels: int, groups: int) -> tuple[Array, Array]:
    """int8 weights and a scale for each of ``channels`` = axis size * ``groups`` outputs."""
    weights, scale, zero_point = (constant(arg) for arg in call.args[:3])
    if weights.dtype != np.int8:
        raise Refusal(f"its weights are {weights.dtype}, not int8")
    if zero_point.any():
        raise Refusal("its weights have a zero point")
    on = int(call.attrs.axis) % weights.ndim
    by_group = on == 0 and scale.size == groups == len(weights) > 1  # of which each has one input
    if scale.size > 1 and not by_group and (on != axis or scale.ndim != 1):
        raise Refusal("its weights have a scale for each input channel")
    if scale.dtype != np.float32 or not (np.isfinite(scale).all() and (scale > 0).all()):
        raise Refusal("its weight scales are not positive float32 numbers")
    wide = scale.astype(np.float64).reshape(-1)
    if by_group:
        return weights, np.repeat(wide, channels // groups)
    scales = np.tile(wide, groups) if wide.size > 1 else np.full(channels, wide[0])
    return weights, scales


def _bias(parts: Parts, channels: int, axis: int) -> Array:
    if "bias" not in parts:
        return np.zeros(channels)
    values = constant(parts["bias"])
    if values.dtype != np.float32 or not np.isfinite(values).all():
        raise Refusal("its bias is not a finite float32 array")
    call_shape = shape_of(parts["operator"])
    assert call_shape is not None
    rank = len(call_shape)
    reshaped = values.size == channels and values.ndim == 1 and axis == 1 and rank == MAX_RANK
    shape = [1] * rank
    if reshaped:
        shape[axis] = channels
        values = values.reshape(shape)
    try:
        expected = list(np.broadcast_shapes(values.shape, call_shape))
    except ValueError as error:
        raise Refusal("what is added to its result is no bias") from error
    aligned = [1] * (rank - values.ndim) + list(values.shape)
    if expected != list(call_shape) or any(
        size != 1 for index, size in enumerate(aligned) if index != axis % rank
    ):
        raise Refusal("what is added to its result is not one value for each channel")
    return np.array(np.broadcast_to(values.reshape(-1), channels), np.float64)


def _dense(match: Match) -> QOperator:
    parts = match.parts
    matrix = parts["weights"]
    channels = match.output.shape[-1]
    turned = "turned" in parts and permutation(parts["turned"]) == (1, 0)
    weights, scales = _weights(matrix, 0 if turned else 1, channels, 1)
    rows = weights if turned else weights.T
    return QConv(
        **placeholders(1),
        weights=np.ascontiguousarray(rows)[:, :, None, None],
        weight_scales=scales,
        bias=_bias(parts, channels, -1),
    )


def _product(match: Match) -> QOperator:
    a, b = match.inputs
    if len(a.shape) not in (3, 4) or a.shape[:-2] != b.shape[:-2]:
        raise Refusal("its factors are not batches of as many matrices")
    heads = a.shape[1] if len(a.shape) == MAX_RANK else 1
    factor = _factor(match.parts)
    return QMatmul(**placeholders(2), heads=heads, b_rows_are_outputs=False, factor=factor)


def _factor(parts: Parts) -> float:
    part = parts.get("factor", parts.get("divisor"))
    if part is None:
        return 1.0
    values = constant(part)
    if values.size != 1 or values.dtype != np.float32:
        raise Refusal("it is multiplied by more than one number")
    value = float(values.reshape(()))
    if "divisor" in parts:
        value = 1 / value if value else 0.0
    if not (np.isfinite(value) and value > 0):
        raise Refusal("its factor is not a positive number")
    return value


def _pool(match: Match) -> QOperator:
    call, data = match.call, match.inputs[0]
    name = operator_name(call)
    if name in ("relax.mean", "relax.max"):
        return _global_pool(call, data, maximum=name == "relax.max")
    attrs, maximum = call.attrs, name == "relax.nn.max_pool2d"
    if str(attrs.layout) != "NCHW":
        raise Refusal(f"its layout is {attrs.layout}")
    if _pair(attrs.dilation) != (1, 1) and not maximum:
        raise Refusal("its window is dilated")
    kernel, stride = _pair(attrs.pool_size), _pair(attrs.strides)
    top, left, bottom, right = _four(attrs.padding)
    if attrs.ceil_mode:  # `read.onnx_pools` leaves none of known sizes
        raise Refusal("its size is rounded up")
    return QPool(
        **placeholders(1),
        maximum=maximum,
        kernel=kernel,
        stride=stride,
        dilation=_pair(attrs.dilation),
        pads=(top, left, bottom, right),
    )


def _masked_mean(match: Match, data: Expr) -> Computation | None:
    """A mean over windows that leaves out the padding: what the mean with padding misses."""
    call, attrs = match.call, match.call.attrs
    if operator_name(call) != "relax.nn.avg_pool2d" or attrs.count_include_pad:
        return match.parts.get("computation")
    counts = []
    pads, sizes = _four(attrs.padding), match.inputs[0].shape[2:]
    windows = zip(sizes, _pair(attrs.pool_size), _pair(attrs.strides), pads[:2], pads[2:],
                  strict=True)  # fmt: skip
    for size, window, stride, before, after in windows:
        first = np.arange(0, size + before + after - window + 1, stride) - before
        inside = np.minimum(first + window, size) - np.maximum(first, 0)
        counts.append(window / np.maximum(inside, 1))
    shares = np.outer(*counts)
    if (shares == 1).all():
        return match.parts.get("computation")
    leaf = Operand(leaves=(data,), constants=(), arrange=lambda arrays: arrays[0],
                   shape=match.inputs[0].shape, plain=True)  # fmt: skip
    return Computation(operator=MASKED_MEAN, operands=(leaf, shares), shape=match.output.shape)


def _global_pool(call: Expr, data: QuantisedTensor, *, maximum: bool) -> QPool:
    rank = len(data.shape)
    stated = call.attrs.axis
    axes = sorted(int(axis) % rank for axis in (stated if stated is not None else range(rank)))
    if rank == MAX_RANK and axes == [2, 3]:
        kernel = (data.shape[2], data.shape[3])
    elif rank == 3 and axes == [1] and not call.attrs.keepdims:
        kernel = (data.shape[1], 1)
    else:
        raise Refusal("it reduces other axes than those of an image or the tokens of a sequence")
    return QPool(**placeholders(1), maximum=maximum, kernel=kernel, stride=kernel)


def _add(match: Match) -> QOperator:
    if len({tensor.shape for tensor in (*match.inputs, match.output)}) != 1:
        raise Refusal("its tensors differ in shape")
    return QAdd(**placeholders(2))


def _multiply(match: Match) -> QOperator:
    """A factor may have one pixel: ``(B, C, 1, 1)``, or ``(B, 1, C)`` of a sequence."""
    a, b = (tensor.shape for tensor in match.inputs)
    channels = 1 if len(a) == MAX_RANK else len(a) - 1
    small = [tuple(n if i in (0, channels) else 1 for i, n in enumerate(s)) for s in (a, b)]
    if a != b and (len(a) != len(b) or (a != small[1] and b != small[0])):
        raise Refusal("its factors are neither of one shape nor is one of them a number a channel")
    return QMultiply(**placeholders(2))


def _concat(match: Match) -> QOperator:
    return QConcat(**placeholders(len(match.inputs)))


def _move(_match: Match) -> QOperator:
    return QReshape(**placeholders(1))


def _select(match: Match) -> QOperator:
    """A slice of one axis; whether it has channels or tokens depends on how the data lie."""
    shape, cut = match.inputs[0].shape, _cut(match)
    if len(cut) > 1 or (len(shape) == MAX_RANK and set(cut) - {1}) or 0 in cut:
        raise Refusal("it leaves out more than channels of an image or tokens of a sequence")
    channels = 1 if len(shape) == MAX_RANK else len(shape) - 1
    chosen = cut[next(iter(cut))] if cut else range(shape[channels])
    return QSelect(**placeholders(1), channels=tuple(chosen))


def _cut(match: Match) -> dict[int, range]:
    """The axes of which a slice does not take all positions, and which it takes."""
    whole = [range(size) for size in match.inputs[0].shape]
    chosen = [each[cut] for each, cut in zip(whole, slices(match.call), strict=True)]
    return {axis: part for axis, part in enumerate(chosen) if part != whole[axis]}


def _gather(match: Match) -> QOperator:
    """Some positions along an axis; which pixels those are depends on how the data lie."""
    places, axis = constant(match.call.args[1]), match.call.attrs.axis
    if axis is None or places.ndim != 1:
        raise Refusal("it gathers along no axis, or with more than one axis of positions")
    if not 0 <= places.min() <= places.max() < match.inputs[0].shape[int(axis)]:
        raise Refusal("it gathers at positions that its data do not have")
    return QGather(**placeholders(1), pixels=places.astype(np.int64))


def _rescale(_match: Match) -> QOperator:
    return QRescale(**placeholders(1))


def _table(match: Match) -> QOperator:
    data, output = match.inputs[0], match.output
    entries = match.parts["curve"].entries(output.scale, output.zero_point)
    if entries is None:
        raise Refusal("its function has no value for any input")
    lookup = Lookup(scale=data.scale, zero_point=data.zero_point, entries=entries)
    return QRescale(**placeholders(1), lookup=lookup)


def _softmax(match: Match) -> QOperator:
    rank = len(match.output.shape)
    data, *masks = match.inputs
    if masks and int(match.call.attrs.axis) % rank != rank - 1:
        raise Refusal("a mask is added to it, and it is not over the last axis")
    row = (1,) * (rank - 1) + data.shape[-1:]
    if data.shape != match.output.shape or any(mask.shape != row for mask in masks):
        raise Refusal("what is added to it is not one row for all of its rows")
    if any(mask.zero_point for mask in masks):
        raise Refusal("what is added to it has a zero point")
    return QSoftmax(**placeholders(len(match.inputs)), addend=_addend(match))


def _addend(match: Match) -> Array | None:
    """What is added to the data of a softmax, of their shape."""
    if "addend" not in match.parts:
        return None
    values, shape = constant(match.parts["addend"]), match.inputs[0].shape
    if values.dtype != np.float32 or np.isnan(values).any() or np.isposinf(values).any():
        raise Refusal("what is added to it are no float32 numbers")
    try:
        return np.broadcast_to(values, shape)
    except ValueError as error:
        raise Refusal("what is added to it changes its shape") from error


def _layer_norm(match: Match) -> QOperator:
    rank = len(match.output.shape)
    if [int(axis) % rank for axis in match.call.attrs.axes] != [rank - 1]:
        raise Refusal("it is not over the last axis alone")
    gamma, beta = (constant(match.parts[name]) for name in ("gamma", "beta"))
    channels = match.output.shape[-1]
    if any(v.shape != (channels,) or not np.isfinite(v).all() for v in (gamma, beta)):
        raise Refusal("its parameters are not a finite number for each channel")
    gamma, beta = gamma.astype(np.float64), beta.astype(np.float64)
    epsilon = float(match.call.attrs.epsilon)
    return QLayerNorm(**placeholders(1), gamma=gamma, beta=beta, epsilon=epsilon)


def _axes(kind: str, match: Match) -> tuple[int, ...]:
    if kind == "concat":
        axis = match.call.attrs.axis
        return (int(axis if axis is not None else 0) % len(match.output.shape),)
    if kind == "move" and operator_name(match.call) == "relax.permute_dims":
        return permutation(match.call)
    if kind == "select":
        return tuple(_cut(match))
    if kind in ("softmax", "layer norm"):
        rank = len(match.output.shape)
        return (int(match.call.attrs.axis) % rank if kind == "softmax" else rank - 1,)
    if kind == "gather":
        return (int(match.call.attrs.axis) % len(match.inputs[0].shape),)
    return ()


_READERS: Final[Mapping[str, Callable[[Match], QOperator]]] = {
    "add": _add,
    "concat": _concat,
    "convolution": _convolution,
    "dense": _dense,
    "enlarge": enlarge,
    GENERAL: _move,
    "gather": _gather,
    "layer norm": _layer_norm,
    "move": _move,
    "multiply": _multiply,
    "pool": _pool,
    "prelu": prelu,
    "product": _product,
    "rescale": _rescale,
    "select": _select,
    "softmax": _softmax,
    "table": _table,
}


def _pair(values: Sequence[Any]) -> tuple[int, int]:
    rows, columns = (int(value) for value in values)
    return rows, columns


def _four(values: Sequence[Any]) -> tuple[int, int, int, int]:
    top, left, bottom, right = (int(value) for value in values)
    return top, left, bottom, right
