# SPDX-License-Identifier: Apache-2.0
"""`QGraph`: a region of a quantised network, operator by operator, with real scales.

`host.compiler.divide` produces it from a model; `host.compiler.lower.fuse`
rewrites it; `host.compiler.lower.layers` turns it into workloads with integer parameters. Tensors
are int8 and four-dimensional. The real value of an element is ``scale * (q - zero_point)``.

Normal form of shapes, whatever the model calls its axes:

- images are NCHW;
- a sequence ``(B, T, C)`` is ``(B, C, T, 1)``: features are channels, tokens are rows; the
  pixels of an image with channels last ``(B, H, W, C)`` are such tokens: ``(B, C, H*W, 1)``;
- images without rows and columns ``(B, C, P)`` are ``(B, C, P/W, W)`` for any W;
- features ``(B, C)`` are ``(B, C, 1, 1)``;
- the heads of attention are folded into channels: ``(B, H, T, d)`` is ``(B, H*d, T, 1)`` and scores
  ``(B, H, T, S)`` are ``(B, H*S, T, 1)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isfinite

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError

Shape = tuple[int, int, int, int]
Pair = tuple[int, int]
Bounds = tuple[float | None, float | None]
"""Real-valued activation bounds (low, high); None is unbounded. ReLU is (0, None)."""

UNBOUNDED: Bounds = (None, None)


def compose(first: Bounds, second: Bounds) -> Bounds:
    """The bounds of a clip that is followed by a second clip."""

    def clip(value: float | None, missing: float | None) -> float | None:
        if value is None:
            return missing
        if second[0] is not None:
            value = max(value, second[0])
        return value if second[1] is None else min(value, second[1])

    return clip(first[0], second[0]), clip(first[1], second[1])


@dataclass(frozen=True, kw_only=True)
class QTensor:
    """An int8 activation tensor."""

    name: str  # unique in its graph
    shape: Shape  # in normal form (see the module)
    scale: float  # real value of one step; positive
    zero_point: int = 0  # int8 value that stands for 0

    def __post_init__(self) -> None:
        """Validate."""
        if len(self.shape) != 4 or min(self.shape) < 1:
            raise WorkloadError("must be four positive sizes", field=self.name, value=self.shape)
        if not (isfinite(self.scale) and self.scale > 0):
            raise WorkloadError(
                "must be a positive number", field=f"{self.name}.scale", value=self.scale
            )
        if not -128 <= self.zero_point <= 127:
            raise WorkloadError(
                "must be from -128 to 127", field=f"{self.name}.zero_point", value=self.zero_point
            )

    def real(self, code: int) -> float:
        """The real value of an int8 element."""
        return self.scale * (code - self.zero_point)

    def clips(self, other: QTensor) -> Bounds:
        """The ends of this tensor's range that lie inside the range of another tensor.

        What is rounded to the other one without having been rounded to this one needs these bounds.
        """
        low, high = self.real(-128), self.real(127)
        steps = np.rint(np.divide((low, high), other.scale)) + other.zero_point
        return low if steps[0] > -128 else None, high if steps[1] < 127 else None


@dataclass(frozen=True, kw_only=True, eq=False)
class Lookup:
    """A table behind an operator: its result is rounded to a scale, then an entry is looked up.

    Attributes:
        scale, zero_point: of the rounded result.
        entries: int8, shape (256,): what the output is for the rounded results -128 to 127.
    """

    scale: float
    zero_point: int
    entries: npt.NDArray[np.int8]


@dataclass(frozen=True, kw_only=True, eq=False)
class QOperator:
    """An operator: names of its input tensors and of its one output tensor.

    Attributes:
        inputs, output: tensor names.
        bounds: activation applied to the real result before it is rounded to `output`.
        lookup: any other activation; the result, within `bounds`, is rounded to its scale instead.
    """

    name: str  # label, unique in its graph
    inputs: tuple[str, ...]
    output: str
    bounds: Bounds = UNBOUNDED
    lookup: Lookup | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class QConv(QOperator):
    """A convolution, transposed convolution or dense layer with constant weights.

    Attributes:
        inputs: (data,), or (data, residual): a tensor of the output's shape that is added before
            the activation.
        weights: int8, zero point 0; (O, I/groups, KH, KW), transposed: (I, O/groups, KH, KW).
        stride, dilation: (rows, columns).
        pads: (top, left, bottom, right); of a transposed convolution what is cut off the result.
        transposed: the gradient of a convolution; `output_padding` rows and columns are added.
    """

    weights: npt.NDArray[np.int8]
    weight_scales: npt.NDArray[np.float64]  # (O,), one per channel
    bias: npt.NDArray[np.float64]  # (O,) real values, added before the activation
    stride: Pair = (1, 1)
    dilation: Pair = (1, 1)
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)
    groups: int = 1  # as in ONNX; equals the channels of a depthwise convolution
    transposed: bool = False
    output_padding: Pair = (0, 0)
    subtracts: bool = False  # the residual


@dataclass(frozen=True, kw_only=True, eq=False)
class QPool(QOperator):
    """Max or average pooling over windows.

    Attributes:
        maximum: maximum, otherwise the average over all elements of the window; padding counts as
            elements with value 0.
        kernel, stride, dilation: (rows, columns).
    """

    maximum: bool
    kernel: Pair
    stride: Pair
    dilation: Pair = (1, 1)  # of a maximum
    pads: tuple[int, int, int, int] = (0, 0, 0, 0)  # (top, left, bottom, right)
    factor: float = 1.0  # real factor of an average; as many as the elements make it a sum


@dataclass(frozen=True, kw_only=True, eq=False)
class QAdd(QOperator):
    """The sum of two tensors of equal shape, or their difference."""

    subtracts: bool = False  # the second one


@dataclass(frozen=True, kw_only=True, eq=False)
class QConcat(QOperator):
    """Inputs one after another along the channels."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QStack(QOperator):
    """Inputs one below another: images of as many channels and columns."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QSelect(QOperator):
    """Some channels of its input, in any order: a split, a slice, a shuffle."""

    channels: tuple[int, ...]  # of the input, one per channel of the output


@dataclass(frozen=True, kw_only=True, eq=False)
class QGather(QOperator):
    """Pixels of one image in another order, or some of them; scale and zero point stay.

    Attributes:
        pixels: of the input, its rows one after another; one for each pixel of the output.
    """

    pixels: npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True, eq=False)
class QRescale(QOperator):
    """The same values at another scale (with an activation: a ReLU, clip or table of its own)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QPrelu(QOperator):
    """A ReLU that multiplies negative values."""

    slopes: npt.NDArray[np.float64]  # (C,) real factors of the negative values, one per channel


