# SPDX-License-Identifier: Apache-2.0
"""What a part that ONNX Runtime computes may be in a `.tw` file, which anybody may have written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper

from tilewright.host.compiler.divide.relax_onnx import TensorKind
from tilewright.host.network.onnx_file import DEFAULT_DOMAINS, is_external, messages_of

MAX_NODES: Final = 20_000
_MAX_DEPTH: Final = 8
"""Of bodies in bodies."""


def check_part(content: bytes, inputs: Sequence[TensorKind], outputs: Sequence[TensorKind]) -> None:
    """Refuse a model that is not of standard operators, or reads files, or has other ends."""
    model = onnx.ModelProto.FromString(content)
    if model.functions or not 1 <= model.ir_version <= onnx.IR_VERSION:
        raise ValueError("a part must be one graph of a known version of ONNX")
    newest = onnx.defs.onnx_opset_version()
    for entry in model.opset_import:
        if entry.domain not in DEFAULT_DOMAINS or not 1 <= entry.version <= newest:
            raise ValueError("a part must have operators of standard ONNX")
    count = 0
    for message in messages_of(model):
        if isinstance(message, onnx.SparseTensorProto):
            raise ValueError("a part must have dense constants")
        if isinstance(message, onnx.TensorProto) and is_external(message):
            raise ValueError("a part must have its constants inside")
    for graph in _graphs(model.graph, 0):
        count += len(graph.node)
        if count > MAX_NODES:
            raise ValueError(f"a part must have at most {MAX_NODES} nodes")
        _check_graph(graph)
    onnx.checker.check_model(model)
    constants = {tensor.name for tensor in model.graph.initializer}
    taken = [value for value in model.graph.input if value.name not in constants]
    _require_ends(taken, inputs, "inputs")
    _require_ends(model.graph.output, outputs, "results")


def _graphs(graph: onnx.GraphProto, depth: int) -> Iterator[onnx.GraphProto]:
    if depth > _MAX_DEPTH:
        raise ValueError(f"a part must have bodies at most {_MAX_DEPTH} deep")
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for body in (*((attribute.g,) if attribute.HasField("g") else ()), *attribute.graphs):
                yield from _graphs(body, depth + 1)


def _check_graph(graph: onnx.GraphProto) -> None:
    for node in graph.node:
        if node.domain not in DEFAULT_DOMAINS:
            raise ValueError("a part must have operators of standard ONNX")


def _require_ends(values: Sequence[Any], kinds: Sequence[TensorKind], what: str) -> None:
    found = [
        (tuple(d.dim_value for d in v.type.tensor_type.shape.dim), v.type.tensor_type.elem_type)
        for v in values
    ]
    wanted = [(kind.shape, helper.np_dtype_to_tensor_dtype(np.dtype(kind.dtype))) for kind in kinds]
    if found != wanted:
        raise ValueError(f"a part has other {what} than its call")
