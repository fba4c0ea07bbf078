# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits: int8 numbers that an accelerator with ``int4_weights`` keeps packed.

They stay int8 in the model, so that nothing behind quantisation differs: numbers from -8 to 7 or,
where groups of weights have scales, such numbers times a whole number from 1 to 16. Layers whose
weights all fit are packed (`host.compiler.lower.workloads`).

Each output channel has one scale beside those of its groups, and products of a whole reduction are
summed as integers. Among clipped ranges a channel and a group take those with the least square
error of the weights.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from tilewright.host.compiler.quantise.narrowed_layers import INT4_SUFFIX
from tilewright.host.compiler.read.edit import (
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
)
from tilewright.host.compiler.read.import_options import Int4Layers, QuantiseOptions
from tilewright.host.network.int4_tiles import HIGHEST, LARGEST_SCALE, LOWEST
from tilewright.host.network.operators import OF_ONE, having

Floats = npt.NDArray[np.float64]
Quantised = tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]

_SHARES: Final = np.linspace(0.4, 1.0, 31)
"""Of the largest weight of a channel that 7 may stand for."""
_SHARES_WITH_GROUPS: Final = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5)
"""The same of a channel and of a group."""
_PARTS: Final = (LARGEST_SCALE, 4, 1)
"""Scale of the group with the largest weight."""
_NOTHING: Final = 1e-30
"""Channels of smaller weights have none: their scales would be no normal numbers."""
_IN_PLACE: Final = (*OF_ONE, "Dropout")
"""Operators that leave each element in its place."""

_AT_ONCE: Final = 1 << 18
"""Weights whose groups are looked at together, which bounds the memory."""

_KINDS: Final[dict[Int4Layers, tuple[str, ...]]] = {
    "none": (),
    "dense": having(lambda each: each.narrow_weights and each.layer == "product"),
    "all": having(lambda each: each.narrow_weights),
}


def to_int4(quantised: ir.Model, model: ir.Model, options: QuantiseOptions) -> None:
    """Give layers of a quantised model weights of 4 bits, in place.

    Convolutions in groups keep their weights, and where groups of weights have scales those that
    fold their kernel columns.
    """
    originals = {node.name: node for node in model.graph}
    editor = Editor(quantised.graph)
    for node in list(quantised.graph):
        original = originals.get(node.name)
        if original is None or not is_kind(node, *_KINDS[options.int4_weights]):
            continue
        if node.name in options.int4_kept or integer(node, "group", 1) > 1:
            continue
        source = node.inputs[1]
        reading = None if source is None else source.producer()
        weights = array_of(input_of(original, 1))
        if not is_kind(reading, "DequantizeLinear") or weights is None:
            continue
        stored, scale = (array_of(value) for value in reading.inputs[:2])
        if stored is None or scale is None or stored.shape != weights.shape:
            continue
        floats = weights.astype(np.float64)
        group = options.int4_group
        if group is not None and _reads_few_channels(original, floats, group[2]):
            continue
        axis = integer(reading, "axis", 1) if scale.size > 1 else None
        least = _least_scales(floats, axis, scale)
        if group is not None and (is_kind(node, "Conv") or weights.ndim == 2):
            numbers, scales = _with_groups(original, floats, group, least)
        else:
            numbers, scales = quantise_int4(floats, axis, least)
        reading.replace_input_with(0, editor.constant(f"{node.name}{INT4_SUFFIX}", numbers))
        reading.replace_input_with(
            1, editor.constant(f"{node.name}_int4_scale", scales.reshape(scale.shape))
        )
    editor.drop_unused()


def _least_scales(weights: Floats, axis: int | None, scale: npt.NDArray[Any]) -> Floats:
    """Scales that int8 has for the sake of its biases, which are to fit 32 bits; otherwise 0."""
    old = scale.astype(np.float64).reshape(-1)
    others = None if axis is None else tuple(n for n in range(weights.ndim) if n != axis)
    enlarged = old > 1.05 * np.abs(weights).max(axis=others).reshape(-1) / 127
    return np.where(enlarged, old, 0.0)


def quantise_int4(weights: Floats, axis: int | None, least: Floats | float = 0.0) -> Quantised:
    """Weights as multiples of scales.

    Args:
        weights: of any shape.
        axis: of the output channels, each with a scale; None: one scale for all.
        least: that the scales may be, (channels,) or (1,).

    Returns:
        The numbers, int8 from -8 to 7 in the weights' shape; the scales, (channels,) or (1,).
    """
    rows = weights.reshape(1, -1)
    if axis is not None:
        rows = np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
    largest = np.abs(rows).max(axis=1)
    largest[largest < _NOTHING] = 1.0
    best, scales = np.full(largest.shape, np.inf), np.zeros(largest.shape, np.float32)
    for share in _SHARES:
        tried = np.maximum(share * largest / HIGHEST, least).astype(np.float32)
        error = ((_rounded(rows, tried[:, None]) * tried[:, None] - rows) ** 2).sum(axis=1)
        better = error < best
        best[better], scales[better] = error[better], tried[better]
    numbers = _rounded(rows, scales[:, None]).astype(np.int8)
    if axis is None:
        return numbers.reshape(weights.shape), scales
    moved = np.moveaxis(weights, axis, 0).shape
    return np.ascontiguousarray(np.moveaxis(numbers.reshape(moved), 0, axis)), scales


