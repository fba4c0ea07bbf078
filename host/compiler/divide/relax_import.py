# SPDX-License-Identifier: Apache-2.0
"""A canonical QDQ model as a TVM Relax module whose variables remember the model's operators."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
import tvm
from onnx import helper, inliner, numpy_helper
from tvm import relax
from tvm.relax.frontend.onnx.onnx_frontend import ONNXGraphImporter

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.divide.relax_calls import (
    BUILDING,
    dtype_of,
    operator_name,
    shape_of,
)
from tilewright.host.compiler.divide.relax_onnx import (
    OnnxPart,
    is_onnx_call,
    onnx_call,
    part_of,
    refused,
)
from tilewright.host.compiler.divide.relax_operators import is_known
from tilewright.host.compiler.divide.relax_own import OwnNode
from tilewright.host.compiler.read.own_operators import OwnOperators
from tilewright.host.compiler.read.whole_operators import PARTS_DOMAIN, kind_of_part
from tilewright.host.network.onnx_file import DEFAULT_DOMAINS, short
from tilewright.host.network.operators import RECURRENT

_MARK: Final = "model_"
"""Relax variables of this prefix and a number are results of that node of the model."""

_INSIDE: Final = "inside_"
"""The same of nodes in the meaning of a user's operator."""

UNLIMITED: Final = float(np.finfo(np.float32).max)
"""A bound of a clip that bounds nothing: infinity cannot be saved as JSON."""


@dataclass(frozen=True, kw_only=True)
class ModelOperator:
    """An operator of the model.

    Attributes:
        name, kind: of the ONNX node; the kind of a user's operator begins with its domain.
    """

    name: str
    kind: str
    output: str  # name of its first result


