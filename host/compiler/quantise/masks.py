# SPDX-License-Identifier: Apache-2.0
"""Masks that softmax adds at run time, as int8 rows.

A mask has the zero point 0, and a scale with which -128 makes a probability 0 (`mask_scale`). All
layers that a mask serves share the greatest scale that one of them needs: it is rounded once.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import prod

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.argument import Argument
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.edit import Array, Editor, array_of, input_of, is_kind
from tilewright.host.compiler.rewrite.masks import MASKED
from tilewright.host.network.row_functions import mask_scale


def mask_inputs(calibration: Calibration, inputs: Sequence[Argument]) -> frozenset[str]:
    """Names of float inputs that calibration data show as masks: 0, or far below some tokens."""
    rows = {
        each.name
        for each in inputs
        if each.dtype.startswith("float") and prod(each.shape[:-1]) == 1 < prod(each.shape)
    }
    if not rows or len(inputs) == 1 or calibration.random_samples is not None:
        return frozenset()
    masking: set[str] = set()
    for batch in calibration.batches(inputs):
        below = {name: batch[name] <= MASKED for name in rows}
        rows = {name for name in rows if (below[name] | (batch[name] == 0)).all()}
        masking |= {name for name in rows if below[name].any()}
    return frozenset(rows & masking)


def round_masks(editor: Editor, additions: Collection[str]) -> None:
    """Quantise the masks of a quantised graph, in place.

    Args:
        editor: of the graph.
        additions: names of the operators that add a mask to scores, their second input to the
            first. Where the scores are not int8, nothing is done.
    """
    places: dict[ir.Value, list[tuple[ir.Node, float]]] = {}
    for node in editor.graph:
        mask = input_of(node, 1)
        if node.name not in additions or mask is None:
            continue
        scale = _needed_scale(node.inputs[0])
        if scale is not None:
            places.setdefault(mask, []).append((node, scale))
    for mask, found in places.items():
        stem = f"{mask.name}_rounded"
        numbers = [
            editor.constant(f"{stem}_scale", np.array(max(s for _, s in found), np.float32)),
            editor.constant(f"{stem}_zero_point", np.array(0, np.int8)),
        ]
        steps = editor.before(
            found[0][0],
            "QuantizeLinear",
            [mask, *numbers],
            stem=stem,
            like=mask,
            dtype=ir.DataType.INT8,
        )
        for node, _ in found:
            real = editor.before(
                node, "DequantizeLinear", [steps, *numbers], stem=f"{stem}_real", like=mask
            )
            node.replace_input_with(1, real)


def _needed_scale(scores: ir.Value | None) -> float | None:
    """The least scale of a mask for scores that are int8, maybe plus a constant."""
    node, spread = None if scores is None else scores.producer(), 0.0
    if is_kind(node, "Add"):
        for data, other in (node.inputs[:2], node.inputs[1::-1]):
            constant = array_of(other)
            if constant is not None and data is not None:
                spread, node = _spread(constant), data.producer()
                break
    scale = array_of(input_of(node, 1)) if is_kind(node, "DequantizeLinear") else None
    if scale is None or scale.size != 1:
        return None
    return mask_scale(float(scale.reshape(())), spread)


def _spread(constant: Array) -> float:
    """The greatest difference of the numbers of a constant that are no masks."""
    numbers = constant[constant > MASKED]
    return float(numbers.max() - numbers.min()) if numbers.size else 0.0
