# SPDX-License-Identifier: Apache-2.0
"""The independent integer reference of a workload: what every device must return, bit for bit."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.network.requant import RequantParams, clip_bounds, requantise, snap_scales
from tilewright.host.network.workload import Kind, Workload

Int8Array = npt.NDArray[np.int8]

PAD_MAXPOOL: Final = -128
"""What padding counts as in a max pool: no pixel is smaller."""


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerTensors:
    """The operands of one workload.

    Attributes:
        weights: int8, (O, I, KH, KW), I = 1 for depthwise; None for kinds without weights.
        factor: int8 of the workload's `factor_shape`; None for all but products.
    """

    data: Int8Array  # int8 input, (N, C, H, W)
    weights: Int8Array | None
    requant: RequantParams  # parameters of the epilogue, one entry an output channel
    residual: Int8Array | None = None  # int8 of the output's shape, or None
    factor: Int8Array | None = None
    factor_zero: int = 0  # int8 value that stands for 0 in `factor`

    def check(self, workload: Workload) -> None:
        """Refuse tensors that do not belong to a workload."""
        if workload.kind.weighs != (self.weights is not None):
            raise WorkloadError(
                "weights must be given exactly when the workload is a convolution",
                field=f"{workload.name}.weights",
                value=self.weights is not None,
                remedy="give int8 weights for a convolution, None for any other kind",
            )
        if workload.kind.pairs != (self.factor is not None):
            raise WorkloadError(
                "a factor must be given exactly when the workload is a product",
                field=f"{workload.name}.factor",
                value=self.factor is not None,
                remedy="give the second tensor of a product, None for any other kind",
            )
        if workload.residual != (self.residual is not None):
            raise WorkloadError(
                "a residual tensor must be given exactly when the workload adds one",
                field=f"{workload.name}.residual",
                value=self.residual is not None,
                remedy="give the residual, or set the workload's residual to match",
            )
        for name, array, shape in (
            ("data", self.data, workload.input_shape),
            ("weights", self.weights, workload.weight_shape),
            ("residual", self.residual, workload.output_shape),
            ("factor", self.factor, workload.factor_shape),
        ):
            if array is None:
                continue
            if array.dtype != np.int8 or array.shape != shape:
                raise WorkloadError(
                    f"must be int8 of shape {shape}",
                    field=f"{workload.name}.{name}",
                    value=f"{array.dtype} of shape {array.shape}",
                    remedy="convert and reshape the array, or correct the workload",
                )
        if self.requant.channels != workload.channels_out:
            raise WorkloadError(
                f"must have {workload.channels_out} channels",
                field=f"{workload.name}.requant",
                value=self.requant.channels,
                remedy="give bias, multipliers and shifts for each output channel",
            )


def accumulate(
    workload: Workload, data: Int8Array, weights: Int8Array | None
) -> npt.NDArray[np.int32]:
    """The exact int32 accumulators, (N, O, OH, OW).

    One pass per kernel position: the maximum, the sum, or a matrix product in float64, whose every
    partial sum is an integer below 2^31 (`Workload` bounds the reduction), so that it is exact.

    Args:
        workload: what to compute.
        data: int8 of its input's shape.
        weights: int8 of its weights' shape; None for a pool.
    """
    n, channels, out_h, out_w = workload.output_shape
    pad = PAD_MAXPOOL if workload.kind is Kind.MAXPOOL else 0
    acc = np.full((n, channels, out_h * out_w), float(pad))
    for i, j, pixels in _taps(workload, data, pad=pad):
        if weights is None:
            (np.maximum if workload.kind is Kind.MAXPOOL else np.add)(acc, pixels, out=acc)
        elif workload.kind is Kind.DEPTHWISE:
            acc += pixels * weights[None, :, 0, i, j, None].astype(np.float64)
        else:
            acc += weights[:, :, i, j].astype(np.float64) @ pixels
    return acc.reshape(n, channels, out_h, out_w).astype(np.int32)


def _taps(
    workload: Workload, data: Int8Array, *, pad: int
) -> Iterator[tuple[int, int, npt.NDArray[np.float64]]]:
    """What each kernel position (row, column) sees: float64 (N, C, OH * OW)."""
    n, channels, _, _ = workload.input_shape
    sides = (
        (0, 0),
        (0, 0),
        (workload.pad_top, workload.pad_bottom),
        (workload.pad_left, workload.pad_right),
    )
    padded = np.pad(data, sides, constant_values=pad).astype(np.float64)
    height, width = workload.out_height, workload.out_width
    for i in range(workload.kernel_h):
        top = i * workload.dilation_h
        rows = slice(top, top + (height - 1) * workload.stride_h + 1, workload.stride_h)
        for j in range(workload.kernel_w):
            left = j * workload.dilation_w
            columns = slice(left, left + (width - 1) * workload.stride_w + 1, workload.stride_w)
            yield i, j, padded[:, :, rows, columns].reshape(n, channels, -1)


_PAIRED: Final = {Kind.MAXIMUM: np.maximum, Kind.MINIMUM: np.minimum}
"""What is computed of two tensors that is no product."""


def conv2d_int8(workload: Workload, tensors: LayerTensors) -> Int8Array:
    """The workload's output, int8 (N, O, OH, OW), by definition rather than by tiles.

    Of a product the accumulator is ``data * (factor - factor_zero)``, of a maximum or minimum that
    of both. The factor is also the residual: with the data's zero point z, ``m2 * 2^8`` close to
    ``-z * m1`` takes z times the factor off a product again.
    """
    tensors.check(workload)
    if tensors.factor is not None:
        factor = np.broadcast_to(tensors.factor, tensors.data.shape)
        other = factor.astype(np.int32) - tensors.factor_zero
        acc = _PAIRED.get(workload.kind, np.multiply)(tensors.data.astype(np.int32), other)
        return requantise(acc, tensors.requant, factor)
    acc = accumulate(workload, tensors.data, tensors.weights)
    return requantise(acc, tensors.requant, tensors.residual)


def random_tensors(
    workload: Workload, rng: np.random.Generator, *, factor_zero: int = 0
) -> LayerTensors:
    """Random operands whose outputs spread over the int8 range instead of saturating.

    The accumulators of each channel (`_accumulator_spread`) are centred and scaled to a standard
    deviation of 25-50. About half of a max pool's channels keep their values instead: scale 1
    and nothing added. The factor of a product has the zero point ``factor_zero``.
    """
    channels = workload.channels_out
    centre, deviation = _accumulator_spread(workload, factor_zero)
    scales = rng.uniform(25.0, 50.0, channels) / deviation
    adds = workload.residual or workload.kind.pairs
    residual_scales = rng.uniform(0.2, 0.6, channels) if adds else np.zeros(channels)
    spread = int(deviation / 2)
    bias = rng.integers(-spread, spread, channels, dtype=np.int32, endpoint=True) - round(centre)
    zero_point = rng.integers(-8, 8, channels, dtype=np.int8, endpoint=True)
    if workload.kind is Kind.MAXPOOL:
        keeps = rng.random(channels) < 0.5
        scales[keeps], bias[keeps], zero_point[keeps] = 1.0, 0, 0
    m1, m2, shift = snap_scales(scales, residual_scales)
    if workload.kind.pairs:
        m2 *= rng.choice([-1, 1], channels)
    low, high = clip_bounds(workload)
    requant = RequantParams(
        bias=bias, m1=m1, m2=m2, shift=shift, zero_point=zero_point, clip_min=low, clip_max=high
    )

    def int8(shape: tuple[int, ...], bits: int = 8) -> Int8Array:
        return rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), shape, dtype=np.int8)

    return LayerTensors(
        data=int8(workload.input_shape),
        weights=int8(workload.weight_shape, workload.weight_bits) if workload.kind.weighs else None,
        requant=requant,
        residual=int8(workload.output_shape) if workload.residual else None,
        factor=int8(workload.factor_shape) if workload.kind.pairs else None,
        factor_zero=factor_zero,
    )


def _accumulator_spread(workload: Workload, factor_zero: int) -> tuple[float, float]:
    """Mean and standard deviation of accumulators of uniform int8 operands.

    A product has a standard deviation of about ``74 * 74``, and `reduction` of them are added. The
    maximum of n values is the last order statistic of a uniform sample (a Beta(n, 1) variable).
    """
    if workload.kind.weighs:
        weights = 74.0 if workload.weight_bits == 8 else 4.6
        return 0.0, 74.0 * weights * math.sqrt(workload.reduction)
    if workload.kind.pairs:
        return 0.0, 74.0 * (1.0 if workload.kind in _PAIRED else math.hypot(74.0, factor_zero))
    taps = workload.kernel_h * workload.kernel_w
    if workload.kind is Kind.AVGPOOL:
        return 0.0, 74.0 * math.sqrt(taps)
    mean = 256.0 * taps / (taps + 1) - 128.0
    return mean, max(1.0, 256.0 * math.sqrt(taps / (taps + 2)) / (taps + 1))
