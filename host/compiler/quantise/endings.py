# SPDX-License-Identifier: Apache-2.0
"""The end of a network: behind its last layers, what the CPU computes anyway stays in float.

Detectors end in arithmetic on few numbers, such as boxes from distances, and join what no scale
fits. Rounding between two operators of the CPU costs accuracy and saves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

import onnx_ir as ir

from tilewright.host.compiler.read.edit import array_of, is_kind, number
from tilewright.host.network.operators import MOVES

_JOINS: Final = ("Add", "Concat")
_SCORES: Final = ("HardSigmoid", "Sigmoid")
_SATURATED: Final = 8.0
"""Beyond it a sigmoid is within 0.0004 of 0 or 1."""


class Ending:
    """The operators of a graph behind which there is no layer."""

    def __init__(self, graph: ir.Graph, is_layer: Callable[[ir.Node], bool]) -> None:
        self._graph = graph
        before: set[ir.Node] = set()
        for node in reversed(graph):
            if any(use in before or is_layer(use) for use in _readers(node)):
                before.add(node)
        self._before = before

    def is_before_layers(self, node: ir.Node) -> bool:
        """Whether there is a layer behind an operator."""
        return node in self._before

    def joins_floats(self, node: ir.Node, int8: Collection[ir.Value]) -> bool:
        """Whether an operator at the end joins something that the CPU computes in float."""
        if node in self._before or not is_kind(node, *_JOINS):
            return False
        computed = [value for value in node.inputs if value is not None and _is_computed(value)]
        return any(value not in int8 for value in computed)

    def score_ranges(self) -> dict[str, tuple[float, float]]:
        """Ranges of what a sigmoid at the end reads and makes, moved and joined too, by name.

        Rare large scores are the answers, and calibration data need not hold one of each kind: the
        ranges are those of the function, not what occurs. What something else reads, too, keeps
        what occurs: a logit that leaves the network, or the other factor of SiLU.
        """
        found: dict[str, tuple[float, float]] = {}
        made: set[ir.Value] = set()
        for node in self._graph:
            if node in self._before or not node.inputs:
                continue
            data, result = node.inputs[0], node.outputs[0]
            if is_kind(node, *_SCORES):
                if data is not None and _is_score(data):
                    low, high = found.get(data.name or "", (0.0, 0.0))
                    least, most = _unsaturated(node)
                    found[data.name or ""] = (min(low, least), max(high, most))
            elif not is_kind(node, *MOVES, "Concat") or not _are_all(node, made):
                continue
            found[result.name or ""] = (0.0, 1.0)
            made.add(result)
        return found

    def left_to_cpu(self, taken: Collection[str], functions: Collection[str]) -> set[str]:
        """Names of operators at the end that only the CPU reads: moves, sums with a constant."""
        used: set[ir.Node] = set()
        left: set[str] = set()
        for node in reversed(self._graph):
            is_read = any(reader in used for reader in _readers(node))
            if node.name in functions:
                if is_read:
                    used.add(node)
            elif node.name in taken and self._is_idle(node, functions) and not is_read:
                left.add(node.name or "")
            elif node.name in taken:
                used.add(node)
        return left

    def _is_idle(self, node: ir.Node, functions: Collection[str]) -> bool:
        """Whether an operator at the end is worth nothing without a reader on the accelerator."""
        if node in self._before or any(value.is_graph_output() for value in node.outputs):
            return False
        source: ir.Node | None = node
        while is_kind(source, *MOVES):
            value = source.inputs[0]
            source = None if value is None else value.producer()
        if source is not node:
            return source is None or source.name not in functions
        return is_kind(node, "Add") and any(array_of(value) is not None for value in node.inputs)


def _readers(node: ir.Node) -> list[ir.Node]:
    return [use.node for value in node.outputs for use in value.uses()]


def _is_computed(value: ir.Value) -> bool:
    return not value.is_graph_input() and array_of(value) is None


def _is_score(value: ir.Value) -> bool:
    """Whether nothing but sigmoids reads a value."""
    return not value.is_graph_output() and all(is_kind(u.node, *_SCORES) for u in value.uses())


def _unsaturated(node: ir.Node) -> tuple[float, float]:
    """Between which data a sigmoid is more than 0 and less than 1, with 0 among them."""
    if node.op_type == "Sigmoid":
        return -_SATURATED, _SATURATED
    slope, middle = number(node, "alpha", 0.2), number(node, "beta", 0.5)
    ends = (-middle / slope, (1 - middle) / slope) if slope else (0.0, 0.0)
    return min(*ends, 0.0), max(*ends, 0.0)


def _are_all(node: ir.Node, values: Collection[ir.Value]) -> bool:
    """Whether a move or a join reads these values alone, constants apart."""
    read = [value for value in node.inputs if value is not None and array_of(value) is None]
    return bool(read) and all(value in values for value in read)
