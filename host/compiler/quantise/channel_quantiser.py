# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime's quantiser, which scales all channels at once and finds readers by name.

It takes weights channel by channel otherwise: of the time that MobileNet-v2's 17,000 channels take,
nearly all is Python's; and it walks through all nodes for each tensor, minutes for recurrent layers
step by step. The results are the same, bit by bit (`tests/unit/host/compiler/quantise`).
Its range of what a ReLU reads is that of the ReLU's result: not here for a result of the model.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import onnx
from onnx import numpy_helper
from onnxruntime.quantization import qdq_quantizer
from onnxruntime.quantization.base_quantizer import QuantizationParams
from onnxruntime.quantization.onnx_model import ONNXModel
from onnxruntime.quantization.quant_utils import quantize_onnx_initializer

Array = npt.NDArray[Any]

_INT8: Final = onnx.TensorProto.INT8
_STEPS: Final = 254.0
"""Of symmetric int8: from -127 to 127."""


class ChannelQuantiser(qdq_quantizer.QDQQuantizer):  # type: ignore[misc]  # it has no types
    """Puts QuantizeLinear and DequantizeLinear around the operators of a model."""

    tensors_to_quantize: dict[str, Any]
    tensors_range: Any
    model: ONNXModel

    def quantize_model(self) -> onnx.ModelProto:
        """Quantise the model, in place."""
        qdq_quantizer.quantize_onnx_initializer = _rounded
        self.model = _IndexedModel(self.model.model)
        try:
            quantised: onnx.ModelProto = super().quantize_model()
            return quantised
        finally:
            qdq_quantizer.quantize_onnx_initializer = quantize_onnx_initializer

    def adjust_tensor_ranges(self) -> None:
        """Let what a ReLU or Clip alone reads have its range, but not what leaves the model."""
        leaving = {value.name for value in self.model.graph().output}
        kept = {name: self.tensors_range[name] for name in leaving if name in self.tensors_range}
        super().adjust_tensor_ranges()
        for name, found in kept.items():
            self.tensors_range[name] = found

    def _calc_initializer_quant_params(self) -> dict[str, Any]:
        """Scales and zero points of constants, by name."""
        every, constants = self.tensors_to_quantize, self.initializers
        weights = {
            name: info.axis
            for name, info in every.items()
            if info.axis is not None
            and info.tensor_type is qdq_quantizer.QDQQuantTensorType.WEIGHT
            and self.weight_qType == _INT8
            and name in constants
            and constants[name].data_type == onnx.TensorProto.FLOAT
            and min(constants[name].dims, default=0) > 0
            and self.tensor_quant_overrides.get(name) is None
        }
        self.tensors_to_quantize = {n: info for n, info in every.items() if n not in weights}
        try:
            found: dict[str, Any] = super()._calc_initializer_quant_params()
        finally:
            self.tensors_to_quantize = every
        for name, axis in weights.items():
            array = numpy_helper.to_array(constants[name])
            scales = channel_scales(array, axis)
            found[name] = QuantizationParams(
                zero_point=np.zeros(scales.size, np.int8),
                scale=scales,
                quant_type=_INT8,
                axis=axis % array.ndim,
            )
        return found


class _IndexedModel(ONNXModel):  # type: ignore[misc]  # it has no types
    """A model that finds constants, and the nodes at a tensor, by name, not one after another."""

    def __init__(self, model: onnx.ModelProto) -> None:
        super().__init__(model)
        self._constants: dict[str, onnx.TensorProto] = {}
        self._forget()

    def get_initializer(self, name: str) -> onnx.TensorProto | None:
        constants = self.initializer()
        for tensor in constants[len(self._constants) :]:
            self._constants[tensor.name] = tensor
        if len(self._constants) != len(constants):  # some went, or share a name
            self._constants = {tensor.name: tensor for tensor in reversed(constants)}
        return self._constants.get(name)

    def add_initializer(self, tensor: onnx.TensorProto) -> None:
        if self.get_initializer(tensor.name) is None:
            self._check_init(tensor)
            self.initializer().append(tensor)

    def remove_initializer(self, tensor: onnx.TensorProto) -> None:
        super().remove_initializer(tensor)
        self._constants.pop(tensor.name, None)

    def _forget(self) -> None:
        self._readers: dict[str, list[onnx.NodeProto]] = {}
        self._writers: dict[str, list[onnx.NodeProto]] = {}
        self._indexed = 0

    def _index(self) -> None:
        for node in self.nodes()[self._indexed :]:
            for name in dict.fromkeys(node.input):
                self._readers.setdefault(name, []).append(node)
            for name in dict.fromkeys(node.output):
                self._writers.setdefault(name, []).append(node)
        self._indexed = len(self.nodes())

    def replace_input_of_all_nodes(self, old_input_name: str, new_input_name: str) -> None:
        self._index()
        moved = self._readers.pop(old_input_name, [])
        self._readers.setdefault(new_input_name, []).extend(moved)
        for node in moved:
            self.replace_node_input(node, old_input_name, new_input_name)

    def replace_output_of_all_nodes(self, old_output_name: str, new_output_name: str) -> None:
        self._index()
        moved = self._writers.pop(old_output_name, [])
        self._writers.setdefault(new_output_name, []).extend(moved)
        for node in moved:
            self.replace_node_output(node, old_output_name, new_output_name)

    def replace_input_of_nodes(self, old: str, new: str, node_names_set: set[str]) -> None:
        super().replace_input_of_nodes(old, new, node_names_set)
        self._forget()

    def replace_output_of_nodes(self, old: str, new: str, node_names_set: set[str]) -> None:
        super().replace_output_of_nodes(old, new, node_names_set)
        self._forget()

    def remove_nodes(self, nodes_to_remove: list[onnx.NodeProto]) -> None:
        super().remove_nodes(nodes_to_remove)
        self._forget()


def channel_scales(weights: Array, axis: int) -> Array:
    """The scale of each channel, float32, with which its largest magnitude becomes 127.

    Args:
        weights: float32, finite.
        axis: of the channels.
    """
    rows = np.moveaxis(weights, axis, 0).reshape(weights.shape[axis], -1)
    largest = np.maximum(rows.max(axis=1), -rows.min(axis=1)).astype(np.float64)
    if not np.isfinite(largest).all():
        raise ValueError("weights must be finite")
    scales = 2 * largest / _STEPS
    return np.where(scales < np.finfo(np.float32).tiny, 1.0, scales).astype(np.float32)


def _rounded(
    weight: onnx.TensorProto,
    quant_type: int,
    zero_point: Array,
    scale: Array,
    axis: int | None = None,
    quant_weight_name: str | None = None,
    block_size: int = 0,
) -> onnx.TensorProto:
    """`quantize_onnx_initializer`, for int8 with a scale for each channel without a loop."""
    plain = quant_type == _INT8 and weight.data_type == onnx.TensorProto.FLOAT
    if not plain or axis is None or block_size or quant_weight_name or np.any(zero_point):
        rounded: onnx.TensorProto = quantize_onnx_initializer(
            weight, quant_type, zero_point, scale, axis, quant_weight_name, block_size
        )
        return rounded
    array = numpy_helper.to_array(weight)
    wide = scale.reshape([-1 if index == axis else 1 for index in range(array.ndim)])
    steps = np.clip((array / wide).round(), -128, 127).astype(np.int8)
    return numpy_helper.from_array(steps, f"{weight.name}_quantized")
