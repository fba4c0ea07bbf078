# SPDX-License-Identifier: Apache-2.0
"""Tensors are written with room for whole weight tiles, where a copy would only make that room."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer, LayerGraph
from tilewright.host.network.layout import Spread


def write_with_room(graph: LayerGraph, copies: Collection[str]) -> LayerGraph:
    """The layers of a region without copies whose source can have the copy's rows.

    That is a tensor inside the region that GEMM alone writes, and reads, or loads as weights. What
    GEMM reads of it are the rows that are written.
    """
    makers = {layer.output.tensor: layer for layer in graph.layers if layer.output.tensor in copies}
    sources: dict[str, ChannelSlice] = {}
    rows: dict[str, Spread] = {}
    for name, layer in makers.items():
        if layer.spread is None or not isinstance(layer.data, ChannelSlice):
            continue
        if _can_have_room(graph, layer.data.tensor):
            source = sources[name] = layer.data
            known = rows.get(source.tensor, layer.spread)
            rows[source.tensor] = max(known, layer.spread, key=lambda spread: spread.height)
    tensors = dict(graph.tensors)
    for name, spread in rows.items():
        n, channels, _, width = tensors[name].shape
        tensors[name] = replace(tensors[name], shape=(n, channels, spread.height, width))
    return replace(
        graph,
        tensors={name: tensor for name, tensor in tensors.items() if name not in sources},
        layers=tuple(
            _rewired(layer, sources, rows)
            for layer in graph.layers
            if layer.output.tensor not in sources
        ),
        rows={name: graph.tensors[name].shape[2] for name in rows},
    )


def _can_have_room(graph: LayerGraph, name: str) -> bool:
    fixed = {*graph.inputs, *graph.outputs, *graph.constants, *graph.aliases}
    fixed.update(graph.aliases.values())
    if name in fixed or graph.tensors[name].shape[3] != 1:
        return False
    for layer in graph.layers:
        others = (layer.residual, layer.factor, layer.mask)
        if any(part is not None and part.tensor == name for part in others):
            return False
        reads = isinstance(layer.data, ChannelSlice) and layer.data.tensor == name
        writes = layer.output.tensor == name
        if (reads or writes) and not layer.workload.kind.weighs:
            return False
        if writes and layer.spread is not None:
            return False
    return True


def _rewired(
    layer: Layer, sources: Mapping[str, ChannelSlice], rows: Mapping[str, Spread]
) -> Layer:
    """A layer that reads sources instead of copies, and leaves room where that is wanted."""
    weights = layer.weights
    if isinstance(weights, ChannelSlice) and weights.tensor in sources:
        source = sources[weights.tensor]
        part = replace(
            source, channel=source.channel + weights.channel, pixel=source.pixel + weights.pixel
        )
        layer = replace(layer, weights=part)
    if layer.output.tensor in rows:
        layer = replace(layer, spread=rows[layer.output.tensor])
    return layer
