# SPDX-License-Identifier: Apache-2.0
"""Which elements of a sequence a chain of moves takes, found by moving their numbers."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import (
    Array,
    array_of,
    input_of,
    integer,
    integers,
    is_kind,
    shape_of,
)

_RANK: Final = 3
_CHAIN: Final = 8
"""Moves that are followed at most."""


def features_taken(value: ir.Value) -> tuple[ir.Value, range] | None:
    """The sequence (B, T, C), and the features of it, whose elements a value has, in order."""
    chain: list[ir.Node] = []
    current: ir.Value | None = value
    while current is not None and len(chain) < _CHAIN:
        node = current.producer()
        if not is_kind(node, "Gather", "Reshape", "Slice", "Squeeze", "Transpose", "Unsqueeze"):
            return None
        chain.append(node)
        current = node.inputs[0]
        shape = shape_of(current)
        if current is None or shape is None:
            return None
        if len(shape) == _RANK and prod(shape) > prod(shape_of(value) or ()):
            taken = _features(chain, shape)
            if taken is not None:
                return current, taken
    return None


def _features(chain: list[ir.Node], shape: tuple[int, ...]) -> range | None:
    numbers: Array | None = np.arange(prod(shape)).reshape(shape)
    for node in reversed(chain):
        numbers = None if numbers is None else _moved(node, numbers)
    if numbers is None or not numbers.size:
        return None
    flat, pixels = numbers.reshape(-1), prod(shape[:2])
    first, count = int(flat[0]), flat.size // pixels
    if flat.size % pixels or first + count > shape[2]:
        return None
    part = np.arange(prod(shape)).reshape(shape)[:, :, first : first + count]
    return range(first, first + count) if np.array_equal(part.reshape(-1), flat) else None


def _moved(node: ir.Node, array: Array) -> Array | None:
    """What a move makes of an array; None: it is none that is known."""
    shape = shape_of(node.outputs[0])
    if shape is None:
        return None
    if is_kind(node, "Transpose"):
        return array.transpose(integers(node, "perm", range(array.ndim)[::-1]))
    if is_kind(node, "Gather"):
        places = array_of(input_of(node, 1))
        return None if places is None else np.take(array, places, integer(node, "axis", 0))
    if is_kind(node, "Slice"):
        return _sliced(node, array)
    return array.reshape(shape) if prod(shape) == array.size else None


def _sliced(node: ir.Node, array: Array) -> Array | None:
    bounds = [array_of(input_of(node, index)) for index in range(1, 5)]
    if bounds[0] is None or bounds[1] is None:
        return None
    starts, ends = bounds[0].reshape(-1), bounds[1].reshape(-1)
    axes = range(len(starts)) if bounds[2] is None else bounds[2].reshape(-1)
    steps = [1] * len(starts) if bounds[3] is None else bounds[3].reshape(-1)
    places = [slice(None)] * array.ndim
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        places[int(axis)] = slice(int(start), int(end), int(step))
    return array[tuple(places)]
