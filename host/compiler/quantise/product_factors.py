# SPDX-License-Identifier: Apache-2.0
"""Which activations multiply each other: their zero point must be 0, also among asymmetric ones.

A zero point of a factor would add sums over its rows and columns to each element of a product. GEMM
has no place for sums that data decide.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import onnx_ir as ir

from tilewright.host.compiler.read.onnx_edit import array_of, is_kind

_MOVES: Final = (
    "Expand", "Flatten", "Gather", "Identity", "Reshape", "Slice", "Split", "Squeeze", "Transpose",
    "Unsqueeze",
)  # fmt: skip
"""Operators that give elements other places: data and result have one scale and zero point."""


def product_factors(graph: ir.Graph, nodes: Collection[str]) -> set[str]:
    """Names of activations that a product of two of them reads, and of what they come from."""
    found: set[str] = set()
    for node in graph:
        if not is_kind(node, "MatMul") or node.name not in nodes:
            continue
        if any(array_of(value) is not None for value in node.inputs):
            continue
        for value in node.inputs:
            moved = value
            while moved is not None and moved.name and moved.name not in found:
                found.add(moved.name)
                source = moved.producer()
                moved = source.inputs[0] if is_kind(source, *_MOVES) else None
    return found
