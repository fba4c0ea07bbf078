# SPDX-License-Identifier: Apache-2.0
"""Quantisers of QONNX (Brevitas, hls4ml, FINN), as the conversions of ONNX.

``Quant(x, s, z, n)`` is ``(round(clip(x / s + z, low, high)) - z) s``, with the bounds of an
integer of n bits; ``narrow`` leaves its last code out. ``BipolarQuant`` is s or -s by the sign.
Constants are quantised here, with any rounding. With fewer than 8 bits integers are bounded.
Source: Pappalardo et al., "QONNX: Representing Arbitrary-Precision Quantized Neural Networks",
2022, section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import onnx_ir as ir

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.read.edit import (
    Array,
    Editor,
    array_of,
    input_of,
    integer,
    scalar_of,
    stand_for,
    text_of,
)
from tilewright.host.network.onnx_file import short

_BITS: Final = 8
_BITS_OF_CONSTANTS: Final = 32
"""Of biases, which become floats."""

_ROUNDINGS: Final = {
    "ROUND": np.rint,
    "CEIL": np.ceil,
    "FLOOR": np.floor,
    "ROUND_TO_ZERO": np.trunc,
}


@dataclass(frozen=True, kw_only=True)
class _Quantiser:
    """What a node states."""

    scale: Array
    zero: Array
    low: int
    high: int
    bipolar: bool
    rounding: str

    @property
    def dtype(self) -> type[np.int8 | np.uint8]:
        return np.int8 if self.low < 0 else np.uint8

    def real(self, constant: Array) -> Array:
        """What a constant is once it is rounded."""
        steps = constant.astype(np.float64) / self.scale + self.zero
        steps = _ROUNDINGS[self.rounding](np.clip(steps, self.low, self.high))
        return np.asarray((steps - self.zero) * self.scale, np.float32)

    def steps(self, constant: Array) -> Array:
        """The integers of a constant."""
        steps = constant.astype(np.float32) / self.scale + self.zero
        if self.bipolar:
            return np.where(steps >= 0, 1, -1).astype(self.dtype)
        return _ROUNDINGS[self.rounding](np.clip(steps, self.low, self.high)).astype(self.dtype)


def expand_quantisers(editor: Editor, node: ir.Node, path: Path) -> None:
    """Let ONNX's conversions take the place of a quantiser, in place."""
    refusal, data = _Refusal(node, path), node.inputs[0]
    constant = array_of(data)
    stated = _stated(node, refusal, _BITS if constant is None else _BITS_OF_CONSTANTS)
    assert data is not None
    if constant is not None and stated.high - stated.low >= 1 << _BITS:
        rounded = editor.constant(node.outputs[0].name or "rounded", stated.real(constant))
        ir.convenience.replace_all_uses_with(node.outputs[0], rounded)
        editor.graph.remove(node, safe=True)
        return
    if constant is None and not stated.bipolar and stated.rounding != "ROUND":
        raise refusal.says("must round to the nearest integer", stated.rounding)
    axis, scales, zeros = _axis(refusal, data, stated.scale, stated.zero)
    stem = node.outputs[0].name or "quantised"
    attributes = {} if axis is None else {"axis": axis}
    numbers = [
        editor.constant(f"{stem}_scale", scales.astype(np.float32)),
        editor.constant(f"{stem}_zero_point", zeros.astype(stated.dtype)),
    ]
    if constant is not None:
        quantised = editor.constant(f"{stem}_steps", stated.steps(constant))
    else:
        if stated.bipolar:
            data = _sign(editor, node, data, stated.scale)
        quantised = editor.before(
            node, "QuantizeLinear", [data, *numbers], attributes, stem=f"{stem}_steps"
        )
        held = (
            np.iinfo(stated.dtype).min >= stated.low and np.iinfo(stated.dtype).max <= stated.high
        )
        if not stated.bipolar and not held:
            ends = [
                editor.constant(f"{stem}_end", np.array(end, stated.dtype))
                for end in (stated.low, stated.high)
            ]
            quantised = editor.before(node, "Clip", [quantised, *ends], stem=f"{stem}_held")
    real = editor.before(node, "DequantizeLinear", [quantised, *numbers], attributes, stem=stem)
    real.shape, real.type = node.outputs[0].shape, ir.TensorType(ir.DataType.FLOAT)
    stand_for(node.outputs[0], real)
    editor.graph.remove(node, safe=True)


