# SPDX-License-Identifier: Apache-2.0
"""Models in half precision as models in single precision, inputs and outputs too.

Every number of float16 and bfloat16 is one of float32. int8 does not depend on what it is made of.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from tilewright.host.compiler.read.onnx_whole import bodies_of

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
