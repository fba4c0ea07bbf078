# SPDX-License-Identifier: Apache-2.0
"""The reference result of a region: its layers evaluated by definition (`host.network.golden`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.layer_graph import ChannelSlice, Layer, LayerGraph
from tilewright.host.lowering.gathers import Pixels
from tilewright.host.lowering.row_layers import compute_rows
from tilewright.host.network.golden import LayerTensors, conv2d_int8

Int8Array = npt.NDArray[np.int8]


def evaluate(graph: LayerGraph, inputs: Mapping[str, Int8Array]) -> dict[str, Int8Array]:
    """All tensors of a region, int8 NCHW by name.

    Args:
        graph: the region.
        inputs: one array an input tensor, of its shape.
    """
    values = dict(graph.constants)
    for name in graph.inputs:
        shape = graph.tensors[name].shape
        array = inputs.get(name)
        if array is None or array.dtype != np.int8 or array.shape != shape:
            raise WorkloadError(
                f"must be int8 of shape {shape}",
                field=f"{graph.name}.{name}",
                value=None if array is None else f"{array.dtype} of shape {array.shape}",
                remedy="quantise it with the scale of the input",
            )
        values[name] = array
    _update_aliases(graph, None, values)
    for layer in graph.layers:
        result = _compute(layer, values)
        whole = values.setdefault(
            layer.output.tensor,
            np.zeros(graph.tensors[layer.output.tensor].shape, dtype=np.int8),
        )
        first = layer.output.channel
        part = whole[:, first : first + result.shape[1]]
        if layer.spread is not None:
            part = layer.spread.pixels(part, *result.shape[2:])
        part[...] = result
        _update_aliases(graph, layer.output.tensor, values)
    _update_aliases(graph, None, values)
    for name, rows in graph.rows.items():
        values[name] = np.ascontiguousarray(values[name][:, :, :rows])
    for name, at in graph.lies.items():
        if at.tensor in values:
            values[name] = np.ascontiguousarray(values[at.tensor][:, list(at.channels)])
    return values


def _update_aliases(graph: LayerGraph, storage: str | None, values: dict[str, Int8Array]) -> None:
    for alias, source in graph.aliases.items():
        if source in values and (storage is None or graph.storage(alias) == storage):
            values[alias] = values[source].reshape(graph.tensors[alias].shape)


def _compute(layer: Layer, values: Mapping[str, Int8Array]) -> Int8Array:
    workload = layer.workload

    def part(operand: ChannelSlice, channels: int) -> Int8Array:
        array = values[operand.tensor]
        return np.ascontiguousarray(array[:, operand.channel : operand.channel + channels])

    if isinstance(layer.data, ChannelSlice):
        whole, first = part(layer.data, workload.channels_in), layer.data.pixel
        if layer.pixels is not None:
            return _taken(whole, layer.pixels, workload.output_shape)
        pixels = slice(first, first + workload.height * workload.width)
        data = _taken(whole, pixels, workload.input_shape)
    else:
        data = layer.data
    if layer.rows is not None:
        mask = None if layer.mask is None else part(layer.mask, workload.channels_in)
        return compute_rows(data, layer.rows, mask)
    weights = layer.weights
    if isinstance(weights, ChannelSlice):  # pixels are output channels, channels are the reduction
        depth, outputs = workload.channels_in, workload.channels_out
        if layer.weight_packing is None:
            tokens = part(weights, depth).reshape(depth, -1)[:, weights.pixel :]
        else:
            tokens = layer.weight_packing.unpacked(values[weights.tensor])
        weights = np.ascontiguousarray(tokens[:depth, :outputs].T)[:, :, None, None]
    if layer.pad_value:  # the golden model pads with 0
        pads = (
            (0, 0),
            (0, 0),
            (workload.pad_top, workload.pad_bottom),
            (workload.pad_left, workload.pad_right),
        )
        data = np.pad(data, pads, constant_values=layer.pad_value)
        workload = replace(
            workload,
            height=data.shape[2],
            width=data.shape[3],
            pad_top=0,
            pad_bottom=0,
            pad_left=0,
            pad_right=0,
        )
    residual = None if layer.residual is None else part(layer.residual, workload.channels_out)
    tensors = LayerTensors(
        data=data,
        weights=weights,
        requant=layer.requant,
        residual=residual,
        factor=None if layer.factor is None else part(layer.factor, workload.channels_out),
        factor_zero=layer.factor_zero,
    )
    return conv2d_int8(workload, tensors)


def _taken(data: Int8Array, pixels: Pixels | slice, shape: tuple[int, ...]) -> Int8Array:
    """Some pixels of a tensor, as one of another shape."""
    flat = data.reshape(*data.shape[:2], -1)
    return np.ascontiguousarray(flat[:, :, pixels].reshape(shape))
