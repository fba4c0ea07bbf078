# SPDX-License-Identifier: Apache-2.0
"""Models in ONNX Runtime's QOperator format (QLinearConv, QGemm, ...) in QDQ format.

Every operator on quantised tensors becomes the float operator between DequantizeLinear and
QuantizeLinear. Operators that take int8 or uint8 as they are (MaxPool, Reshape, ...) are treated
alike when the scale of their input is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.edit import (
    Editor,
    array_of,
    input_of,
    integer,
    is_kind,
    number,
    shape_of,
    stand_for,
    text_of,
)
from tilewright.host.compiler.read.float_model import QUANTISED_KINDS
from tilewright.host.network.onnx_file import DEFAULT_DOMAINS
from tilewright.host.network.operators import MOVES

Parameters = tuple[ir.Value | None, ir.Value | None]
"""Scale and zero point of a quantised tensor."""

_ONE_AXIS: Final = 13
"""The first operator set whose softmax is over one axis alone."""


def to_qdq(model: ir.Model) -> None:
    """Rewrite a model in place."""
    editor = Editor(model.graph)
    scales: dict[ir.Value, Parameters] = {}
    for node in list(model.graph):
        if node.op_type in _CONVERTERS and node.domain in (*DEFAULT_DOMAINS, "com.microsoft"):
            _replace(editor, node, scales)
        elif is_kind(node, "QuantizeLinear"):
            scales[node.outputs[0]] = (input_of(node, 1), input_of(node, 2))
        elif moves(node) and node.inputs[0] in scales:
            _wrap(editor, node, scales)
    editor.drop_unused()


def is_quantised(model: ir.Model) -> bool:
    """Whether a model is in QDQ or QOperator format."""
    return any(node.op_type in QUANTISED_KINDS for node in model.graph)


def moves(node: ir.Node) -> bool:
    """Whether a node's result holds elements of its data as they are: so does nearest resizing."""
    if is_kind(node, "Resize"):
        cropped = text_of(node, "coordinate_transformation_mode", "") == "tf_crop_and_resize"
        return text_of(node, "mode", "nearest") == "nearest" and not cropped
    return is_kind(node, *MOVES, "MaxPool") and len(node.outputs) == 1


def _refusal(node: ir.Node, rule: str) -> WorkloadError:
    return WorkloadError(
        rule,
        field=f"{node.op_type} {node.name}",
        remedy="quantise the float model again, with QuantizeLinear and DequantizeLinear (QDQ)",
    )


class _Scene:
    """Builds the replacement of one node in front of it."""

    def __init__(self, editor: Editor, node: ir.Node) -> None:
        self.editor = editor
        self.node = node
        self.stem = node.outputs[0].name or node.name or "quantised"

    def input(self, index: int) -> ir.Value | None:
        return input_of(self.node, index)

    def need(self, index: int) -> ir.Value:
        value = self.input(index)
        if value is None:
            raise self.refusal(f"must have input {index}")
        return value

    def refusal(self, rule: str) -> WorkloadError:
        return _refusal(self.node, rule)

    def real(self, first: int, axis: int | None = None) -> ir.Value:
        """The quantised tensor of inputs first, first + 1 (scale), first + 2 (zero point)."""
        attributes = {} if axis is None else {"axis": axis}
        inputs = [self.need(first), self.need(first + 1), self.input(first + 2)]
        return self.add("DequantizeLinear", inputs, attributes, ir.DataType.FLOAT)

    def add(
        self,
        kind: str,
        inputs: Sequence[ir.Value | None],
        attributes: Mapping[str, Any] | None = None,
        dtype: ir.DataType | None = None,
    ) -> ir.Value:
        return self.editor.before(self.node, kind, inputs, attributes, stem=self.stem, dtype=dtype)

    def attributes(self, *without: str) -> dict[str, Any]:
        return {k: v for k, v in self.node.attributes.items() if k not in without}

    def bias(
        self, index: int, data_scale: int, weight_scale: int, factor: float = 1.0
    ) -> ir.Value | None:
        """The int32 bias of an input as float, in steps of both scales and a factor."""
        bias = array_of(self.input(index))
        if self.input(index) is None:
            return None
        x, w = array_of(self.need(data_scale)), array_of(self.need(weight_scale))
        if bias is None or x is None or w is None:
            raise self.refusal("must have a constant bias and constant scales")
        steps = factor * x.astype(np.float64).reshape(-1)[:1] * w.astype(np.float64).reshape(-1)
        value = bias * steps
        return self.editor.constant(f"{self.stem}_bias", value.astype(np.float32))


Result = tuple[ir.Value, ir.Value | None, ir.Value | None]
"""A float value, and scale and zero point to quantise it with; no scale: it stays float."""


