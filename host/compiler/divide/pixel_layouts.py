# SPDX-License-Identifier: Apache-2.0
"""Units whose data lie with pixels in another order: windows, rolls, batches among the pixels.

Where the order of pixels is all that is wrong, the region moves them (`qgraph.QGather`). Where
channels lie as pixels and pixels as channels, it exchanges them (`qgraph.QTurn`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tilewright.host.compiler.divide import tensor_layouts as layouts
from tilewright.host.compiler.divide.relax_match import MAX_RANK, Refusal
from tilewright.host.compiler.divide.relax_units import OffloadUnit
from tilewright.host.compiler.divide.tensor_layouts import TensorLayout
from tilewright.host.compiler.lower.qgraph import QGather, QOperator, QSelect


def is_reached(have: TensorLayout, want: TensorLayout) -> bool:
    """Whether moving channels or pixels, or exchanging both, leads from one layout to another."""
    return (
        layouts.channels_of(have, want) is not None
        or layouts.pixels_of(have, want) is not None
        or layouts.is_turned(have, want)
    )


def with_channels_last(lying: TensorLayout, shape: Sequence[int]) -> TensorLayout | None:
    """How a tensor lies, if its last axis is the channels of its normal form.

    Whatever the other axes are; where their pixels are not in the model's order, they are moved.
    """
    if lying.shape[1] != shape[-1]:
        return None
    if lying.order == layouts.channels_last(lying.shape):
        return lying
    moved = layouts.tokens(shape)
    return None if layouts.pixels_of(lying, moved) is None else moved


def last_channels(unit: OffloadUnit, lying: TensorLayout) -> TensorLayout | None:
    """As `with_channels_last`, for a dense layer or a slice of the features of a sequence."""
    shape = unit.inputs[0].shape
    slices = isinstance(unit.operator, QSelect) and len(shape) < MAX_RANK
    return with_channels_last(lying, shape) if unit.kind == "dense" or slices else None


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
