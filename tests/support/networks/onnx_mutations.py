# SPDX-License-Identifier: Apache-2.0
"""Damage for ONNX models: in their bytes, and in their nodes, attributes, shapes and types."""

from collections.abc import Callable

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto

STRANGE_INTEGERS = (-(2**63), -(2**31), -7, -1, 0, 1, 2, 3, 5, 64, 2**16, 2**31, 2**40, 2**63 - 1)
STRANGE_FLOATS = (float("nan"), float("inf"), -float("inf"), 0.0, -1.0, 1e-45, 3e38)


def mutated(model: onnx.ModelProto, rng: np.random.Generator) -> bytes:
    """The bytes of a model with one to three defects."""
    damaged = onnx.ModelProto()
    damaged.CopyFrom(model)
    for _ in range(rng.integers(1, 4)):
        STRUCTURAL[rng.integers(len(STRUCTURAL))](damaged, rng)
    data = bytearray(damaged.SerializeToString())
    if rng.random() < 0.3:
        _scramble(data, rng)
    return bytes(data)


def _scramble(data: bytearray, rng: np.random.Generator) -> None:
    kind = rng.integers(3)
    for _ in range(rng.integers(1, 8)):
        position = int(rng.integers(len(data)))
        if kind == 0:
            data[position] = int(rng.integers(256))
        elif kind == 1:
            del data[position : position + int(rng.integers(1, 16))]
        else:
            data[position:position] = rng.bytes(int(rng.integers(1, 16)))


def _node(model: onnx.ModelProto, rng: np.random.Generator) -> onnx.NodeProto:
    return model.graph.node[rng.integers(len(model.graph.node))]


def _change_attribute(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = _node(model, rng)
    if not node.attribute:
        return
    attribute = node.attribute[rng.integers(len(node.attribute))]
    if attribute.type == AttributeProto.INT:
        attribute.i = int(rng.choice(STRANGE_INTEGERS))
    elif attribute.type == AttributeProto.INTS and attribute.ints:
        what = rng.integers(3)
        if what == 0:
            attribute.ints[rng.integers(len(attribute.ints))] = int(rng.choice(STRANGE_INTEGERS))
        elif what == 1:
            del attribute.ints[0]
        else:
            attribute.ints.append(int(rng.choice(STRANGE_INTEGERS)))
    elif attribute.type == AttributeProto.FLOAT:
        attribute.f = float(rng.choice(STRANGE_FLOATS))
    else:
        attribute.type = int(rng.integers(12))


def _drop_attribute(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    node = _node(model, rng)
    if node.attribute:
        del node.attribute[rng.integers(len(node.attribute))]


def _change_operator(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    kinds = (
        "Abs", "Add", "AveragePool", "Cast", "Concat", "Conv", "ConvTranspose", "Flatten",
        "Gather", "Gemm", "Loop", "MatMul", "MaxPool", "Mul", "NoSuchOperator", "Relu", "Reshape",
        "Resize", "Shape", "Softmax", "Split", "Transpose",
    )  # fmt: skip
    _node(model, rng).op_type = str(rng.choice(kinds))


def _change_edge(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    """Cycles, forward references, missing and duplicate names among them."""
    node = _node(model, rng)
    names = [n for other in model.graph.node for n in (*other.input, *other.output)] + ["", "?"]
    fields = node.input if rng.random() < 0.7 else node.output
    if fields:
        fields[rng.integers(len(fields))] = str(rng.choice(names))


def _drop_node(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    if len(model.graph.node) > 1:
        del model.graph.node[rng.integers(len(model.graph.node))]


def _swap_nodes(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    a, b = rng.integers(len(model.graph.node), size=2)
    first = onnx.NodeProto()
    first.CopyFrom(model.graph.node[a])
    model.graph.node[a].CopyFrom(model.graph.node[b])
    model.graph.node[b].CopyFrom(first)


def _change_tensor(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    if not model.graph.initializer:
        return
    tensor = model.graph.initializer[rng.integers(len(model.graph.initializer))]
    what = rng.integers(5)
    if what == 0 and tensor.dims:
        tensor.dims[rng.integers(len(tensor.dims))] = int(rng.choice(STRANGE_INTEGERS))
    elif what == 1:
        tensor.data_type = int(rng.integers(24))
    elif what == 2:
        tensor.raw_data = tensor.raw_data[: len(tensor.raw_data) // 2]
    elif what == 3 and tensor.data_type == TensorProto.FLOAT and len(tensor.raw_data) >= 4:
        whole = len(tensor.raw_data) // 4 * 4  # another damage may have cut it
        values = np.frombuffer(tensor.raw_data[:whole], np.float32).copy()
        values[rng.integers(values.size)] = rng.choice(STRANGE_FLOATS)
        tensor.raw_data = values.tobytes()
    else:
        tensor.dims.append(int(rng.integers(4)))


def _change_input(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    values = [*model.graph.input, *model.graph.output]
    kind = values[rng.integers(len(values))].type.tensor_type
    dims = kind.shape.dim
    what = rng.integers(4)
    if what == 0 and dims:
        dims[rng.integers(len(dims))].dim_value = int(rng.choice(STRANGE_INTEGERS))
    elif what == 1 and dims:
        dims[rng.integers(len(dims))].dim_param = "n"
    elif what == 2:
        kind.elem_type = int(rng.integers(24))
    elif dims:
        del dims[0]


def _change_opset(model: onnx.ModelProto, rng: np.random.Generator) -> None:
    model.opset_import[0].version = int(rng.choice((0, 1, 6, 9, 11, 12, 13, 17, 18, 21, 99)))


STRUCTURAL: tuple[Callable[[onnx.ModelProto, np.random.Generator], None], ...] = (
    _change_attribute,
    _change_attribute,
    _change_edge,
    _change_edge,
    _change_input,
    _change_operator,
    _change_opset,
    _change_tensor,
    _drop_attribute,
    _drop_node,
    _swap_nodes,
)
