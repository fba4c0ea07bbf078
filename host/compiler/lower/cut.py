# SPDX-License-Identifier: Apache-2.0
"""Cuts a region into parts that run one after another, such as the stages of a pipeline."""

from __future__ import annotations

from collections.abc import Sequence

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.qgraph import QGraph


def crossing(graph: QGraph, place: int) -> tuple[str, ...]:
    """Tensors that are there before operator ``place`` and are read from it on.

    The region's inputs and outputs count: a later part may read the input, and an output that an
    early part writes is handed on to the end.
    """
    before = {*graph.inputs, *(operator.output for operator in graph.operators[:place])}
    needed = {name for operator in graph.operators[place:] for name in operator.inputs}
    needed.update(graph.outputs)
    return tuple(name for name in graph.tensors if name in before and name in needed)


def cut(graph: QGraph, places: Sequence[int]) -> list[QGraph]:
    """The parts of a region between some places."""
    ends = [*places, len(graph.operators)]
    starts = [0, *places]
    if any(end <= start for start, end in zip(starts, ends, strict=True)):
        raise WorkloadError(
            "must be ascending and leave no part empty",
            field=graph.name,
            value=list(places),
            remedy=f"choose places from 1 to {len(graph.operators) - 1}",
        )
    parts = []
    for number, (start, end) in enumerate(zip(starts, ends, strict=True)):
        operators = graph.operators[start:end]
        inputs = crossing(graph, start) if number else graph.inputs
        outputs = crossing(graph, end) if number < len(places) else graph.outputs
        written = {operator.output for operator in operators}
        mine = tuple(name for name in outputs if name in written)
        read = {name for operator in operators for name in operator.inputs}
        used = {*read, *written}
        parts.append(
            QGraph(
                name=f"{graph.name}/{number}",
                tensors={name: t for name, t in graph.tensors.items() if name in used},
                operators=operators,
                inputs=tuple(name for name in inputs if name in read),
                outputs=mine,
                keep_rounding=graph.keep_rounding,
                saturates=graph.saturates,
                model_shapes={n: s for n, s in graph.model_shapes.items() if n in used},
                constants={n: v for n, v in graph.constants.items() if n in used},
            )
        )
    return parts
