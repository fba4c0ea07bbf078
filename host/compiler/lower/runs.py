# SPDX-License-Identifier: Apache-2.0
"""Runs: layers of windows and heads, which need not wait for each other.

A run is products, or copies, that are the same workload with the same parameters, or softmax of as
many rows; they follow each other, and none reads what another one writes. No fence parts them
(`host.lowering.emit.LayersBefore`, `host.lowering.row_emit`), so that the accelerator loads one
while it computes another.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

import numpy as np

from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer, LayerGraph
from tilewright.host.network.row_functions import addend_planes
from tilewright.host.network.workload import Kind


@dataclass
class _Run:
    """Layers of a run, and tensors that they read and write."""

    kind: Hashable
    layers: list[Layer] = field(default_factory=list)
    reads: set[str] = field(default_factory=set)
    writes: set[str] = field(default_factory=set)

    def add(self, layer: Layer, reads: set[str], writes: str) -> None:
        """A layer at the end."""
        self.layers.append(layer)
        self.reads |= reads
        self.writes.add(writes)

    def takes(self, kind: Hashable, reads: set[str], writes: str) -> bool:
        """Whether a layer may be one of the run."""
        apart = not self.writes & reads and writes not in self.reads
        return kind is not None and kind == self.kind and apart


def runs_of(graph: LayerGraph) -> list[list[Layer]]:
    """The layers of a region in runs, in an order in which every input is complete.

    A layer joins the last run of its kind behind which nothing writes what it reads: products of
    all heads are one run, although each head has other layers between them.
    """
    found: list[_Run] = []
    written: dict[str, int] = {}  # by tensor, the run that writes it last
    open_runs: dict[Hashable, int] = {}
    for layer in graph.layers:
        reads = {graph.storage(name) for name in layer.reads()}
        writes, kind = graph.storage(layer.output.tensor), _kind(layer)
        at = open_runs.get(kind, -1) if kind is not None else -1
        ready = max((written.get(name, -1) for name in reads), default=-1)
        if at < 0 or ready >= at or not found[at].takes(kind, reads, writes):
            at = len(found)
            found.append(_Run(kind))
            open_runs[kind] = at
        found[at].add(layer, reads, writes)
        written[writes] = max(written.get(writes, -1), at)
    return [run.layers for run in found]


def _kind(layer: Layer) -> Hashable:
    """What layers of a run have in common; None: the layer is of another kind."""
    if layer.rows is not None:
        return layer.workload.key, layer.mask is not None, *addend_planes(layer.rows)
    constant = None
    if not isinstance(layer.weights, ChannelSlice):
        if layer.weights is None or layer.workload.kind is not Kind.DEPTHWISE:
            return None
        constant = layer.weights.tobytes()
    if layer.residual is not None:
        return None
    requant = layer.requant
    arrays = (requant.bias, requant.m1, requant.m2, requant.shift, requant.zero_point)
    table = None if requant.table is None else requant.table.tobytes()
    return (
        layer.workload.key,
        constant,
        layer.weight_packing,
        layer.pad_value,
        (requant.clip_min, requant.clip_max, table),
        tuple(np.ascontiguousarray(array).tobytes() for array in arrays),
    )