def _stated(node: ir.Node, refusal: _Refusal, most: int) -> _Quantiser:
    if node.op_type == "Trunc":
        raise refusal.says("must be Quant or BipolarQuant: nothing here truncates integers")
    scale, rounding = array_of(input_of(node, 1)), text_of(node, "rounding_mode", "ROUND").upper()
    if scale is None or not (np.isfinite(scale).all() and (scale > 0).all()):
        raise refusal.says("must have constant positive scales")
    zero, width = np.zeros((), np.float32), 1.0
    bipolar, signed = node.op_type == "BipolarQuant", bool(integer(node, "signed", 1))
    if not bipolar:
        found, bits = array_of(input_of(node, 2)), scalar_of(input_of(node, 3))
        if (
            found is None
            or bits is None
            or not np.isfinite([*found.flat, bits]).all()
            or (found != np.rint(found)).any()
        ):
            raise refusal.says("must have a constant whole zero point and number of bits")
        zero, width = found, bits
    if width != int(width) or not 1 <= width <= most:
        raise refusal.says(f"must have 1 to {most} bits", width)
    if rounding not in _ROUNDINGS:
        raise refusal.says(f"must round in one of the ways {', '.join(_ROUNDINGS)}", rounding)
    narrow, codes = integer(node, "narrow", 0), 1 << int(width)
    bipolar |= signed and codes == len(("-", "+"))
    low, high = (-codes // 2 + narrow, codes // 2 - 1) if signed else (0, codes - 1 - narrow)
    if bipolar:
        low, high = -1, 1
    stated = _Quantiser(
        scale=scale, zero=zero, low=low, high=high, bipolar=bipolar, rounding=rounding
    )
    limits = np.iinfo(stated.dtype)
    if not (limits.min <= zero.min() and zero.max() <= limits.max):
        raise refusal.says(f"must have a zero point of {limits.dtype}", float(zero.max()))
    return stated


def _sign(editor: Editor, node: ir.Node, data: ir.Value, scale: Array) -> ir.Value:
    """A scale where data are 0 or above, and its opposite elsewhere."""
    stem = f"{node.name}_sign"
    numbers = [
        editor.constant(stem, each.astype(np.float32)) for each in (np.zeros(()), scale, -scale)
    ]
    above = editor.before(node, "GreaterOrEqual", [data, numbers[0]], stem=stem)
    return editor.before(node, "Where", [above, *numbers[1:]], stem=stem)


def _axis(
    refusal: _Refusal, data: ir.Value, scale: Array, zero: Array
) -> tuple[int | None, Array, Array]:
    """The axis along which scales or zero points differ, and these; None: there is one of each."""
    shape = np.broadcast_shapes(scale.shape, zero.shape)
    axes = [index for index, size in enumerate(shape) if size != 1]
    if not axes:
        return None, scale.reshape(()), zero.reshape(())
    if len(axes) > 1 or data.shape is None or len(data.shape) < len(shape):
        raise refusal.says("must have its scales on one axis of data of known rank", list(shape))
    scales, zeros = (np.broadcast_to(each, shape).reshape(-1) for each in (scale, zero))
    return axes[0] + len(data.shape) - len(shape), scales, zeros


class _Refusal:
    def __init__(self, node: ir.Node, path: Path) -> None:
        self._field = f"{path}: {short(node.op_type)} {short(node.name or '')}".rstrip()

    def says(self, rule: str, value: object = None) -> WorkloadError:
        remedy = "export the model as QDQ or QCDQ, or with other quantisers"
        return WorkloadError(rule, field=self._field, value=value, remedy=remedy)
