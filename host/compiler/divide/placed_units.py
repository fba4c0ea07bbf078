# SPDX-License-Identifier: Apache-2.0
"""Where a unit's tensors lie in a region: what it needs of its inputs, and how its result lies.

Units whose data lie with pixels in another order: windows, rolls, batches among the pixels.

Where the order of pixels is all that is wrong, the region moves them (`qgraph.QGather`). Where
channels lie as pixels and pixels as channels, it exchanges them (`qgraph.QTurn`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import gcd

import numpy as np

from tilewright.host.compiler.divide import tensor_layouts as layouts
from tilewright.host.compiler.divide.relax_calls import MAX_RANK, Refusal
from tilewright.host.compiler.divide.relax_units import OffloadUnit
from tilewright.host.compiler.divide.tensor_layouts import TensorLayout
from tilewright.host.compiler.lower.epilogue import COPY_WEIGHT
from tilewright.host.compiler.lower.own_call import placeholders
from tilewright.host.compiler.lower.qgraph import (
    QConcat,
    QConv,
    QGather,
    QLayerNorm,
    QMatmul,
    QOperator,
    QSelect,
    QSoftmax,
    QStack,
)


def with_channels(lying: TensorLayout, shape: Sequence[int], axis: int = -1) -> TensorLayout | None:
    """How a tensor lies, if an axis is the channels of its normal form.

    Whatever the other axes are; where their pixels are not in the model's order, they are moved.
    """
    if lying.shape[1] != shape[axis]:
        return None
    if lying.order == layouts.along(shape, axis, images=lying.shape[0] > 1).order:
        return lying
    moved = layouts.along(shape, axis)
    return None if layouts.pixels_of(lying, moved) is None else moved


def row_layouts(unit: OffloadUnit, lying: TensorLayout) -> list[TensorLayout]:
    """How data may lie for a function of rows: all channels of a pixel, or those of one head."""
    (axis,), shape = unit.axes, unit.inputs[0].shape
    images = lying.shape[0] > 1
    last = with_channels(lying, shape, axis)
    found = [layouts.along(shape, axis, images=images) if last is None else last]
    by_axis = {MAX_RANK - 1: (layouts.heads, layouts.window_heads),
               MAX_RANK - 2: (layouts.rows, layouts.window_rows)}  # fmt: skip
    if isinstance(unit.operator, QSoftmax) and len(shape) == MAX_RANK and axis in by_axis:
        found.append(by_axis[axis][in_windows(lying, shape)](shape))
    return found


def last_channels(unit: OffloadUnit, lying: TensorLayout) -> TensorLayout | None:
    """As `with_channels`, for a dense layer or a slice of the features of a sequence."""
    shape = unit.inputs[0].shape
    slices = isinstance(unit.operator, QSelect) and len(shape) < MAX_RANK
    return with_channels(lying, shape) if unit.kind == "dense" or slices else None


def in_windows(lying: TensorLayout, shape: Sequence[int]) -> bool:
    """Whether the batch of a model's tensor lies among the pixels."""
    return shape[0] > 1 and lying.shape[0] == 1


def simplest(lying: Sequence[TensorLayout]) -> TensorLayout:
    """Of layouts of one tensor, the first; or one in an order that is simpler but for pixels."""
    best = lying[0]
    for each in lying[1:]:
        moves = layouts.channels_of(each, best) is None and len(each.order) < len(best.order)
        if each.order != best.order and moves and layouts.pixels_of(best, each) is not None:
            best = each
    return best


def placed_gather(
    operator: QGather, unit: OffloadUnit, lying: TensorLayout
) -> tuple[QOperator, tuple[TensorLayout, ...], TensorLayout]:
    """A gather along one axis as the operator on pixels or channels that it is."""
    (axis,), shape, result = unit.axes, unit.inputs[0].shape, unit.output.shape
    if axis == len(shape) - 1 and lying.order == layouts.channels_last(lying.shape):
        raise Refusal("it gathers channels")
    for form, pixel_axes in ((layouts.tokens, range(len(shape) - 1)), (_image, range(2, 4))):
        wanted = form(shape) if axis in pixel_axes else None
        first = None if wanted is None else layouts.pixels_of(lying, wanted)
        if first is not None:
            sizes = [shape[each] for each in pixel_axes]
            places = np.take(
                np.reshape(first, sizes), operator.pixels, axis - pixel_axes.start
            ).reshape(-1)
            return replace(operator, pixels=places), (lying,), form(result)
    raise Refusal("it gathers other positions than pixels of one image")


