# SPDX-License-Identifier: Apache-2.0
"""An ONNX file as a graph whose tensors have shapes, without its weights.

Files are untrusted (`host.network.onnx_file`). Weights are dropped before inference, external data
is never read, model-local functions are not expanded, and constant propagation is bounded: time
and memory stay linear in the file's size.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any, Final

import onnx
from onnx import shape_inference

from tilewright.host.common.errors import WorkloadError
from tilewright.host.network import onnx_file
from tilewright.host.network.operators import LAYERS

SMALL_TENSOR_ELEMENTS: Final = 1024
"""Constants up to this size keep their values: shapes, axes, clip bounds."""

_MAX_PROPAGATED_ELEMENTS: Final = 2**16
"""Shape inference propagates constants only if none of them can grow beyond this."""

_PAYLOADS: Final = (
    "raw_data",
    "float_data",
    "double_data",
    "int32_data",
    "int64_data",
    "uint64_data",
    "string_data",
    "external_data",
    "data_location",
)


def read_graph(path: Path) -> Any:
    """The top-level graph (GraphProto) with inferred shapes.

    Constants of more than `SMALL_TENSOR_ELEMENTS` elements have lost their values. A dynamic
    first dimension of a graph input is 1.
    """
    model = onnx_file.parse_model(path)
    onnx_file.require_nodes(model, path)
    del model.functions[:]  # calls are listed as CPU operators; expansion could explode
    try:
        _check_external_data(path, model)
        _drop_weights(model.graph)
        _fix_batch(path, model.graph)
        return _infer(model).graph
    except WorkloadError:
        raise
    except Exception as error:  # the C++ library raises kinds of its own
        raise onnx_file.malformed(path, error) from error


def _constants(graph: Any) -> Iterator[Any]:
    """Every TensorProto that the top-level graph holds as a constant."""
    yield from graph.initializer
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield attribute.t


def _check_external_data(path: Path, model: Any) -> None:
    for tensor in onnx_file.tensors_of(model):
        if onnx_file.is_external(tensor):
            onnx_file.require_external_file(tensor, path, links=True)


def _drop_weights(graph: Any) -> None:
    """Remove the payload of large constants: only their shapes matter here."""
    for tensor in _constants(graph):
        external = tensor.data_location == onnx.TensorProto.EXTERNAL
        if external or prod(tensor.dims) > SMALL_TENSOR_ELEMENTS:
            for payload in _PAYLOADS:
                tensor.ClearField(payload)


def _fix_batch(path: Path, graph: Any) -> None:
    """Set a dynamic first dimension of every input to 1, and where its symbol leads others."""
    initializers = {tensor.name for tensor in graph.initializer}
    symbols: set[str] = set()
    for value in graph.input:
        dims = value.type.tensor_type.shape.dim
        if value.name in initializers or not dims:
            continue
        first = dims[0]
        if first.WhichOneof("value") == "dim_value" and first.dim_value == 0:
            raise onnx_file.batch_of_zero(path, value.name)
        if first.WhichOneof("value") != "dim_value" or first.dim_value < 1:
            if first.WhichOneof("value") == "dim_param":
                symbols.add(first.dim_param)
            first.dim_value = 1
    for value in (*graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if dims and dims[0].WhichOneof("value") == "dim_param" and dims[0].dim_param in symbols:
            dims[0].dim_value = 1


def _propagation_bound(graph: Any) -> int:
    """Most elements that constant propagation of shape inference can hold in one tensor.

    Only Concat makes a propagated tensor longer than its inputs; chained, it doubles.
    """
    sizes = {tensor.name: prod(tensor.dims) for tensor in graph.initializer}
    bound = {name: n if n <= SMALL_TENSOR_ELEMENTS else 0 for name, n in sizes.items()}
    for node in graph.node:
        inputs = [bound.get(name, SMALL_TENSOR_ELEMENTS) for name in node.input]
        grown = sum(inputs) if node.op_type == "Concat" else max(inputs, default=0)
        # Shape and Constant start over; other operators with a bounded result are not worth a case
        fresh = node.op_type in ("Shape", "Size", "Constant", *LAYERS)
        for name in node.output:
            bound[name] = SMALL_TENSOR_ELEMENTS if fresh else grown
    return max(bound.values(), default=0)


def _infer(model: Any) -> Any:
    inferred = shape_inference.infer_shapes(model)
    if _propagation_bound(inferred.graph) <= _MAX_PROPAGATED_ELEMENTS:
        inferred = shape_inference.infer_shapes(inferred, data_prop=True)
    return inferred
