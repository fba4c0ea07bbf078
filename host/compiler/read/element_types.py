# SPDX-License-Identifier: Apache-2.0
"""Types of elements: numbers of 4 bits are read as those of 8, and what nothing takes is refused.

Every number of 4 bits is one of 8, and shifts and permutations of constants do not depend on the
width. Only what is made with 4 bits when the model runs would differ, and is refused.

Models in half precision as models in single precision, inputs and outputs too.

Every number of float16 and bfloat16 is one of float32. int8 does not depend on what it is made of.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.whole_operators import bodies_of
from tilewright.host.network.onnx_file import short

_HALVES: Final = (TensorProto.FLOAT16, TensorProto.BFLOAT16)


def widen_floats(model: onnx.ModelProto) -> None:
    """Change a model in place; one without half precision stays as it is."""
    for graph in (model.graph, *bodies_of(model.graph)):
        _widen_graph(graph)


def _widen_graph(graph: onnx.GraphProto) -> None:
    for tensor in graph.initializer:
        _widen(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                _widen(attribute.t)
            elif node.op_type == "Cast" and attribute.name == "to" and attribute.i in _HALVES:
                attribute.i = TensorProto.FLOAT
    for value in (*graph.input, *graph.output):
        if value.type.tensor_type.elem_type in _HALVES:
            value.type.tensor_type.elem_type = TensorProto.FLOAT


def _widen(tensor: onnx.TensorProto) -> None:
    if tensor.data_type in _HALVES:
        wide = numpy_helper.to_array(tensor).astype(np.float32)
        tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))


_WIDER: Final[Mapping[int, type[np.int8] | type[np.uint8]]] = {
    TensorProto.INT4: np.int8,
    TensorProto.UINT4: np.uint8,
    TensorProto.INT2: np.int8,
    TensorProto.UINT2: np.uint8,
}
_TAKEN: Final = frozenset(
    {TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE,
     TensorProto.BOOL, TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64,
     TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64}
)  # fmt: skip
_STATED: Final = ("to", "output_dtype")
"""Attributes that state the type of a result."""


def widen_integers(model: onnx.ModelProto, path: Path) -> None:
    """Change constants of less than 8 bits to 8, in place."""
    graph = model.graph
    for value in (*graph.input, *graph.output):
        kind = value.type.tensor_type.elem_type
        if value.type.WhichOneof("value") == "tensor_type" and kind and kind not in _TAKEN:
            raise _refusal(path, value.name, kind)
    narrow: set[str] = set()
    graphs = (graph, *bodies_of(graph))
    for name, tensor in (each for one in graphs for each in _constants(one)):
        if tensor.data_type in _WIDER:
            wide = numpy_helper.to_array(tensor).astype(_WIDER[tensor.data_type])
            tensor.CopyFrom(numpy_helper.from_array(wide, tensor.name))
            narrow.add(name)
        elif tensor.data_type not in _TAKEN:
            raise _refusal(path, name, tensor.data_type)
    for node in (each for one in graphs for each in one.node):
        _check_result(node, path, narrow)
    if narrow:
        known = [v for v in graph.value_info if v.type.tensor_type.elem_type not in _WIDER]
        del graph.value_info[:]
        graph.value_info.extend(known)


def _constants(graph: onnx.GraphProto) -> Iterator[tuple[str, TensorProto]]:
    for tensor in graph.initializer:
        yield tensor.name, tensor
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("t"):
                yield next(iter(node.output), ""), attribute.t


def _check_result(node: onnx.NodeProto, path: Path, narrow: set[str]) -> None:
    """Refuse what makes numbers of other types; of constants it is told which stay narrow."""
    for attribute in node.attribute:
        if attribute.name in _STATED and attribute.i and attribute.i not in _TAKEN:
            raise _refusal(path, next(iter(node.output), ""), attribute.i)
    if not narrow & set(node.input) or node.op_type in ("DequantizeLinear", "Cast"):
        return
    if node.op_type in ("QuantizeLinear", "CastLike"):
        raise WorkloadError(
            "activations must have 8 bits: only constants may have 4",
            field=f"{path}: {short(node.op_type)} {short(node.name)}",
            remedy="quantise activations to int8 or uint8, and weights alone to 4 bits",
        )
    narrow.update(node.output)


def _refusal(path: Path, name: str, kind: int) -> WorkloadError:
    if kind == TensorProto.STRING:
        return WorkloadError(
            "must be a tensor of numbers",
            field=f"{path}: {short(name)}",
            value="string",
            remedy="turn text into numbers before the model",
        )
    return WorkloadError(
        "must be of floats, of integers of 8 to 64 bits or, as a constant, of 4 bits, or Boolean",
        field=f"{path}: {short(name)}",
        value=TensorProto.DataType.Name(kind).lower(),
        remedy="export the model with int8 or float32 in its place",
    )