@dataclass(frozen=True, kw_only=True, eq=False)
class QEnlarge(QOperator):
    """An image enlarged by whole factors, bilinearly.

    The centres of pixels lie at halves (``half_pixel``): output row o is at input row
    ``(o + 1/2) / factor - 1/2``, between the two nearest; the border goes on outside.
    """

    factors: Pair  # of rows and columns


@dataclass(frozen=True, kw_only=True, eq=False)
class QReshape(QOperator):
    """The same elements in the same NCHW order with another shape; scale and zero point stay."""


@dataclass(frozen=True, kw_only=True, eq=False)
class QTurn(QOperator):
    """Channels and pixels of one image exchanged: (1, C, H, W) becomes (1, H*W, C, 1).

    Scale and zero point stay.
    """


@dataclass(frozen=True, kw_only=True, eq=False)
class QMatmul(QOperator):
    """Products of two activations, head by head (inputs: a, b).

    With H heads, ``a`` is (B, H*K, T, 1). Head h of the output (B, H*N, T, 1) is
    ``out[n, t] = factor * sum_k a[k, t] * m[n, k]``.

    With W windows, tokens are those of windows that follow each other, and each window of ``a`` is
    multiplied by its window of ``b``.

    Attributes:
        b_rows_are_outputs: ``b`` is (B, H*K, N, 1) and ``m[n, k] = b[k, n]`` (scores: queries
            times keys); otherwise ``b`` is (B, H*N, K, 1) and ``m[n, k] = b[n, k]`` (context:
            scores times values).
    """

    heads: int  # H
    b_rows_are_outputs: bool
    windows: int = 1  # W
    factor: float = 1.0  # real factor of the product, such as 1/sqrt(d)