@dataclass(frozen=True, kw_only=True, eq=False)
class RelaxModel:
    """A Relax module and what its variables are called in the model.

    Attributes:
        module: its function ``main`` takes the inputs in order and returns the output, or a tuple.
        operators: the model's operators; variable ``model_<i>`` (see `operator_index`) holds the
            result of the i-th.
        inputs, outputs: names in the model, in the order of parameters and results.
        own: users' operators, by their number among the model's.
        parts: operators that ONNX Runtime computes, by their number.
    """

    module: tvm.IRModule
    operators: tuple[ModelOperator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    own: Mapping[int, OwnNode] = field(default_factory=dict)
    parts: Mapping[int, OnnxPart] = field(default_factory=dict)


def operator_index(variable: str) -> int | None:
    """Which operator of the model a Relax variable holds the result of."""
    number = variable.removeprefix(_MARK)
    return int(number) if number != variable and number.isdecimal() else None


def to_relax(model: onnx.ModelProto, own: OwnOperators | None = None) -> RelaxModel:
    """Import a model with static shapes.

    What TVM does not take, or what a saved CPU part cannot hold, ONNX Runtime computes
    (`relax_onnx`).
    """
    operators = tuple(
        ModelOperator(
            name=short(node.name) or f"{short(node.op_type)}_{index}",
            kind=short(_kind(node)),
            output=short(node.output[0]) if node.output else "",
        )
        for index, node in enumerate(model.graph.node)
    )
    marked = _marked(model)
    importer = _imported(marked, operators, frozenset())
    if outside := _not_saved(importer):
        importer = _imported(marked, operators, outside)
    return RelaxModel(
        module=importer.module,
        operators=operators,
        inputs=tuple(_model_inputs(model.graph)),
        outputs=tuple(value.name for value in model.graph.output),
        own=_own_nodes(model, own or OwnOperators(), importer) if model.functions else {},
        parts=importer.numbered_parts(),
    )


def _imported(
    marked: onnx.ModelProto, operators: tuple[ModelOperator, ...], outside: Collection[str]
) -> _Importer:
    """An importer that has imported a model."""
    importer = _Importer(marked, outside)
    try:
        with BUILDING, contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            importer.read()
    except Exception as error:  # TVM and its converters raise kinds of their own
        raise importer.refusal(operators, error) from error
    return importer


def _not_saved(importer: _Importer) -> frozenset[str]:
    """Nodes of which a binding is no operator that a saved CPU part may hold."""
    found: set[str] = set()
    waiting = False
    for block in importer.module["main"].body.blocks:
        for binding in block.bindings:
            name = operator_name(binding.value)
            waiting |= bool(name) and not (is_known(name) or is_onnx_call(binding.value))
            if waiting and (node := importer.node_of(binding.var)):
                found.add(node)
            if importer.node_of(binding.var):
                waiting = False
    return frozenset(found)


def _marked(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model whose nodes are named by their numbers, with meanings for users' operators.

    Of a meaning the node that gives its result bears the number.
    """
    numbers = {name: i for i, node in enumerate(model.graph.node) for name in node.output if name}
    if model.functions:
        meanings = [(f.domain, f.name) for f in model.functions if f.domain != PARTS_DOMAIN]
        named = inliner.inline_selected_functions(model, meanings)
    else:
        named = onnx.ModelProto()
        named.CopyFrom(model)
    for index, node in enumerate(named.graph.node):
        number = next((numbers[name] for name in node.output if name in numbers), None)
        node.name = f"{_INSIDE}{index}" if number is None else f"{_MARK}{number}"
        if node.op_type == "Constant" and node.attribute[0].name != "value":
            _state_value(node)
    return named


def _state_value(node: onnx.NodeProto) -> None:
    """A constant as a tensor, the one form that TVM takes."""
    dtype = np.float32 if "float" in node.attribute[0].name else np.int64
    number = np.asarray(helper.get_attribute_value(node.attribute[0]), dtype)
    del node.attribute[:]
    node.attribute.append(helper.make_attribute("value", numpy_helper.from_array(number)))


def _own_nodes(
    model: onnx.ModelProto, own: OwnOperators, importer: _Importer
) -> dict[int, OwnNode]:
    found = {}
    for index, node in enumerate(model.graph.node):
        operator = own.find(node.domain, node.op_type)
        if operator is not None:
            inputs = tuple(importer.value(name) if name else None for name in node.input)
            attributes = operator.attributes_of(node)
            found[index] = OwnNode(operator=operator, attributes=attributes, inputs=inputs)
    return found


def _kind(node: onnx.NodeProto) -> str:
    if node.domain == PARTS_DOMAIN:
        return kind_of_part(node.op_type)
    return node.op_type if node.domain in DEFAULT_DOMAINS else f"{node.domain}.{node.op_type}"


def _model_inputs(graph: Any) -> list[str]:
    constants = {tensor.name for tensor in graph.initializer}
    return [value.name for value in graph.input if value.name not in constants]


class _Importer(ONNXGraphImporter):  # type: ignore[misc]  # TVM is untyped
    """TVM's importer that names results after nodes and keeps operators whole."""

    def __init__(self, model: onnx.ModelProto, outside: Collection[str]) -> None:
        super().__init__({}, "float32", sanitize=True)
        self._model, self._outside = model, outside
        self._by_name = {node.name: node for node in model.graph.node}
        self._read = {name for node in model.graph.node for name in node.input}
        self._read |= {value.name for value in model.graph.output}
        self._current = ""
        self._parts: dict[str, OnnxPart] = {}
        self.module: tvm.IRModule = tvm.IRModule()

    def read(self) -> None:
        """Import the model into `module`."""
        opset = next(e.version for e in self._model.opset_import if e.domain in DEFAULT_DOMAINS)
        module = self.from_onnx(self._model.graph, opset)
        if self._parts:  # without what a converter had bound before it gave up
            module = relax.transform.DeadCodeElimination(["main"])(module)
        self.module = module

    def value(self, name: str) -> Any:
        """What a tensor of the model became."""
        return self._nodes[name]

    def node_of(self, var: Any) -> str:
        """The node whose result a variable is; empty for one inside of a converter's work."""
        return str(var.name) if str(var.name) in self._by_name else ""

    def numbered_parts(self) -> dict[int, OnnxPart]:
        """What ONNX Runtime computes, by the number of the model's operator."""
        found = {operator_index(name): part for name, part in self._parts.items()}
        return {index: part for index, part in found.items() if index is not None}

    def refusal(self, operators: tuple[ModelOperator, ...], error: Exception) -> WorkloadError:
        """The error for a model at whose current node TVM gave up."""
        if isinstance(error, WorkloadError):
            return error
        return refused(self._where(operators), error)

    def _where(self, operators: tuple[ModelOperator, ...]) -> str:
        index = operator_index(self._current)
        return f"{operators[index].kind} {operators[index].name}" if index is not None else "model"

    def _check_for_unsupported_ops(self, graph: Any) -> None:
        """Nothing: ONNX Runtime computes what TVM does not know."""

    def _convert_operator(self, op_name: str, inputs: Any, attrs: Any, opset: int) -> Any:
        self._current = attrs["tvm_custom"]["name"]
        node = self._by_name[self._current]
        outside = self._current in self._outside or op_name in RECURRENT  # TVM unrolls
        if outside or node.domain not in DEFAULT_DOMAINS:
            return self._as_part(node, inputs)
        try:
            _require_first_result(node, self._read)
            own = _OWN_CONVERTERS.get(op_name)
            result = own(inputs, attrs, opset) if own is not None else None
            if result is None:
                result = super()._convert_operator(op_name, inputs, attrs, opset)
            _require_results(node, result, self._read)
        except Exception as error:  # TVM's converters raise kinds of their own
            return self._as_part(node, inputs, error)
        return self._named(result, inputs)

    def _as_part(self, node: onnx.NodeProto, inputs: Any, cause: Exception | None = None) -> Any:
        """A node as a call of ONNX Runtime."""
        try:
            part = part_of(node, self._model, list(inputs))
        except ValueError as error:
            detail = f"TVM: {' '.join(str(cause).split())[:80]}; " if cause is not None else ""
            raise ValueError(f"{detail}{error}") from error
        call = onnx_call(len(self._parts), part.model, part.inputs, part.outputs)
        self._parts[self._current] = part
        whole = self.bb.emit(call, name_hint=self._current)
        if len(node.output) == 1:
            return whole
        given = [name for name in node.output if name]
        if len(given) == 1:
            return relax.Tuple([whole] * len(node.output))
        fields = [
            self.bb.emit(relax.TupleGetItem(whole, given.index(name) if name else 0))
            for name in node.output
        ]
        return relax.Tuple(fields)

    def _named(self, result: Any, inputs: Any) -> Any:
        """A converter's result, of which a variable bears the name of the current node."""
        if isinstance(result, relax.Call | relax.TupleGetItem):
            return self.bb.emit(result, name_hint=self._current)
        if isinstance(result, relax.Var):
            # What a converter has bound itself; an input that it returns is not its work.
            known = any(result.same_as(each) for each in inputs if each is not None)
            return result if known else self.bb.emit(result, name_hint=self._current)
        if isinstance(result, relax.Tuple):
            first, *rest = result.fields
            return relax.Tuple([self._named(first, inputs), *rest])
        return result


def _require_first_result(node: onnx.NodeProto, read: Collection[str]) -> None:
    """Refuse layer normalisation whose mean is read: TVM gives 0 for it."""
    if node.op_type == "LayerNormalization" and not set(filter(None, node.output[1:])).isdisjoint(
        read
    ):
        raise ValueError("its mean is read")


def _require_results(node: onnx.NodeProto, result: Any, read: Collection[str]) -> None:
    """Refuse an import without a result that the model reads, such as a pool's places."""
    count = 1
    if isinstance(result, relax.Tuple):
        count = len(result.fields)
    elif isinstance(result, relax.Expr) and isinstance(result.ty, relax.TupleType):
        count = len(result.ty.fields)
    more = [name for name in node.output[count:] if name]
    if node.op_type == "Dropout":
        more = list(node.output[1:])  # whose mask TVM takes for the data
    if set(more) & set(read):
        raise ValueError(f"it gives {count} of {len(node.output)} results")
    if more and node.op_type != "Dropout":
        del node.output[count:]


def _constant_input(inputs: Any, index: int) -> npt.NDArray[Any] | None:
    value = inputs[index]  # TVM's list gives None for what a node leaves out
    return np.asarray(value.value.numpy()) if isinstance(value, tvm.ir.GenericConst) else None


def _clip(inputs: Any, _attributes: Any, _opset: int) -> Any:
    """Clip with constant bounds; one that is left out is the largest float32 (see `UNLIMITED`)."""
    if dtype_of(inputs[0]) in _INTEGERS:
        return _clip_integers(inputs)
    if dtype_of(inputs[0]) != "float32":
        return None
    bounds = []
    for index, missing in ((1, -UNLIMITED), (2, UNLIMITED)):
        value = np.array(missing) if inputs[index] is None else _constant_input(inputs, index)
        if value is None or value.size != 1 or value.dtype.kind != "f" or np.isnan(value).any():
            return None
        bounds.append(float(np.clip(value.reshape(()), -UNLIMITED, UNLIMITED)))
    return relax.op.clip(inputs[0], *bounds)


def _clip_integers(inputs: Any) -> Any:
    """Constant bounds of integers, of which one may be left out."""
    if any(each is not None and not isinstance(each, tvm.ir.GenericConst) for each in inputs[1:3]):
        return None
    result = inputs[0]
    result = result if inputs[1] is None else relax.op.maximum(result, inputs[1])
    return result if inputs[2] is None else relax.op.minimum(result, inputs[2])


def _pad(inputs: Any, attributes: Any, opset: int) -> Any:
    """Pad with a constant."""
    pads = _constant_input(inputs, 1) if opset >= _PADS_ARE_INPUTS else None
    fill = np.zeros(()) if inputs[2] is None else _constant_input(inputs, 2)
    plain = attributes.get("mode", b"constant") == b"constant" and inputs[3] is None
    if pads is None or fill is None or not plain:
        return None
    if dtype_of(inputs[0]) not in (*_INTEGERS, "float32", "float64"):
        return None
    if not pads.size or pads.min() < 0:
        return None
    before, after = np.split(pads.astype(int).reshape(-1), 2)
    widths = np.stack([before, after], 1).reshape(-1).tolist()
    return relax.op.nn.pad(inputs[0], widths, "constant", float(fill.reshape(())))


def _tile(inputs: Any, _attributes: Any, _opset: int) -> Any:
    """Tile a constant number of times."""
    repeats = _constant_input(inputs, 1)
    return relax.op.tile(inputs[0], repeats.tolist()) if repeats is not None else None


def _gather(inputs: Any, attributes: Any, _opset: int) -> Any:
    """Gather at constant positions along an axis."""
    positions, axis = _constant_input(inputs, 1), attributes.get("axis", 0)
    shape = shape_of(inputs[0]) if dtype_of(inputs[0]) else None
    if positions is None or not positions.size or shape is None:
        return None
    if isinstance(inputs[0], tvm.ir.GenericConst):
        return None
    places = np.where(positions < 0, positions + shape[axis], positions)
    if not 0 <= places.min() <= places.max() < shape[axis]:
        return None
    return relax.op.take(inputs[0], relax.const(places.astype(np.int64)), axis)


def _extreme(inputs: Any, _attributes: Any, _opset: int, *, largest: bool) -> Any:
    """The greatest or the least of floats, one after another: TVM would stack them."""
    data = [each for each in inputs if each is not None]
    if any(dtype_of(each) != "float32" for each in data):
        return None
    result = data[0]
    for each in data[1:]:
        result = (relax.op.maximum if largest else relax.op.minimum)(result, each)
    return result


def _layer_norm(inputs: Any, attributes: Any, _opset: int) -> Any:
    """Layer normalisation with a scale for each element of a row: TVM takes the axes from it."""
    shape, scale = shape_of(inputs[0]), shape_of(inputs[1])
    axis = attributes.get("axis", -1)
    if shape is not None and scale is not None and shape[axis:] != scale:
        raise ValueError(f"its scale has the shape {scale}, and what is normalised {shape[axis:]}")


def _power(inputs: Any, _attributes: Any, _opset: int) -> Any:
    """A power of floats: TVM compiles no other."""
    if any(dtype_of(each) in _INTEGERS for each in inputs[:2]):
        raise ValueError("a power is of floats")


def _dropout(inputs: Any, _attributes: Any, _opset: int) -> None:
    """A dropout that does nothing: TVM takes each for one."""
    mode = _constant_input(inputs, 2) if inputs[2] is not None else np.array(False)
    if mode is None or mode.any():
        raise ValueError("it may be in training")


def _rms_norm(inputs: Any, attributes: Any, _opset: int) -> None:
    """Normalisation by the root mean square over the last axis: TVM compiles no other."""
    shape, axis = shape_of(inputs[0]), attributes.get("axis", -1)
    if shape is None or axis not in (-1, len(shape) - 1):
        raise ValueError("it is over several axes")


def _transposed(_inputs: Any, attributes: Any, _opset: int) -> Any:
    """A transposed convolution whose padding is stated: TVM does not read ``output_shape``."""
    if "output_shape" in attributes or attributes.get("auto_pad", b"NOTSET") != b"NOTSET":
        raise ValueError("its padding does not follow from its output_shape or auto_pad")


def _resize(inputs: Any, attributes: Any, _opset: int) -> Any:
    """Resizing that is what its sizes say: TVM reads neither exact factors nor smoothing."""
    if "axes" in attributes or attributes.get("keep_aspect_ratio_policy", b"stretch") != b"stretch":
        raise ValueError("its sizes are stated for some axes, or by an aspect ratio")
    if attributes.get("coordinate_transformation_mode", b"") == b"tf_crop_and_resize":
        raise ValueError("it is that of a region (tf_crop_and_resize)")
    mode, shape = attributes.get("mode", b"nearest"), shape_of(inputs[0])
    scales, sizes = _constant_input(inputs, 2), _constant_input(inputs, 3)
    if shape is None or (scales is None and sizes is None):
        return
    wide = np.array(shape, np.float64)
    after = wide * scales if scales is not None and scales.size else np.array(sizes)
    by_corners = attributes.get("coordinate_transformation_mode", b"") == b"align_corners"
    if by_corners and any(np.floor(n) == 1 < m for n, m in zip(after, shape, strict=True)):
        raise ValueError("one row has no corners to align")
    if not by_corners and np.abs(np.floor(after) - after).max() > _EXACT:
        raise ValueError(f"its factors do not give whole sizes: {after.tolist()}")
    smaller = bool((np.floor(after) < np.array(shape)).any())
    if attributes.get("antialias", 0) and mode != b"nearest" and (smaller or mode == b"cubic"):
        raise ValueError("it is smoothed (antialias)")


_INTEGERS: Final = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
_EXACT: Final = 1e-3
"""Pixels by which a size may differ from the input's size times the factor."""
_PADS_ARE_INPUTS: Final = 11
_OWN_CONVERTERS: Final[Mapping[str, Callable[[Any, Any, int], Any]]] = {
    "Clip": _clip,
    "ConvTranspose": _transposed,
    "Dropout": _dropout,
    "Gather": _gather,
    "LayerNormalization": _layer_norm,
    "Max": partial(_extreme, largest=True),
    "Min": partial(_extreme, largest=False),
    "Pad": _pad,
    "Pow": _power,
    "RMSNormalization": _rms_norm,
    "Resize": _resize,
    "Tile": _tile,
}
"""Of operators that TVM expands to loops: what they return is one operator, or None. Others refuse
what TVM would import as something else."""
