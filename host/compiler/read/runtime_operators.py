# SPDX-License-Identifier: Apache-2.0
"""Operators that ONNX Runtime's optimiser writes, in the operators of ONNX that they stand for.

Source: "Contrib operators" of ONNX Runtime's documentation. A form that is not taken here is
refused later, by its name.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import pi, sqrt
from typing import Any, Final

import numpy as np
import onnx_ir as ir

from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    number,
    shape_of,
    stand_for,
    text_of,
)

_HARD_SINCE: Final = 14
_WIDE_SINCE: Final = 21
_NORMALISATION_SINCE: Final = 17
_LOWEST: Final = -10000.0
"""What hides a token in ONNX Runtime's attention, unless the node says otherwise."""


def expand_fused(editor: Editor, node: ir.Node, opset: int) -> bool:
    """Write one operator of ONNX Runtime out, in place; whether it is of a form that is known."""
    expand = _EXPANSIONS.get(node.op_type)
    used = [value for value in node.outputs[1:] if value.uses() or value.is_graph_output()]
    if expand is None or (used and node.op_type not in _SEVERAL):
        return False
    results = expand(_Place(editor, node, opset))
    if results is None:
        return False
    for old, new in zip(node.outputs, results, strict=False):
        if new is not None and (old.uses() or old.is_graph_output()):
            new.shape, new.type = old.shape or new.shape, old.type or new.type
            stand_for(old, new)
    editor.graph.remove(node, safe=True)
    return True


class _Place:
    """Builds operators in front of one."""

    def __init__(self, editor: Editor, node: ir.Node, opset: int) -> None:
        self.node, self.opset = node, opset
        self._editor = editor
        self._stem = node.outputs[0].name or node.name or "fused"

    def input(self, index: int) -> ir.Value | None:
        return input_of(self.node, index)

    def constant(self, array: Any) -> ir.Value:
        return self._editor.constant(f"{self._stem}_constant", np.asarray(array))

    def single(self, value: float) -> ir.Value:
        return self.constant(np.float32(value))

    def add(
        self, kind: str, *inputs: ir.Value | None, like: ir.Value | None = None, **attributes: Any
    ) -> ir.Value:
        return self._editor.before(
            self.node, kind, inputs, attributes, stem=f"{self._stem}_{kind}", like=like
        )

    def attributes(self, *without: str) -> Mapping[str, Any]:
        return {k: v for k, v in self.node.attributes.items() if k not in without}


Results = list[ir.Value | None] | None
"""What takes the place of a node's results; None: the form is not known."""

# -- layers with their activation ----------------------------------------------------------------


def _activated(place: _Place, value: ir.Value, parameters: list[float]) -> ir.Value | None:
    kind = text_of(place.node, "activation", "")
    if not kind:
        return value
    if kind in ("Relu", "Tanh", "Sigmoid") or (kind == "HardSwish" and place.opset >= _HARD_SINCE):
        return place.add(kind, value)
    if kind == "Clip" and len(parameters) == 2:
        return place.add(kind, value, *map(place.single, parameters))
    if kind == "LeakyRelu":
        return place.add(kind, value, alpha=float(parameters[0]) if parameters else 0.01)
    if kind == "HardSigmoid":
        alpha, beta = parameters or (0.2, 0.5)
        return place.add(kind, value, alpha=float(alpha), beta=float(beta))
    return None


def _fused_conv(place: _Place) -> Results:
    stated = place.node.attributes.get("activation_params")
    parameters = [] if stated is None else [float(each) for each in stated.as_floats()]
    inputs = [value for index in range(3) if (value := place.input(index)) is not None]
    result = place.add("Conv", *inputs, **place.attributes("activation", "activation_params"))
    residual = place.input(3)
    if residual is not None:
        result = place.add("Add", result, residual)
    return _only(_activated(place, result, parameters))


