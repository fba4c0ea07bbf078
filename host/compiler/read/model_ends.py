# SPDX-License-Identifier: Apache-2.0
"""The inputs and outputs of an ONNX model; read without onnx_ir, which takes time to load."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import onnx
from onnx.numpy_helper import to_array

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.argument import Argument
from tilewright.host.network.onnx_file import short
from tilewright.host.network.operators import REARRANGEMENTS


def arguments_of(model: onnx.ModelProto) -> tuple[tuple[Argument, ...], tuple[Argument, ...]]:
    """The inputs and outputs of a model with known shapes."""
    constants = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in constants]
    scales = _scales_of(model)
    both = [
        tuple(_argument(value, scales.get(value.name)) for value in values)
        for values in (inputs, model.graph.output)
    ]
    return both[0], both[1]


def _argument(value: onnx.ValueInfoProto, scale: tuple[float, int] | None) -> Argument:
    tensor = value.type.tensor_type
    field_name = short(value.name)
    dims = tensor.shape.dim
    if not tensor.HasField("shape") or any(dim.WhichOneof("value") != "dim_value" for dim in dims):
        raise WorkloadError(
            "must have a shape that is known before it runs",
            field=field_name,
            remedy="export the model for fixed input shapes",
        )
    if any(dim.dim_value == 0 for dim in dims):
        raise WorkloadError(
            "must have elements",
            field=field_name,
            value=[dim.dim_value for dim in dims],
            remedy="export the model without this input or output",
        )
    try:
        dtype = str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    except KeyError as error:
        raise WorkloadError(
            "must be a tensor of numbers",
            field=field_name,
            value=tensor.elem_type,
            remedy="export the model without it",
        ) from error
    if dtype == "object":
        raise WorkloadError(
            "must be a tensor of numbers",
            field=field_name,
            value="string",
            remedy="turn text into numbers before the model",
        )
    argument = Argument(
        name=value.name, shape=tuple(int(dim.dim_value) for dim in dims), dtype=dtype
    )
    if scale is None or dtype != "int8":
        return argument
    return replace(argument, scale=scale[0], zero_point=scale[1])


def _scales_of(model: onnx.ModelProto) -> dict[str, tuple[float, int]]:
    """Scale and zero point of the int8 inputs and outputs of a model in canonical QDQ form."""
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    ends = {value.name for value in (*model.graph.input, *model.graph.output)}
    found: dict[str, tuple[float, int]] = {}
    same = _moved(model.graph.node)
    for node in model.graph.node:
        side = {"DequantizeLinear": node.input, "QuantizeLinear": node.output}.get(node.op_type)
        stated = node.input[1:3]
        if side is None or len(stated) < 2 or any(name not in constants for name in stated):
            continue
        scale, zero_point = (to_array(constants[name]) for name in stated)
        for name in same.get(side[0], {side[0]}) & ends:
            if scale.size == 1:
                found[name] = float(scale.reshape(())), int(zero_point.reshape(()))
    return found


def _moved(nodes: Sequence[onnx.NodeProto]) -> dict[str, set[str]]:
    """Names that hold the same elements, by each of them."""
    same: dict[str, set[str]] = {}
    for node in nodes:
        if node.op_type in REARRANGEMENTS:
            first, last = node.input[0], node.output[0]
            joined = same.get(first, {first}) | same.get(last, {last})
            for name in joined:
                same[name] = joined
    return same