@dataclass(frozen=True, kw_only=True, eq=False)
class QMultiply(QOperator):
    """The product of two tensors, element by element; one of them may have one pixel.

    Such a factor (B, C, 1, 1) multiplies each channel of the other one, (B, C, H, W).
    """


@dataclass(frozen=True, kw_only=True, eq=False)
class QExtreme(QOperator):
    """The greater or the lesser one of two tensors, element by element.

    Both have one scale and zero point.
    """

    maximum: bool


@dataclass(frozen=True, kw_only=True, eq=False)
class QSoftmax(QOperator):
    """Softmax over the channels of each pixel, head by head, of the sum with a constant and a mask.

    Attributes:
        inputs: (data,), or (data, mask): a tensor (1, S, 1, 1), where a head has S channels, that
            is added to every pixel of every head; its zero point is 0.
        addend: real numbers of the input's shape, added before; minus infinity is a mask. In a unit
            that has no place in a region yet: of the shape that the model gives the input.
    """

    heads: int = 1  # parts of the channels that are rows of their own
    addend: npt.NDArray[np.float64] | None = None


@dataclass(frozen=True, kw_only=True, eq=False)
class QLayerNorm(QOperator):
    """Layer normalisation over the channels of each pixel.

    Attributes:
        gamma, beta: (C,) real factors and addends.
    """

    gamma: npt.NDArray[np.float64]
    beta: npt.NDArray[np.float64]
    epsilon: float = 0.0  # real, added to the variance


