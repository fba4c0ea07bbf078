# SPDX-License-Identifier: Apache-2.0
"""The operators that a saved CPU part may hold, and the rules of their attributes.

TVM checks shapes and types when it infers them. It does not check what would divide by zero in its
own code, nor positions that lie outside a tensor: those rules are here.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx
from onnx import helper
from tvm import ir, tirx
from tvm.ir import Op
from tvm_ffi import core

from tilewright.host.compiler.divide.relax_onnx import TensorKind
from tilewright.host.compiler.pack.artefact_rules import DTYPES
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


_PREFIX: Final = "relax."

_LEAST: Final = {
    "depth": 1,
    "dilation": 1,
    "groups": 1,
    "indices_or_sections": 1,
    "k": 1,
    "num_groups": 1,
    "output_padding": 0,
    "output_size": 1,
    "pad_width": 0,
    "padding": 0,
    "pool_size": 1,
    "repeats": 1,
    "strides": 1,
    "upscale_factor": 1,
}
"""Of these attributes the smallest legal number; of others `-_MOST`."""

_MOST: Final = 1 << 24
_MOST_NUMBERS: Final = 4096
_WORD: Final = re.compile(r"\w{0,32}", re.ASCII)

_FORCED: Final[Mapping[str, Mapping[str, Any]]] = {"strided_slice": {"assume_inbound": False}}
"""Attributes that switch a check of TVM off."""

_TAKE_MODES: Final = ("clip", "wrap")
"""Of ``take``, those that stay inside; any other becomes ``clip``, equal for legal positions."""


_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("argmax", "argmin"), "relax.attrs.ArgmaxArgminAttrs"),
    **dict.fromkeys(
        ("max", "mean", "min", "prod", "std", "sum", "variance"), "relax.attrs.StatisticalAttrs"
    ),
    "matmul": "relax.attrs.MatmulAttrs",
    "tril": "relax.attrs.TriluAttrs",
    "triu": "relax.attrs.TriluAttrs",
}
"""Kinds of attributes that TVM does not state."""


def attributes_to_values(operator: str, attributes: Any) -> dict[str, Any]:
    """Attributes of a call as plain values."""
    kind = _kind(operator)
    found = "" if attributes is None else str(type(attributes).__tvm_ffi_type_info__.type_key)
    if kind != found:
        raise ValueError(f"attributes of kind {found or 'none'}")
    return {name: _value(getattr(attributes, name)) for name in _fields(kind)}


def attributes_from_values(operator: str, values: Any) -> Any:
    """The attributes of a call, checked."""
    name = operator.removeprefix(_PREFIX)
    kind = _kind(operator)
    known = _fields(kind)
    if not isinstance(values, dict) or sorted(values) != sorted(known):
        raise ValueError(f"attributes of {name} must be {', '.join(sorted(known)) or 'none'}")
    if not kind:
        return None
    checked = {field: _checked(name, field, value) for field, value in values.items()}
    checked |= _FORCED.get(name, {})
    if name == "split":
        # TVM states this attribute as an object and does not make one of plain numbers.
        checked["indices_or_sections"] = _numbers(checked["indices_or_sections"])
    if name == "take" and checked["mode"] not in _TAKE_MODES:
        checked["mode"] = "clip"
    return ir.make_node(kind, **checked)


def _kind(operator: str) -> str:
    """The kind of an operator's attributes; empty: it has none."""
    name = operator.removeprefix(_PREFIX)
    return _KINDS.get(name) or "".join(Op.get(operator).attrs_type_key or "")


def _fields(kind: str) -> list[str]:
    if not kind:
        return []
    return [f.name for f in core._lookup_or_register_type_info_from_type_key(kind).fields]


def _numbers(value: Any) -> Any:
    """Integers as TVM's objects."""
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    return tirx.IntImm("int64", value)


_NOT_FINITE: Final = ("inf", "-inf", "nan")


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value in _NOT_FINITE


def saved_number(value: float) -> float | str:
    """A number as JSON can hold it: what is not finite, as the -inf around a pool, is a word."""
    return value if math.isfinite(value) else str(value)


def read_number(value: Any) -> float:
    """What `saved_number` wrote."""
    if type(value) is not float and not _is_word(value):
        raise ValueError(f"{str(value)[:20]} must be a number")
    return float(value)


def _value(value: Any) -> Any:
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, float):
        return saved_number(value)
    if isinstance(value, tirx.IntImm | tirx.FloatImm):
        return _value(value.value)
    if isinstance(value, str):
        return "".join(value)
    if hasattr(value, "__len__"):
        return [_value(one) for one in value]
    raise ValueError(f"an attribute of type {type(value).__name__}")


def _checked(operator: str, field: str, value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        if not _LEAST.get(field, -_MOST) <= value <= _MOST:
            raise ValueError(f"{field} of {operator} must not be {value}")
        return value
    if isinstance(value, float) or _is_word(value):
        return read_number(value)
    if isinstance(value, str):
        if not _WORD.fullmatch(value) or ("dtype" in field and value not in DTYPES):
            raise ValueError(f"{field} of {operator} must not be {value[:40]!r}")
        return value
    if isinstance(value, list) and len(value) <= _MOST_NUMBERS:
        if not all(type(one) in (int, float) or _is_word(one) for one in value):
            raise ValueError(f"{field} of {operator} must be numbers")
        return [_checked(operator, field, one) for one in value]
    raise ValueError(f"{field} of {operator} must be a plain value")
