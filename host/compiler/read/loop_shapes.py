# SPDX-License-Identifier: Apache-2.0
"""Shapes of what loops carry, which ONNX's inference leaves open.

The state of a loop may have another shape in each round. If its body gives a state the shape that
it takes, all rounds do: the results have the shapes of the first state.
"""

from __future__ import annotations

import onnx
from onnx import helper
from onnx.shape_inference import infer_shapes

from tilewright.host.compiler.read.whole_operators import read_by
from tilewright.host.network.onnx_file import DEFAULT_DOMAINS

_STATED = 2
"""Inputs of a body that are no state: the number of the round, and whether it takes place."""


def is_fixed(value: onnx.ValueInfoProto) -> bool:
    """Whether a value is a tensor of known sizes."""
    kind = value.type.tensor_type
    return (
        value.type.WhichOneof("value") == "tensor_type"
        and kind.HasField("shape")
        and all(dim.WhichOneof("value") == "dim_value" for dim in kind.shape.dim)
    )


def state_loop_shapes(model: onnx.ModelProto) -> bool:
    """Add shapes of loops' results to a model with inferred shapes; whether there were any."""
    loops = [
        node
        for node in model.graph.node
        if node.op_type == "Loop" and node.domain in DEFAULT_DOMAINS
    ]
    if not loops:
        return False
    graph = model.graph
    known = {
        tensor.name: helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
        for tensor in graph.initializer
    }
    known |= {v.name: v for v in (*graph.input, *graph.value_info, *graph.output) if is_fixed(v)}
    added = False
    for node in loops:
        for name, value in zip(node.output, _states(model, node, known), strict=False):
            if not name or name in known:
                continue
            stated = onnx.ValueInfoProto()
            stated.CopyFrom(value)
            stated.name = name
            _state(graph, stated)
            known[name] = stated
            added = True
    return added


def _states(
    model: onnx.ModelProto, node: onnx.NodeProto, known: dict[str, onnx.ValueInfoProto]
) -> list[onnx.ValueInfoProto]:
    """The states of a loop whose shapes stay, if all do; else none."""
    body = next(attribute.g for attribute in node.attribute if attribute.name == "body")
    given = [known.get(name) for name in node.input[_STATED:]]
    captured = [known.get(name) for name in read_by(node) if name not in node.input]
    if None in given or None in captured:
        return []
    alone = onnx.ModelProto()
    alone.CopyFrom(model)
    alone.graph.CopyFrom(body)
    states = []
    for inner, value in zip(alone.graph.input[_STATED:], given, strict=True):
        assert value is not None
        inner.type.CopyFrom(value.type)
        states.append(inner)
    alone.graph.input.extend(value for value in captured if value is not None)
    for value in alone.graph.output:
        value.type.tensor_type.ClearField("shape")
    inferred = infer_shapes(alone, strict_mode=False, data_prop=False).graph.output
    after = inferred[1 : 1 + len(states)]
    same = all(
        is_fixed(new) and new.type.tensor_type == old.type.tensor_type
        for new, old in zip(after, states, strict=True)
    )
    return list(after) if same else []


def _state(graph: onnx.GraphProto, value: onnx.ValueInfoProto) -> None:
    for old in (*graph.output, *graph.value_info):
        if old.name == value.name:
            old.CopyFrom(value)
            return
    graph.value_info.append(value)