@dataclass(frozen=True, kw_only=True, eq=False)
class QGraph:
    """A region: operators in topological order.

    Attributes:
        operators: in an order in which every input is known; each tensor is written once.
        inputs, outputs: tensor names, in the order of the region's arguments and results.
        saturates: the model clips its tensors to their int8 ranges, and means it: a tensor that is
            fused away leaves its range behind as bounds. False: the model is float, and its
            calibration chose the ranges.
        model_shapes: the shape that the model gives an input or output, where it differs from the
            normal form's (a pure reshape or, for sequences, a transpose: see `to_normal_form`).
        any_strides: outputs that only the caller reads, or what converts them for it: to them it is
            all the same where in memory the elements of an array lie.
        constants: the elements of tensors that the region holds itself, in normal form.
    """

    name: str  # label
    tensors: Mapping[str, QTensor]  # all tensors by name
    operators: tuple[QOperator, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    keep_rounding: bool = False  # every tensor is rounded as the model does it
    saturates: bool = True
    model_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    any_strides: frozenset[str] = frozenset()
    constants: Mapping[str, npt.NDArray[np.int8]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse a graph that is not closed, sorted and single-assignment."""
        known = {*self.inputs, *self.constants}
        for name, values in self.constants.items():
            fits = name in self.tensors and values.shape == self.tensors[name].shape
            self._require(fits, "must have the shape of its tensor", "constants", name)
        for name in self.inputs:
            self._require(name in self.tensors, "must be a known tensor", "inputs", name)
        for operator in self.operators:
            where = f"{self.name}.{operator.name}"
            for name in operator.inputs:
                self._require(name in known, "must be written before it is read", where, name)
            self._require(operator.output in self.tensors, "must be known", where, operator.output)
            self._require(
                operator.output not in known, "must be written once", where, operator.output
            )
            known.add(operator.output)
        for name in self.outputs:
            self._require(name in known, "must be written", "outputs", name)

    def _require(self, holds: bool, rule: str, where: str, value: str) -> None:
        if not holds:
            raise WorkloadError(rule, field=f"{self.name}.{where}", value=value)

    def readers(self) -> dict[str, list[QOperator]]:
        """Operators that read each tensor, in order."""
        readers: dict[str, list[QOperator]] = {name: [] for name in self.tensors}
        for operator in self.operators:
            for name in dict.fromkeys(operator.inputs):
                readers[name].append(operator)
        return readers

    def writers(self) -> dict[str, QOperator]:
        """The operator that writes each tensor that is neither an input nor a constant."""
        return {operator.output: operator for operator in self.operators}


def to_normal_form(data: npt.NDArray[np.int8], shape: Shape) -> npt.NDArray[np.int8]:
    """A model's int8 array as a tensor of the normal form.

    Four-dimensional arrays keep their shape, or, as attention's ``(B, H, T, d)``, fold heads into
    channels, or, with channels last, ``(B, H, W, C)`` becomes ``(B, C, H*W, 1)``; ``(B, T, C)``
    becomes ``(B, C, T, 1)``; ``(B, C)`` becomes ``(B, C, 1, 1)`` or, as pixels of one image,
    ``(1, C, B, 1)``, and ``(C,)`` ``(1, C, 1, 1)``.
    """
    if data.shape == shape:
        return np.ascontiguousarray(data)
    if data.ndim == 4 and shape[3] == 1 and shape[1] == data.shape[3]:
        b, rows, columns, channels = data.shape
        folded = data.reshape(b, rows * columns, channels).transpose(0, 2, 1)[..., None]
    elif data.ndim == 4 and shape[3] == 1:
        b, heads, tokens, width = data.shape
        folded = data.transpose(0, 1, 3, 2).reshape(b, heads * width, tokens, 1)
    elif data.ndim == 1 or data.ndim > 4:
        folded = data.reshape(1, -1, *shape[2:])
    elif data.ndim == 3:
        folded = data.transpose(0, 2, 1)[..., None]
    elif is_channels_last(shape, data.shape):
        folded = data.T[None, ..., None]
    else:
        folded = data.reshape(*data.shape, *(1,) * (4 - data.ndim))
    if folded.shape != shape:
        raise WorkloadError(f"must lead to the shape {shape}", field="data", value=data.shape)
    return np.ascontiguousarray(folded)


def is_channels_last(shape: tuple[int, ...], model_shape: tuple[int, ...]) -> bool:
    """Whether channels are the last axis of the array that is a tensor of the normal form.

    Args:
        shape: of the tensor.
        model_shape: of the model's array.
    """
    if shape == model_shape or shape[3] != 1:
        return False
    if len(model_shape) == 3:
        return shape[:2] != model_shape[:2] or shape[1] == shape[2]
    if len(model_shape) == 2:
        return shape[0] == 1 < model_shape[0]
    return len(model_shape) == 4 and shape[1] == model_shape[3]


def from_normal_form(
    data: npt.NDArray[np.int8], model_shape: tuple[int, ...]
) -> npt.NDArray[np.int8]:
    """Inverse of `to_normal_form`; a view of an image's data, also if its channels are no plane."""
    if data.shape == model_shape:
        return data
    if data.size != int(np.prod(model_shape)):
        raise WorkloadError("must have as many elements", field="data", value=data.shape)
    if is_channels_last(data.shape, model_shape):
        plain = data[..., 0].transpose(0, 2, 1).reshape(model_shape)
    elif len(model_shape) == 4 and data.shape[1] != model_shape[3]:
        b, heads, tokens, width = model_shape
        plain = data.reshape(b, heads, width, tokens).transpose(0, 1, 3, 2)
    elif len(model_shape) == 4 or (len(model_shape) == 3 and data.shape[:2] != model_shape[:2]):
        raise WorkloadError("has no rule that leads to it", field="model_shape", value=model_shape)
    else:
        plain = data.reshape(model_shape)
    return plain
