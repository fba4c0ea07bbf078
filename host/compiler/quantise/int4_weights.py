# SPDX-License-Identifier: Apache-2.0
"""Weights of 4 bits: int8 numbers from -8 to 7, with scales of their own.

They stay int8 in the model, so that nothing behind quantisation differs. An accelerator with
``int4_weights`` keeps them packed where all weights of a layer fit (`host.compiler.lower.layers`).

Each output channel has one scale. Among clipped ranges it takes the one with the least square error
of the weights. Groups of input channels have no scales of their own: products of a whole reduction
are summed as integers, which one scale must fit.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from tilewright.host.compiler.read.import_options import Int4Layers
from tilewright.host.compiler.read.onnx_edit import (
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
)

Floats = npt.NDArray[np.float64]

_LOWEST: Final = -8
_HIGHEST: Final = 7
_SHARES: Final = np.linspace(0.4, 1.0, 31)
"""Of the largest weight that 7 may stand for."""

_KINDS: Final[dict[Int4Layers, tuple[str, ...]]] = {
    "none": (),
    "dense": ("Gemm", "MatMul"),
    "all": ("Gemm", "MatMul", "Conv"),
}


def to_int4(quantised: ir.Model, model: ir.Model, layers: Int4Layers) -> None:
    """Give layers of a quantised model weights of 4 bits, in place.

    Args:
        quantised: in QDQ, its nodes named as in the float model.
        model: the same in float.
        layers: which; convolutions in groups keep their weights.
    """
    originals = {node.name: node for node in model.graph}
    editor = Editor(quantised.graph)
    for node in list(quantised.graph):
        original = originals.get(node.name)
        if original is None or not is_kind(node, *_KINDS[layers]) or integer(node, "group", 1) > 1:
            continue
        source = node.inputs[1]
        reading = None if source is None else source.producer()
        weights = array_of(input_of(original, 1))
        if not is_kind(reading, "DequantizeLinear") or weights is None:
            continue
        stored, scale = (array_of(value) for value in reading.inputs[:2])
        if stored is None or scale is None or stored.shape != weights.shape:
            continue
        axis = integer(reading, "axis", 1) if scale.size > 1 else None
        numbers, scales = quantise_int4(weights.astype(np.float64), axis)
        reading.replace_input_with(0, editor.constant(f"{node.name}_int4", numbers))
        reading.replace_input_with(
            1, editor.constant(f"{node.name}_int4_scale", scales.reshape(scale.shape))
        )
    editor.drop_unused()


def quantise_int4(
    weights: Floats, axis: int | None
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Weights as multiples of scales.

    Args:
        weights: of any shape.
        axis: of the output channels, each with a scale; None: one scale for all.

    Returns:
        The numbers, int8 from -8 to 7 in the weights' shape; the scales, (channels,) or (1,).
    """
    rows = weights.reshape(1, -1)
    if axis is not None:
        rows = np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
    largest = np.abs(rows).max(axis=1)
    largest[largest == 0] = 1.0
    best, scales = np.full(largest.shape, np.inf), np.zeros(largest.shape, np.float32)
    for share in _SHARES:
        tried = (share * largest / _HIGHEST).astype(np.float32)
        error = ((_rounded(rows, tried) * tried[:, None] - rows) ** 2).sum(axis=1)
        better = error < best
        best[better], scales[better] = error[better], tried[better]
    numbers = _rounded(rows, scales).astype(np.int8)
    if axis is None:
        return numbers.reshape(weights.shape), scales
    moved = np.moveaxis(weights, axis, 0).shape
    return np.ascontiguousarray(np.moveaxis(numbers.reshape(moved), 0, axis)), scales


def _rounded(rows: Floats, scales: npt.NDArray[np.float32]) -> Floats:
    multiples: Floats = np.clip(np.rint(rows / scales[:, None]), _LOWEST, _HIGHEST)
    return multiples
