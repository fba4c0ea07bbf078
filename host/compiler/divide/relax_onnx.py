# SPDX-License-Identifier: Apache-2.0
"""Parts of a model that ONNX Runtime computes on the CPU, as calls in a Relax module.

TVM does not know every operator of ONNX, and some of those that it knows cannot be part of a saved
CPU part (`relax_operators`). Such a node, or a function of `onnx_wholes`, becomes an ONNX model of
its own, which a call carries. The results of a part have fixed shapes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import helper, numpy_helper
from onnx.shape_inference import infer_shapes
from tvm import relax

from tilewright.host.common.errors import WorkloadError, reason_of
from tilewright.host.common.onnx_sessions import open_session
from tilewright.host.compiler.divide.relax_calls import constant, dtype_of, is_constant, shape_of
from tilewright.host.compiler.read.whole_operators import PARTS_DOMAIN, stated_results
from tilewright.host.network.onnx_file import DEFAULT_DOMAINS
from tilewright.host.network.operators import RANDOM, RECURRENT

Array = npt.NDArray[Any]
Expr = Any

ONNX_FUNCTION: Final = "tilewright.onnx"
"""Called with the part's number, the number of inputs, the model's bytes, the inputs, and the
outputs to fill."""

_TRAINING: Final = 2
"""Input of a dropout that switches it on."""


@dataclass(frozen=True, kw_only=True)
class TensorKind:
    """Shape and element type (of NumPy) of a tensor."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, kw_only=True, eq=False)
class OnnxPart:
    """What ONNX Runtime computes as a whole."""

    model: bytes  # an ONNX model of its own; its inputs are those of the node that are no constants
    inputs: tuple[Expr, ...]  # expressions for them, each once
    outputs: tuple[TensorKind, ...]  # of its results that the model uses, in order
    macs: int  # multiply-accumulates, as far as they follow from shapes: of recurrent layers


def part_of(
    node: onnx.NodeProto, model: onnx.ModelProto, inputs: Sequence[Expr | None]
) -> OnnxPart:
    """A node as a part."""
    whole = _whole(node, model)
    constants: dict[str, Array] = {}
    variables: dict[str, Expr] = {}
    for name, expr in zip(whole.input, inputs, strict=True):
        if expr is None or not name:
            continue
        if is_constant(expr):
            constants[name] = constant(expr)
        else:
            variables[name] = expr
    kinds = {name: _kind(name, expr) for name, expr in variables.items()}
    alone = _model(whole, model, constants, kinds)
    drawn = sorted({each.op_type for each in _nodes(alone.graph) if _is_drawn(each, constants)})
    if drawn:
        raise ValueError(f"its result is drawn at random ({drawn[0]})")
    known = [*model.graph.value_info, *model.graph.output]
    if node.domain == PARTS_DOMAIN:
        known += stated_results(node, model.functions)
    sizes = _stated(known)
    stated = {
        inner: sizes[name]
        for inner, name in zip(whole.output, node.output, strict=True)
        if name in sizes
    }
    outputs = _results(alone, stated)
    for value, kind in zip(alone.graph.output, outputs, strict=True):
        value.CopyFrom(_value(value.name, kind))
    return OnnxPart(
        model=alone.SerializeToString(),
        inputs=tuple(variables.values()),
        outputs=outputs,
        macs=sum(_recurrent_macs(each, kinds, constants) for each in alone.graph.node),
    )


def _is_drawn(node: onnx.NodeProto, constants: Mapping[str, Array]) -> bool:
    """Whether a node's result is drawn at random: also of a dropout that may be in training."""
    if node.op_type == "Dropout" and len(node.input) > _TRAINING and node.input[_TRAINING]:
        mode = constants.get(node.input[_TRAINING])
        return mode is None or bool(mode.any())
    return node.op_type in RANDOM


def _whole(node: onnx.NodeProto, model: onnx.ModelProto) -> onnx.FunctionProto:
    """The function of a node; of one of ONNX a function of that node alone."""
    whole = onnx.FunctionProto()
    for function in model.functions:
        if (function.domain, function.name) == (node.domain, node.op_type):
            whole.CopyFrom(function)
            return whole
    bare = onnx.NodeProto()
    bare.CopyFrom(node)
    bare.name = ""
    return onnx.FunctionProto(input=node.input, output=node.output, node=[bare])


def onnx_call(
    number: int, model: bytes, arguments: Sequence[Expr], outputs: Sequence[TensorKind]
) -> Any:
    """The call of a part; no other part of the module has its number."""
    return relax.op.call_dps_packed(
        ONNX_FUNCTION,
        relax.Tuple(
            [
                relax.prim_value(number),
                relax.prim_value(len(arguments)),
                relax.const(np.frombuffer(model, np.uint8)),
                *arguments,
            ]
        ),
        out_ty=[relax.TensorType(kind.shape, kind.dtype) for kind in outputs],
    )