def _image(shape: Sequence[int]) -> TensorLayout:
    if len(shape) != MAX_RANK or shape[0] != 1:
        raise Refusal("it gathers other positions than pixels of one image")
    return layouts.image(shape)


def placed_slice(
    operator: QSelect, unit: OffloadUnit, lying: TensorLayout
) -> tuple[QOperator, tuple[TensorLayout, ...], TensorLayout]:
    """A slice as the operator that it is, the layout that it needs, and that of its result."""
    shape, result = unit.inputs[0].shape, unit.output.shape
    sequence = layouts.sequence(shape)
    by_pixels = lying.order == layouts.pixels(shape, 1).order != sequence.order
    if by_pixels and lying.shape[:2] == shape[:2]:
        order = layouts.pixels(result, 1).order
        b, _, h, w = lying.shape
        return operator, (lying,), TensorLayout(shape=(b, result[1], h, w), order=order)
    tokens = _chosen_tokens(shape[2], shape[1], operator.channels)
    return replace(tokens, bounds=operator.bounds), (sequence,), layouts.sequence(result)


def _chosen_tokens(channels: int, tokens: int, chosen: tuple[int, ...]) -> QConv:
    """Some tokens: a depthwise convolution, of whose window one weight is not 0."""
    first, count = chosen[0], len(chosen)
    stride = chosen[1] - first if count > 1 else tokens
    if stride < 1:
        raise Refusal("it turns tokens round")
    reach = (count - 1) * stride + 1
    window = first + 1 if count == 1 else tokens - reach + 1
    weights = np.zeros((channels, 1, window, 1), np.int8)
    weights[:, :, first] = COPY_WEIGHT
    return QConv(
        **placeholders(1),
        weights=weights,
        weight_scales=np.full(channels, 1 / COPY_WEIGHT),
        bias=np.zeros(channels),
        stride=(stride, 1),
        groups=channels,
    )


def placed(
    unit: OffloadUnit, lying: Sequence[TensorLayout]
) -> tuple[QOperator, tuple[TensorLayout, ...], TensorLayout]:
    """The operator, the layouts that it needs of its inputs, and the layout of its output."""
    operator, shapes = unit.operator, [tensor.shape for tensor in unit.inputs]
    if isinstance(operator, QGather):
        return placed_gather(operator, unit, lying[0])
    if unit.elementwise:
        output = simplest(lying)
        needed = tuple(output for _ in lying)
    elif unit.kind == "multiply":
        needed = tuple(map(_plain, shapes))
        output = _plain(unit.output.shape)
    elif isinstance(operator, QSoftmax | QLayerNorm):
        return _placed_rows(operator, unit, lying)
    elif isinstance(operator, QSelect) and unit.axes == (1,) and len(shapes[0]) == MAX_RANK - 1:
        operator, needed, output = placed_slice(operator, unit, lying[0])
    elif (last := last_channels(unit, lying[0])) is not None:
        needed = (last,)
        b, _, h, w = last.shape
        placed_shape = (b, unit.output.shape[-1], h, w)
        output = TensorLayout(shape=placed_shape, order=layouts.channels_last(placed_shape))
    elif isinstance(operator, QConcat) and _joins_tokens(unit, lying):
        return _stack(operator), tuple(map(_plain, shapes)), _plain(unit.output.shape)
    elif isinstance(operator, QConcat) and _joins_pixels(unit, lying):
        return _placed_stack(operator, unit)
    elif isinstance(operator, QConcat):
        needed = tuple(_channels_last_or_first(shape, unit.axes[0]) for shape in shapes)
        output = _channels_last_or_first(unit.output.shape, unit.axes[0])
    elif unit.kind == "dense":
        form = layouts.tokens if in_windows(lying[0], shapes[0]) else _tokens
        needed, output = (form(shapes[0]),), form(unit.output.shape)
    else:
        needed, output = (_plain(shapes[0]),), _plain(unit.output.shape)
    return operator, needed, output