def _fused_gemm(place: _Place) -> Results:
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    parameters = [number(place.node, name, 0.0) for name in names if name in place.node.attributes]
    attributes = place.attributes("activation", *names)
    result = place.add("Gemm", *place.node.inputs, **attributes)
    return _only(_activated(place, result, parameters))


def _fused_matmul(place: _Place) -> Results:
    if integer(place.node, "transBatchA", 0) or integer(place.node, "transBatchB", 0):
        return None
    factors = []
    for index, name in enumerate(("transA", "transB")):
        value, shape = place.input(index), shape_of(place.input(index))
        if value is not None and integer(place.node, name, 0):
            if shape is None or len(shape) == 1:
                return None
            axes = list(range(len(shape)))
            axes[-2:] = axes[:-3:-1]
            array = array_of(value)
            value = (
                place.add("Transpose", value, perm=axes)
                if array is None
                else place.constant(np.ascontiguousarray(array.transpose(axes)))
            )
        factors.append(value)
    result, alpha = place.add("MatMul", *factors), number(place.node, "alpha", 1.0)
    return [result if alpha == 1 else place.add("Mul", result, place.single(alpha))]


def _few_bits(place: _Place) -> Results:
    """Weights of blocks along the inputs, packed, as floats."""
    node = place.node
    packed, scales, zeros = (array_of(place.input(index)) for index in (1, 2, 3))
    rows, columns = integer(node, "K", 0), integer(node, "N", 0)
    bits, block = integer(node, "bits", 4), integer(node, "block_size", 0)
    if packed is None or scales is None or place.input(4) is not None or bits not in (2, 4, 8):
        return None
    if place.input(3) is not None and zeros is None:
        return None
    blocks = -(-rows // block)
    steps = _unpacked(packed.reshape(columns, -1), bits)[:, : blocks * block]
    zero: Array = np.full((columns, blocks), 1 << (bits - 1), np.float32)
    if zeros is not None and zeros.dtype == np.uint8:
        zero = _unpacked(zeros.reshape(columns, -1), bits)[:, :blocks].astype(np.float32)
    elif zeros is not None:
        zero = zeros.reshape(columns, blocks).astype(np.float32)
    whole = steps.reshape(columns, blocks, block).astype(np.float32) - zero[..., None]
    weights = whole * scales.reshape(columns, blocks, 1).astype(np.float32)
    weights = weights.reshape(columns, -1)[:, :rows].T
    result = place.add("MatMul", place.input(0), place.constant(np.ascontiguousarray(weights)))
    bias = place.input(5)
    return [result if bias is None else place.add("Add", result, bias)]


def _unpacked(array: Array, bits: int) -> Array:
    """Numbers of some bits each, the first in the lowest, from bytes along the last axis."""
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    return ((array[..., None] >> shifts) & ((1 << bits) - 1)).reshape(*array.shape[:-1], -1)


def _conversion(place: _Place) -> Results:
    """QuantizeLinear and DequantizeLinear, of types that those of the operator set take."""
    node = place.node
    known = node.inputs[0] if node.op_type == "DequantizeLinear" else place.input(2)
    wide = known is None or known.dtype in (None, ir.DataType.INT16, ir.DataType.UINT16)
    if wide and known is not None and place.opset < _WIDE_SINCE:
        return None
    return [place.add(node.op_type, *node.inputs, **place.attributes())]


# -- functions -----------------------------------------------------------------------------------


def _biased(place: _Place) -> ir.Value | None:
    bias = place.input(1)
    return place.input(0) if bias is None else place.add("Add", place.input(0), bias)


def _gelu(place: _Place) -> Results:
    data = _biased(place)
    halved = place.add("Div", data, place.single(sqrt(2)))
    above = place.add("Add", place.add("Erf", halved), place.single(1))
    return [place.add("Mul", place.add("Mul", data, above), place.single(0.5))]


def _fast_gelu(place: _Place) -> Results:
    data = _biased(place)
    cube = place.add("Mul", place.add("Mul", data, data), data)
    inner = place.add("Add", data, place.add("Mul", cube, place.single(0.044715)))
    bent = place.add("Tanh", place.add("Mul", inner, place.single(sqrt(2 / pi))))
    above = place.add("Add", bent, place.single(1))
    return [place.add("Mul", place.add("Mul", data, above), place.single(0.5))]


def _quick_gelu(place: _Place) -> Results:
    scaled = place.add("Mul", place.input(0), place.single(number(place.node, "alpha", 1.702)))
    return [place.add("Mul", place.input(0), place.add("Sigmoid", scaled))]


# -- transformers --------------------------------------------------------------------------------


def _normalised(
    place: _Place, data: ir.Value, scale: ir.Value | None, offset: ir.Value | None
) -> ir.Value:
    """Layer normalisation over the last axis."""
    epsilon = number(place.node, "epsilon", 1e-12)
    if place.opset >= _NORMALISATION_SINCE:
        inputs = [data, scale] if offset is None else [data, scale, offset]
        return place.add("LayerNormalization", *inputs, axis=-1, epsilon=epsilon)
    centred = place.add("Sub", data, place.add("ReduceMean", data, axes=[-1], keepdims=1))
    squares = place.add("Mul", centred, centred)
    variance = place.add("ReduceMean", squares, axes=[-1], keepdims=1)
    deviation = place.add("Sqrt", place.add("Add", variance, place.single(epsilon)))
    result = place.add("Mul", place.add("Div", centred, deviation), scale)
    return result if offset is None else place.add("Add", result, offset)


def _skip_normalisation(place: _Place) -> Results:
    total = place.add("Add", place.input(0), place.input(1))
    if place.input(4) is not None:
        total = place.add("Add", total, place.input(4))
    return [_normalised(place, total, place.input(2), place.input(3)), None, None, total]


def _embed_normalisation(place: _Place) -> Results:
    words, places = place.input(0), array_of(place.input(3))
    shape = shape_of(words)
    if words is None or places is None or shape is None or len(shape) != 2:
        return None
    if place.input(8) is not None or integer(place.node, "mask_index_type", 1) == 0:
        return None
    mask, masked = place.input(7), place.node.outputs[1] if len(place.node.outputs) > 1 else None
    total = place.add("Gather", place.input(2), words, axis=0)
    total = place.add("Add", total, place.constant(places[: shape[1]][None]))
    if place.input(1) is not None and place.input(4) is not None:
        kinds = place.add("Gather", place.input(4), place.input(1), axis=0)
        total = place.add("Add", total, kinds)
    result = _normalised(place, total, place.input(5), place.input(6))
    counts: ir.Value | None = None
    if masked is not None and (masked.uses() or masked.is_graph_output()):
        if mask is None:
            counts = place.constant(np.zeros(shape[:1], np.int32))
        else:
            axis = place.constant(np.array([1], np.int64))
            counts = place.add("ReduceSum", mask, axis, keepdims=0)
    return [result, counts, total]


def _attention(place: _Place) -> Results:
    return _attended(
        place, place.input(0), place.input(1), place.input(2), place.input(3), (4, 5, 6)
    )


def _quantised_attention(place: _Place) -> Results:
    """Attention of int8 data and weights, whose scales are numbers or one for each column."""
    codes, coded = place.input(0), place.input(1)
    if codes is None or coded is None:
        return None
    data = place.add("DequantizeLinear", codes, place.input(3), place.input(6))
    scale = array_of(place.input(4))
    several: dict[str, Any] = {} if scale is None or scale.size == 1 else {"axis": 1}
    if scale is not None and scale.size == 1:
        place.node.replace_input_with(4, place.constant(scale.reshape(())))
        zero = array_of(place.input(7))
        if zero is not None:
            place.node.replace_input_with(7, place.constant(zero.reshape(())))
    weights = place.add("DequantizeLinear", coded, place.input(4), place.input(7), **several)
    data.shape, weights.shape = codes.shape, coded.shape
    return _attended(place, data, weights, place.input(2), place.input(5), (8,))


def _attended(
    place: _Place,
    data: ir.Value | None,
    weights: ir.Value | None,
    bias: ir.Value | None,
    mask: ir.Value | None,
    others: tuple[int, ...],
) -> Results:
    node = place.node
    shape, wide, heads = shape_of(data), shape_of(weights), integer(node, "num_heads", 0)
    masked = shape_of(mask)
    if any(place.input(index) is not None for index in others) or integer(node, "do_rotary", 0):
        return None
    if (
        shape is None
        or wide is None
        or wide[1] % (3 * heads)
        or "qkv_hidden_sizes" in node.attributes
    ):
        return None
    if mask is not None and masked not in ((shape[0],), shape[:2]):
        return None
    size = wide[1] // 3 // heads
    joined = place.add("MatMul", data, weights)
    if bias is not None:
        joined = place.add("Add", joined, bias)
    turned = []
    for index, order in enumerate(([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3])):
        bounds = [[index * heads * size], [(index + 1) * heads * size], [2]]
        part = place.add("Slice", joined, *(place.constant(np.array(b, np.int64)) for b in bounds))
        sizes = place.constant(np.array([*shape[:2], heads, size], np.int64))
        turned.append(place.add("Transpose", place.add("Reshape", part, sizes), perm=order))
    query, key, value = turned
    scale = number(node, "scale", 0.0) or 1 / sqrt(size)
    scores = place.add("Mul", place.add("MatMul", query, key), place.single(scale))
    lowest = number(node, "mask_filter_value", _LOWEST)
    if integer(node, "unidirectional", 0):
        later = np.triu(np.ones((shape[1], shape[1]), bool), 1)
        scores = place.add(
            "Add", scores, place.constant(np.where(later, lowest, 0).astype(np.float32))
        )
    if mask is not None:
        if masked == shape[:2]:
            kept = place.add("Cast", mask, to=ir.DataType.FLOAT)
        else:  # how many tokens there are
            numbers = place.constant(np.arange(shape[1], dtype=np.int32)[None])
            column = place.add("Reshape", mask, place.constant(np.array([-1, 1], np.int64)))
            kept = place.add("Cast", place.add("Less", numbers, column), to=ir.DataType.FLOAT)
        sizes = place.constant(np.array([shape[0], 1, 1, shape[1]], np.int64))
        kept = place.add("Reshape", kept, sizes)
        hidden = place.add("Sub", place.single(1), kept)
        scores = place.add("Add", scores, place.add("Mul", hidden, place.single(lowest)))
    result = place.add("MatMul", place.add("Softmax", scores, axis=-1), value)
    sizes = place.constant(np.array([*shape[:2], heads * size], np.int64))
    return [place.add("Reshape", place.add("Transpose", result, perm=[0, 2, 1, 3]), sizes)]


def _only(value: ir.Value | None) -> Results:
    return None if value is None else [value]


_SEVERAL: Final = ("EmbedLayerNormalization", "SkipLayerNormalization")
_EXPANSIONS: Final[Mapping[str, Callable[[_Place], Results]]] = {
    "Attention": _attention,
    "BiasGelu": _gelu,
    "DequantizeLinear": _conversion,
    "EmbedLayerNormalization": _embed_normalisation,
    "FastGelu": _fast_gelu,
    "FusedConv": _fused_conv,
    "FusedGemm": _fused_gemm,
    "FusedMatMul": _fused_matmul,
    "Gelu": _gelu,
    "MatMulNBits": _few_bits,
    "QAttention": _quantised_attention,
    "QuantizeLinear": _conversion,
    "QuickGelu": _quick_gelu,
    "SkipLayerNormalization": _skip_normalisation,
}
