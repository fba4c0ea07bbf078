# SPDX-License-Identifier: Apache-2.0
"""The independent integer reference of a workload: what every device must return, bit for bit."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.host.errors import WorkloadError
from tilewright.host.requant import RequantParams, clip_bounds, requantise, snap_scales
from tilewright.host.workload import Kind, Workload

Int8Array = npt.NDArray[np.int8]


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerTensors:
    """The operands of one workload.

    Attributes:
        data: int8 input, (N, C, H, W).
        weights: int8, (O, I, KH, KW); I = 1 for depthwise.
        requant: parameters of the epilogue, one entry an output channel.
        residual: int8 of the output's shape, or None.
    """

    data: Int8Array
    weights: Int8Array
    requant: RequantParams
    residual: Int8Array | None = None

    def check(self, workload: Workload) -> None:
        """Refuse tensors that do not belong to a workload.

        Raises:
            WorkloadError: a wrong shape or type, a missing or unexpected residual.
        """
        if workload.residual != (self.residual is not None):
            raise WorkloadError(
                "a residual tensor must be given exactly when the workload adds one",
                field=f"{workload.name}.residual",
                value=self.residual is not None,
            )
        for name, array, shape in (
            ("data", self.data, workload.input_shape),
            ("weights", self.weights, workload.weight_shape),
            ("residual", self.residual, workload.output_shape),
        ):
            if array is None:
                continue
            if array.dtype != np.int8 or array.shape != shape:
                raise WorkloadError(
                    f"must be int8 of shape {shape}",
                    field=f"{workload.name}.{name}",
                    value=f"{array.dtype} of shape {array.shape}",
                )
        if self.requant.channels != workload.channels_out:
            raise WorkloadError(
                f"must have {workload.channels_out} channels",
                field=f"{workload.name}.requant",
                value=self.requant.channels,
            )


def accumulate(workload: Workload, data: Int8Array, weights: Int8Array) -> npt.NDArray[np.int32]:
    """The convolution's exact int32 accumulators, (N, O, OH, OW).

    One matrix product per kernel position, in float64: every partial sum is an integer below
    2^31 (`Workload` bounds the reduction), so the arithmetic is exact.
    """
    n, _, _, _ = workload.input_shape
    out_h, out_w = workload.out_height, workload.out_width
    padded = np.pad(
        data,
        (
            (0, 0),
            (0, 0),
            (workload.pad_top, workload.pad_bottom),
            (workload.pad_left, workload.pad_right),
        ),
    ).astype(np.float64)
    kernel = weights.astype(np.float64)
    acc = np.zeros((n, workload.channels_out, out_h * out_w))
    for i in range(workload.kernel_h):
        top = i * workload.dilation_h
        rows = slice(top, top + (out_h - 1) * workload.stride_h + 1, workload.stride_h)
        for j in range(workload.kernel_w):
            left = j * workload.dilation_w
            columns = slice(left, left + (out_w - 1) * workload.stride_w + 1, workload.stride_w)
            pixels = padded[:, :, rows, columns].reshape(n, workload.channels_in, -1)
            if workload.kind is Kind.DEPTHWISE:
                acc += pixels * kernel[None, :, 0, i, j, None]
            else:
                acc += kernel[:, :, i, j] @ pixels
    return acc.reshape(n, workload.channels_out, out_h, out_w).astype(np.int32)


def conv2d_int8(workload: Workload, tensors: LayerTensors) -> Int8Array:
    """The workload's output, int8 (N, O, OH, OW), by definition rather than by tiles.

    Raises:
        WorkloadError: tensors that do not belong to the workload.
    """
    tensors.check(workload)
    acc = accumulate(workload, tensors.data, tensors.weights)
    return requantise(acc, tensors.requant, tensors.residual)


def random_tensors(workload: Workload, rng: np.random.Generator) -> LayerTensors:
    """Random operands whose outputs spread over the int8 range instead of saturating.

    The accumulator of `reduction` products of uniform int8 values has a standard deviation of
    about ``74 * 74 * sqrt(reduction)``; it is scaled to 25-50, channel by channel.
    """
    channels = workload.channels_out
    deviation = 74.0 * 74.0 * math.sqrt(workload.reduction)
    scales = rng.uniform(25.0, 50.0, channels) / deviation
    residual_scales = rng.uniform(0.2, 0.6, channels) if workload.residual else np.zeros(channels)
    snapped = [
        snap_scales(float(a), float(b)) for a, b in zip(scales, residual_scales, strict=True)
    ]
    m1, m2, shift = (np.array(column) for column in zip(*snapped, strict=True))
    low, high = clip_bounds(workload)
    spread = int(deviation / 2)
    requant = RequantParams(
        bias=rng.integers(-spread, spread, channels, dtype=np.int32, endpoint=True),
        m1=m1,
        m2=m2,
        shift=shift,
        zero_point=rng.integers(-8, 8, channels, dtype=np.int8, endpoint=True),
        clip_min=low,
        clip_max=high,
    )

    def int8(shape: tuple[int, ...]) -> Int8Array:
        return rng.integers(-128, 128, shape, dtype=np.int8)

    return LayerTensors(
        data=int8(workload.input_shape),
        weights=int8(workload.weight_shape),
        requant=requant,
        residual=int8(workload.output_shape) if workload.residual else None,
    )