def _placed_rows(
    operator: QSoftmax | QLayerNorm, unit: OffloadUnit, placed_in: Sequence[TensorLayout]
) -> tuple[QOperator, tuple[TensorLayout, ...], TensorLayout]:
    """Rows along an axis: data that lie in one of their `row_layouts`, or are brought into one."""
    shape, lying, choices = unit.inputs[0].shape, placed_in[0], row_layouts(unit, placed_in[0])
    same = [each for each in choices if each.order == lying.order]
    needed = (same or choices)[0]
    if isinstance(operator, QSoftmax) and needed.shape[1] != shape[unit.axes[0]]:
        operator = replace(operator, heads=shape[1])
    if isinstance(operator, QSoftmax) and operator.addend is not None:
        addend = layouts.in_normal_form(operator.addend, needed).astype(np.float64)
        operator = replace(operator, addend=addend)
    masks = (_tokens(mask.shape) for mask in unit.inputs[1:])
    return operator, (needed, *masks), needed


def _plain(shape: Sequence[int]) -> TensorLayout:
    layout = layouts.natural(shape)
    assert layout is not None
    return layout


def _tokens(shape: Sequence[int]) -> TensorLayout:
    """Channels are the last axis, whatever the others are."""
    layout = layouts.natural(shape, layouts.sequence)
    assert layout is not None
    return layout


def _channels_last_or_first(shape: Sequence[int], axis: int) -> TensorLayout:
    if axis != (2 if len(shape) == 3 else 1):
        raise Refusal("it does not join channels")
    return _plain(shape)


def _joins_tokens(unit: OffloadUnit, lying: Sequence[TensorLayout]) -> bool:
    """Whether sequences (B, T, C) are joined along their tokens."""
    shapes = [tensor.shape for tensor in unit.inputs]
    if unit.axes != (1,) or len(unit.output.shape) != MAX_RANK - 1:
        return False
    return [have.order for have in lying] == [_plain(shape).order for shape in shapes]


def _joins_pixels(unit: OffloadUnit, lying: Sequence[TensorLayout]) -> bool:
    """Whether images without rows and columns, (B, C, P), are joined along their pixels."""
    shapes = [tensor.shape for tensor in unit.inputs]
    if unit.axes != (2,) or len(unit.output.shape) != MAX_RANK - 1:
        return False
    orders = [have.order for have in lying]
    tokens = [_tokens(shape).order for shape in shapes]
    return orders != tokens and orders == [layouts.pixels(shape, 1).order for shape in shapes]


def _placed_stack(
    operator: QConcat, unit: OffloadUnit
) -> tuple[QOperator, tuple[TensorLayout, ...], TensorLayout]:
    shapes = [tensor.shape for tensor in unit.inputs]
    width = gcd(*(shape[2] for shape in shapes))
    needed = tuple(layouts.pixels(shape, width) for shape in shapes)
    return _stack(operator), needed, layouts.pixels(unit.output.shape, width)


def _stack(operator: QConcat) -> QStack:
    return QStack(
        name=operator.name, inputs=operator.inputs, output=operator.output, bounds=operator.bounds
    )


def placed_product(
    operator: QMatmul, unit: OffloadUnit, lying: Sequence[TensorLayout], *, heads_apart: bool
) -> tuple[QOperator, tuple[TensorLayout, ...], TensorLayout]:
    """A product, the layouts that it needs of its factors, and that of its result.

    Args:
        operator: the product.
        unit: what it is of.
        lying: how its factors lie, or could.
        heads_apart: the heads of its one image count as windows of one head.
    """
    a, b, result = (tensor.shape for tensor in (*unit.inputs, unit.output))
    if heads_apart:
        a, b, result = ((shape[1], 1, *shape[2:]) for shape in (a, b, result))
        operator = replace(operator, heads=1)
    heads, rows, windows = layouts.heads, layouts.rows, 1
    if a[0] > 1 and not in_windows(lying[0], a):
        raise Refusal("its factors are matrices of several images")
    if in_windows(lying[0], a):
        heads, rows, windows = layouts.window_heads, layouts.window_rows, a[0]
    by_rows = lying[1].order == rows(b).order != heads(b).order
    needed = (heads(a), rows(b) if by_rows else heads(b))
    operator = replace(operator, b_rows_are_outputs=by_rows, windows=windows)
    return operator, needed, heads(result)