def quantise_groups(weights: Floats, group: tuple[int, int], least: Floats) -> Quantised:
    """Weights as multiples of scales of output channels and of groups.

    Args:
        weights: (outputs, inputs, places of the kernel).
        group: output and input channels of a group, which has one place of the kernel.
        least: that the scales may be: (outputs,), or (1,): then there is one for all.

    Returns:
        The numbers, int8, in the weights' shape: in a group -8 to 7 times a whole number from 1 to
        16; the scales, (outputs,) or (1,).
    """
    outputs, inputs, _ = weights.shape
    by_channel = least.size == outputs > 1
    padding = [(0, -outputs % group[0]), (0, -inputs % group[1]), (0, 0)]
    padded = np.pad(weights, padding)
    largest = np.abs(padded).max(axis=(1, 2))
    if not by_channel:
        largest[:] = largest.max()
    largest[largest < _NOTHING] = 1.0
    floor = np.zeros(len(padded))
    floor[:outputs] = least
    numbers, scales = np.zeros(padded.shape, np.int8), np.zeros(len(padded), np.float32)
    best = np.full(len(padded) // group[0], np.inf)
    for share, part in product(_SHARES_WITH_GROUPS, _PARTS):
        tried = np.maximum(share * largest / (HIGHEST * part), floor).astype(np.float32)
        found, error = _multiples(padded, tried, group)
        if not by_channel:
            error[:] = error.sum()
        better = error < best
        best[better] = error[better]
        rows = np.repeat(better, group[0])
        numbers[rows], scales[rows] = found[rows], tried[rows]
    return numbers[:outputs, :inputs], scales[:outputs] if by_channel else scales[:1]


def _multiples(
    weights: Floats, scales: npt.NDArray[np.float32], group: tuple[int, int]
) -> tuple[npt.NDArray[np.int8], Floats]:
    """Numbers of weights, whole groups, and the square error of the outputs of each group."""
    outputs, inputs, places = weights.shape
    step_out, step_in = group
    found = np.zeros(weights.shape, np.int8)
    errors = np.zeros(outputs // step_out)
    many = max(1, _AT_ONCE // (step_out * inputs * places))
    for first in range(0, len(errors), many):
        groups = slice(first, first + many)
        rows = slice(first * step_out, (first + many) * step_out)
        unit = scales[rows].astype(np.float64).reshape(-1, step_out, 1, 1, 1)
        values = weights[rows].reshape(-1, step_out, inputs // step_in, step_in, places) / unit
        largest = np.abs(values).max(axis=(1, 3), keepdims=True)
        best = np.full(largest.shape, np.inf)
        chosen = np.zeros(values.shape, np.int8)
        for share in _SHARES_WITH_GROUPS:
            factor = np.clip(np.ceil(share * largest / HIGHEST), 1, LARGEST_SCALE)
            multiples = _rounded(values, factor) * factor
            error = (((multiples - values) * unit) ** 2).sum(axis=(1, 3), keepdims=True)
            chosen = np.where(error < best, multiples, chosen).astype(np.int8)
            best = np.minimum(error, best)
        found[rows] = chosen.reshape(-1, inputs, places)
        errors[groups] = best.sum(axis=(1, 2, 3, 4))
    return found, errors


def _with_groups(
    layer: ir.Node, weights: Floats, group: tuple[int, int, int], least: Floats
) -> Quantised:
    """`quantise_groups` of a layer's weights as they lie in the model.

    Args:
        layer: of the float model.
        weights: in its shape.
        group: output and input channels of a group, input channels of a tile.
        least: see `quantise_groups`.
    """
    if is_kind(layer, "Conv"):
        kernels = weights.reshape(*weights.shape[:2], -1)
        numbers, scales = quantise_groups(kernels, group[:2], least)
        return numbers.reshape(weights.shape), scales
    turned = not integer(layer, "transB", 0)
    rows = weights.T if turned else weights
    kernels = rows.reshape(len(rows), _image_channels(layer, rows.shape[1]), -1)
    numbers, scales = quantise_groups(kernels, group[:2], least)
    flat = numbers.reshape(rows.shape)
    return np.ascontiguousarray(flat.T if turned else flat), scales


def _reads_few_channels(layer: ir.Node, weights: Floats, block_in: int) -> bool:
    """Whether a layer is a convolution of the model's input whose kernel columns the host folds.

    Groups would go across pixels there; such layers have few weights, which much depends on.
    """
    source = layer.inputs[0]
    if not is_kind(layer, "Conv") or source is None or source.producer() is not None:
        return False
    inputs, width = int(weights.shape[1]), int(weights.shape[-1])
    return inputs < block_in and -(-width * inputs // block_in) < width


def _image_channels(layer: ir.Node, inputs: int) -> int:
    """Channels of what a dense layer reads: of the image where it was made flat before.

    The host makes an input of the model flat: then each number is a channel.
    """
    source = layer.inputs[0]
    writer = None if source is None else source.producer()
    while is_kind(writer, *_IN_PLACE):
        source = writer.inputs[0]
        writer = None if source is None else source.producer()
    flat = writer.inputs[0] if is_kind(writer, "Flatten", "Reshape") else None
    if flat is None or flat.producer() is None:
        return inputs
    image = [size for size in tuple(flat.shape or ())[1:] if isinstance(size, int)]
    return image[0] if len(image) > 1 and prod(image) == inputs else inputs


def _rounded(values: Floats, scales: npt.NDArray[np.floating]) -> Floats:
    multiples: Floats = np.clip(np.rint(values / scales), LOWEST, HIGHEST)
    return multiples
