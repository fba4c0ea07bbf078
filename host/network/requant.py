# SPDX-License-Identifier: Apache-2.0
"""The requantise epilogue: its parameters, the snapping of real scales, and the exact arithmetic.

``q = clip(rint_half_even(((acc + bias) * m1 + r * m2 * 2^8) / 2^shift) + zero_point, lo, hi)``
with one rounding; the output is q, or with a table its entry for q. This module is the authority on
that formula; the RTL and every device agree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.machine.isa import MAX_SHIFT, RESIDUAL_SHIFT, TABLE_ENTRIES
from tilewright.host.network.workload import Workload

MULTIPLIER_MAX: Final = (1 << 15) - 1
"""Largest multiplier: 15 bits and a sign."""

_RANGES: Final = {
    "bias": (np.int32, -(2**31), 2**31 - 1),
    "m1": (np.int16, -(2**15), 2**15 - 1),
    "m2": (np.int16, -(2**15), 2**15 - 1),
    "shift": (np.uint8, 0, MAX_SHIFT),
    "zero_point": (np.int8, -128, 127),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class RequantParams:
    """Per-channel parameters of the epilogue; every array has shape (channels_out,).

    Attributes:
        m2: int16 multiplier of the residual, which counts 2^8 times (`isa.RESIDUAL_SHIFT`).
        clip_min, clip_max: int8 bounds of the output, the same for every channel.
        table: int8 outputs, shape (256,), in the order of the results -128 to 127 that the other
            parameters give; None: those are the output.
    """

    bias: npt.NDArray[np.int32]  # int32, added to the accumulator
    m1: npt.NDArray[np.int16]  # int16 multiplier of accumulator plus bias
    m2: npt.NDArray[np.int16]
    shift: npt.NDArray[np.uint8]  # uint8 right shift, 0 to 47
    zero_point: npt.NDArray[np.int8]  # int8, added after the rounding and before the clip
    clip_min: int = -128
    clip_max: int = 127
    table: npt.NDArray[np.int8] | None = None

    def __post_init__(self) -> None:
        """Convert to the storage types and refuse values that do not fit."""
        channels = np.asarray(self.bias).shape
        for name, (dtype, low, high) in _RANGES.items():
            array = np.asarray(getattr(self, name))
            if array.ndim != 1 or array.shape != channels or array.size == 0:
                raise WorkloadError(
                    "must be a one-dimensional array with one value a channel",
                    field=name,
                    value=array.shape,
                    remedy="give bias, multipliers and shifts of the same length",
                )
            if array.dtype.kind not in "iu":
                raise WorkloadError(
                    "must hold integers",
                    field=name,
                    value=str(array.dtype),
                    remedy="make multiplier and shift with snap_scales, and round the bias",
                )
            if int(array.min()) < low or int(array.max()) > high:
                raise WorkloadError(
                    f"must be from {low} to {high}",
                    field=name,
                    value=(int(array.min()), int(array.max())),
                    remedy="snap the scales again",
                )
            object.__setattr__(self, name, array.astype(dtype))
        if not -128 <= self.clip_min <= self.clip_max <= 127:
            raise WorkloadError(
                "clip bounds must be int8 and in order",
                field="clip_min, clip_max",
                value=(self.clip_min, self.clip_max),
                remedy="give -128 <= clip_min <= clip_max <= 127; ReLU has clip_min=0",
            )

        table = self.table
        if table is not None and (table.dtype != np.int8 or table.shape != (TABLE_ENTRIES,)):
            raise WorkloadError(
                f"must be int8 of shape ({TABLE_ENTRIES},)",
                field="table",
                value=f"{table.dtype} of shape {table.shape}",
                remedy="give an output for each result from -128 to 127",
            )

    @property
    def channels(self) -> int:
        """Number of output channels."""
        return int(self.bias.size)


def clip_bounds(workload: Workload) -> tuple[int, int]:
    """The int8 clip of a workload: below at 0 with ReLU, otherwise saturation alone."""
    return (0 if workload.relu else -128), 127


Integers = npt.NDArray[Any]


def snap_scales(
    scale: npt.ArrayLike, residual_scale: npt.ArrayLike
) -> tuple[Integers, Integers, Integers]:
    """Snap the scales of accumulator and residual to multipliers with one common shift.

    The shift is the largest at which both multipliers fit; at least one of them has 15 bits.

    Args:
        scale: of the accumulator: a number, or one for each channel.
        residual_scale: the same of the residual.

    Returns:
        (m1, m2, shift) with ``m1 / 2^shift`` nearest to `scale` and ``m2 * 2^8 / 2^shift`` to the
        other.

    Raises:
        WorkloadError: a scale is no number that a multiplier can be.
    """
    scales, residuals = np.broadcast_arrays(np.asarray(scale, float), residual_scale)
    for name, values in (("scale", scales), ("residual_scale", residuals)):
        wrong = ~(np.isfinite(values) & (values >= 0) & (np.rint(values) <= MULTIPLIER_MAX))
        if wrong.any():
            raise WorkloadError(
                f"must be a finite number from 0 to {MULTIPLIER_MAX}",
                field=name,
                value=float(values[wrong].flat[0]),
                remedy="rescale the tensors",
            )
    shifts = [_largest_shift(scales), _largest_shift(residuals) + RESIDUAL_SHIFT]
    free = [np.where(v > 0, s, MAX_SHIFT) for s, v in zip(shifts, (scales, residuals), strict=True)]
    shift = np.where((scales > 0) | (residuals > 0), np.minimum(np.minimum(*free), MAX_SHIFT), 0)
    # ldexp by a power of two is exact here; rint is half to even.
    m1 = np.rint(np.ldexp(scales, shift)).astype(np.int64)
    m2 = np.rint(np.ldexp(residuals, shift - RESIDUAL_SHIFT)).astype(np.int64)
    return m1, m2, shift.astype(np.int64)


def _largest_shift(scale: npt.NDArray[np.float64]) -> Integers:
    """The largest power of two at which a scale is still a multiplier, at least 0."""
    _, exponent = np.frexp(scale)  # scale = f * 2^exponent with 0.5 <= f < 1
    shift = np.maximum(15 - exponent.astype(np.int64), 0)
    rounded_up = np.rint(np.ldexp(scale, shift)) > MULTIPLIER_MAX  # to 2^15
    return np.where(scale == 0, 0, shift - rounded_up)


def requantise(
    acc: npt.NDArray[np.int32] | npt.NDArray[np.int64],
    params: RequantParams,
    residual: npt.NDArray[np.int8] | None = None,
) -> npt.NDArray[np.int8]:
    """Apply the epilogue in exact 64-bit integer arithmetic.

    Args:
        acc: (N, channels_out, H, W) accumulators with values of int32.
        params: the channels' parameters.
        residual: int8 of acc's shape, or None for zero.

    Returns:
        int8 of acc's shape.
    """
    if acc.ndim != 4 or acc.shape[1] != params.channels:
        raise WorkloadError(
            f"must be NCHW with {params.channels} channels",
            field="acc",
            value=acc.shape,
            remedy="reshape it, or give the parameters of this layer",
        )
    if residual is not None and residual.shape != acc.shape:
        raise WorkloadError(
            f"must have the accumulator's shape {acc.shape}",
            field="residual",
            value=residual.shape,
            remedy="reshape or pad the residual",
        )

    def per_channel(array: npt.NDArray[np.generic]) -> npt.NDArray[np.int64]:
        return array.astype(np.int64)[None, :, None, None]

    # |acc + bias| < 2^33, |m1| <= 2^15, |r * m2 * 2^8| <= 2^30: the sum stays below 2^49.
    total = (acc.astype(np.int64) + per_channel(params.bias)) * per_channel(params.m1)
    if residual is not None:
        total += (residual.astype(np.int64) * per_channel(params.m2)) << RESIDUAL_SHIFT
    shift = per_channel(params.shift)
    quotient = total >> shift
    remainder = total - (quotient << shift)
    twice = remainder << 1
    divisor = np.int64(1) << shift
    quotient += (twice > divisor) | ((twice == divisor) & ((quotient & 1) == 1))
    quotient += per_channel(params.zero_point)
    clipped = np.clip(quotient, params.clip_min, params.clip_max)
    result: npt.NDArray[np.int8] = clipped.astype(np.int8)
    if params.table is not None:
        result = params.table[clipped + 128]
    return result