def _replace(editor: Editor, node: ir.Node, scales: dict[ir.Value, Parameters]) -> None:
    if len(node.outputs) != 1:
        raise _refusal(node, "must have one output")
    scene = _Scene(editor, node)
    real, scale, zero_point = _CONVERTERS[node.op_type](scene)
    producer = real.producer()
    assert producer is not None
    producer.name = node.name or producer.name
    if scale is not None:
        real = scene.add("QuantizeLinear", [real, scale, zero_point])
        scales[real] = (scale, zero_point)
    _take_over(editor, node, real)


def _take_over(editor: Editor, node: ir.Node, new: ir.Value) -> None:
    old = node.outputs[0]
    new.shape, new.type = old.shape, old.type or new.type
    stand_for(old, new)
    editor.graph.remove(node, safe=True)


def _wrap(editor: Editor, node: ir.Node, scales: dict[ir.Value, Parameters]) -> None:
    """An operator that moves quantised elements, between the two conversions."""
    scale, zero_point = scales[node.inputs[0]] if node.inputs[0] is not None else (None, None)
    users = list(node.outputs[0].uses())
    if users and all(is_kind(user, "QuantizeLinear") for user, _ in users):
        return  # it has float data already
    scene = _Scene(editor, node)
    real = scene.add("DequantizeLinear", [node.inputs[0], scale, zero_point])
    moved = scene.add(node.op_type, [real, *node.inputs[1:]], scene.attributes())
    producer = moved.producer()
    assert producer is not None
    producer.name = node.name or producer.name
    result = scene.add("QuantizeLinear", [moved, scale, zero_point])
    scales[result] = (scale, zero_point)
    _take_over(editor, node, result)


def _conv(scene: _Scene) -> Result:
    inputs = [scene.real(0), scene.real(3, axis=0)]
    bias = scene.bias(8, 1, 4)
    real = scene.add("Conv", [*inputs, bias] if bias is not None else inputs, scene.attributes())
    return real, scene.need(6), scene.input(7)


def _matmul(scene: _Scene) -> Result:
    weights = array_of(scene.need(3))
    inputs = [scene.real(0), scene.real(3, axis=weights.ndim - 1 if weights is not None else None)]
    return scene.add("MatMul", inputs), scene.need(6), scene.input(7)


def _gemm(scene: _Scene) -> Result:
    transposed = scene.node.attributes.get("transB")
    axis = 0 if transposed is not None and transposed.as_int() else 1
    inputs: list[ir.Value | None] = [scene.real(0), scene.real(3, axis=axis)]
    bias = scene.bias(6, 1, 4, number(scene.node, "alpha", 1.0))
    if bias is not None:
        inputs.append(bias)
    return scene.add("Gemm", inputs, scene.attributes()), scene.input(7), scene.input(8)


def _binary(kind: str) -> Callable[[_Scene], Result]:
    def convert(scene: _Scene) -> Result:
        real = scene.add(kind, [scene.real(0), scene.real(3)])
        return real, scene.need(6), scene.input(7)

    return convert


def _unary(kind: str, *without: str) -> Callable[[_Scene], Result]:
    def convert(scene: _Scene) -> Result:
        channels_last = scene.node.attributes.get("channels_last")
        if channels_last is not None and channels_last.as_int():
            raise scene.refusal("must have its channels on axis 1")
        attributes = scene.attributes("channels_last", *without)
        real = scene.add(kind, [scene.real(0)], attributes)
        return real, scene.need(3), scene.input(4)

    return convert


def _softmax(scene: _Scene) -> Result:
    """Softmax over one axis; before operator set 13 it was over all behind it, too."""
    shape, axis = shape_of(scene.input(0)), integer(scene.node, "axis", -1)
    ends = axis == -1 or (shape is not None and axis % len(shape) == len(shape) - 1)
    if integer(scene.node, "opset", _ONE_AXIS) < _ONE_AXIS and not ends:
        raise scene.refusal(f"must be over the last axis before operator set {_ONE_AXIS}")
    return _unary("Softmax", "opset")(scene)


def _concat(scene: _Scene) -> Result:
    count = (len(scene.node.inputs) - 2) // 3
    real = scene.add(
        "Concat", [scene.real(2 + 3 * index) for index in range(count)], scene.attributes()
    )
    return real, scene.need(0), scene.input(1)


_CONVERTERS: Final[Mapping[str, Callable[[_Scene], Result]]] = {
    "QGemm": _gemm,
    "QLinearAdd": _binary("Add"),
    "QLinearAveragePool": _unary("AveragePool"),
    "QLinearConcat": _concat,
    "QLinearConv": _conv,
    "QLinearGlobalAveragePool": _unary("GlobalAveragePool"),
    "QLinearLeakyRelu": _unary("LeakyRelu"),
    "QLinearMatMul": _matmul,
    "QLinearMul": _binary("Mul"),
    "QLinearSigmoid": _unary("Sigmoid"),
    "QLinearSoftmax": _softmax,
}
assert {*_CONVERTERS, "QuantizeLinear"} == QUANTISED_KINDS  # which says whether a model is float