def is_onnx_call(value: Any) -> bool:
    """Whether an expression calls a part."""
    return (
        isinstance(value, relax.Call)
        and bool(value.args)
        and isinstance(value.args[0], relax.ExternFunc)
        and str(value.args[0].global_symbol) == ONNX_FUNCTION
    )


def parts_of_call(call: Any) -> tuple[int, bytes, tuple[Expr, ...]]:
    """Number, model and arguments of a call of a part."""
    number, count, model, *arguments = call.args[1].fields
    assert int(count.value) == len(arguments)
    return int(number.value), constant(model).tobytes(), tuple(arguments)


def kinds_in(model: bytes) -> list[str]:
    """The kinds of a part's operators, each once."""
    graph = onnx.ModelProto.FromString(model).graph
    return list(dict.fromkeys(node.op_type for node in graph.node))


def session_of(model: bytes, *, runs: bool = True) -> Any:
    """A session of ONNX Runtime on one thread."""
    try:
        return open_session(model, optimised=runs)
    except Exception as error:  # ONNX Runtime raises kinds of its own
        raise ValueError(f"ONNX Runtime: {reason_of(error)}") from error


def _kind(name: str, expr: Expr) -> TensorKind:
    shape, dtype = shape_of(expr), dtype_of(expr)
    if shape is None or not dtype:
        raise ValueError(f"its input {name[:40]} has no fixed shape")
    return TensorKind(shape=shape, dtype=dtype)


def _value(name: str, kind: TensorKind) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(
        name, helper.np_dtype_to_tensor_dtype(np.dtype(kind.dtype)), kind.shape
    )


def _model(
    whole: onnx.FunctionProto,
    model: onnx.ModelProto,
    constants: dict[str, Array],
    kinds: dict[str, TensorKind],
) -> onnx.ModelProto:
    graph = helper.make_graph(
        list(whole.node),
        "part",
        [_value(name, kind) for name, kind in kinds.items()],
        [onnx.ValueInfoProto(name=name) for name in whole.output if name],
        [numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    opsets = [entry for entry in model.opset_import if entry.domain in DEFAULT_DOMAINS]
    return helper.make_model(graph, opset_imports=opsets, ir_version=model.ir_version)


def _stated(values: Iterable[onnx.ValueInfoProto]) -> dict[str, list[int]]:
    """Sizes of tensors by name, 0 where they are not known."""
    return {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in values
        if value.type.tensor_type.HasField("shape")
    }


def _results(alone: onnx.ModelProto, stated: Mapping[str, Sequence[int]]) -> tuple[TensorKind, ...]:
    """The kinds of a model's results."""
    graph = infer_shapes(alone).graph
    inferred = _stated((*graph.value_info, *graph.output))
    found = []
    for value in session_of(alone.SerializeToString(), runs=False).get_outputs():
        choices = (stated.get(value.name), inferred.get(value.name), value.shape or None)
        shape = next((each for each in choices if each is not None and _is_fixed(each)), None)
        if shape is None:
            raise ValueError(f"the size of its result {value.name[:40]} depends on data")
        dtype = _DTYPES.get(value.type)
        if dtype is None:
            raise ValueError(f"its result {value.name[:40]} is a {value.type}")
        found.append(TensorKind(shape=tuple(shape), dtype=dtype))
    return tuple(found)


def _is_fixed(shape: Sequence[Any]) -> bool:
    return all(type(size) is int and size > 0 for size in shape)


_DTYPES: Final = {
    f"tensor({name})": dtype
    for name, dtype in {
        "bool": "bool", "double": "float64", "float": "float32", "float16": "float16",
        **{name: name for name in ("int8", "int16", "int32", "int64",
                                   "uint8", "uint16", "uint32", "uint64")},
    }.items()
}  # fmt: skip
"""Element types by their names in ONNX Runtime."""


def _nodes(graph: onnx.GraphProto) -> list[onnx.NodeProto]:
    """All nodes of a graph, those of bodies among them."""
    found = []
    for node in graph.node:
        found.append(node)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += _nodes(attribute.g)
    return found


def _recurrent_macs(
    node: onnx.NodeProto, kinds: dict[str, TensorKind], constants: dict[str, Array]
) -> int:
    if node.op_type not in RECURRENT or len(node.input) < 3:
        return 0
    shapes = [
        constants[name].shape if name in constants else kinds[name].shape
        for name in node.input[:3]
        if name in constants or name in kinds
    ]
    if len(shapes) != 3:
        return 0
    data, weights, recurrent = shapes
    return prod(data[:2]) * (prod(weights) + prod(recurrent))


def refused(what: str, error: Exception) -> WorkloadError:
    """The error for a node that neither TVM nor ONNX Runtime computes."""
    detail = reason_of(error, 240)
    return WorkloadError(
        f"must be an operator that the CPU can compute with fixed shapes ({detail})",
        field=what,
        remedy="replace it in the model, or end the model before it and compute the rest yourself",
    )
