# SPDX-License-Identifier: Apache-2.0
"""From real scales, biases and bounds to the integer parameters of an epilogue."""

from __future__ import annotations

from dataclasses import replace
from math import inf, ldexp
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.lower.qgraph import UNBOUNDED, Bounds, QOperator, QTensor
from tilewright.host.machine.isa import RESIDUAL_SHIFT
from tilewright.host.network.requant import MULTIPLIER_MAX, RequantParams, requantise, snap_scales

COPY_WEIGHT: Final = 64
"""Weight of the identity convolutions that rescale and copy: a fine accumulator unit."""

_INT32_MAX: Final = 2**31 - 1

_LEAST_BESIDE_RESIDUAL: Final = 64
"""Least multiplier of an accumulator to which a residual is added."""


_WEIGHTS: Final = np.arange(1, 128)
_STEPS: Final = 255  # from a zero point to the farthest int8 value


def copy_weight(data: QTensor, residual: QTensor, output: QTensor) -> tuple[int, float]:
    """The weight at which an identity convolution and a residual add most exactly.

    Both multipliers have one shift and 15 bits. Where two large terms nearly cancel, the difference
    of their relative errors counts, and the weight chooses it; it also chooses how exactly the zero
    point of the residual is a bias.

    Returns:
        the weight, and how many steps of the output the sum may be off before it is rounded.
    """
    scale, other = data.scale / output.scale, residual.scale / output.scale
    weights = _WEIGHTS[min(scale / MULTIPLIER_MAX, _WEIGHTS[-1]) <= _WEIGHTS]
    m1, m2, shift = snap_scales(scale / weights, other)
    with np.errstate(divide="ignore", invalid="ignore"):
        first = np.ldexp(m1 * weights / scale, -shift) - 1
        second = np.ldexp(m2 / other, RESIDUAL_SHIFT - shift) - 1
        bias = residual.zero_point * np.ldexp(m2.astype(float), RESIDUAL_SHIFT) / m1
        errors = (
            _STEPS * min(scale, other) * np.abs(first - second)
            + _STEPS * np.maximum(np.abs(first), np.abs(second))
            + np.abs(bias - np.rint(bias)) * np.ldexp(m1.astype(float), -shift)
        )
    errors = np.where(m1 > 0, errors, inf)
    best = errors.size - 1 - int(np.argmin(errors[::-1]))  # the largest of equals
    return int(weights[best]), float(errors[best])


def rounded_result(operator: QOperator, output: QTensor) -> QTensor:
    """What an operator's result is rounded to: its output, or what its table is addressed with."""
    lookup = operator.lookup
    if lookup is None:
        return output
    return replace(output, scale=lookup.scale, zero_point=lookup.zero_point)


def beside_residual(
    weights: npt.NDArray[np.int8],
    units: npt.NDArray[np.float64],
    output: QTensor,
    residual: QTensor,
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float64]]:
    """Weights, and accumulator units of which a multiplier beside the residual's holds some bits.

    Both multipliers have one shift. A channel of tiny weights would have the multiplier 0, which
    takes its bias away, too. Such a channel gets the least unit that keeps the bias, and weights in
    it: they are so small that their rounding does not show.

    Args:
        weights: (channels, ...).
        units: (channels,) real value of one accumulator step; positive.
        output: scale of the rounded result.
        residual: the tensor that is added.
    """
    _, _, shift = snap_scales(0.0, residual.scale / output.scale)
    least = ldexp(_LEAST_BESIDE_RESIDUAL, -int(shift)) * output.scale
    shares = np.minimum(units / least, 1.0).reshape(-1, *(1,) * (weights.ndim - 1))
    return np.rint(weights * shares).astype(np.int8), np.maximum(units, least)


def operator_epilogue(
    operator: QOperator,
    output: QTensor,
    *,
    units: npt.NDArray[np.float64],
    bias: npt.NDArray[np.float64],
    residual: QTensor | None = None,
    subtracts: bool = False,
) -> RequantParams:
    """Integer parameters of an operator's epilogue, with its table."""
    requant = epilogue(
        units=units,
        bias=bias,
        output=rounded_result(operator, output),
        bounds=operator.bounds,
        residual=residual,
        subtracts=subtracts,
        where=operator.name,
    )
    if operator.lookup is None:
        return requant
    return replace(requant, table=operator.lookup.entries)


def epilogue(
    *,
    units: npt.NDArray[np.float64],
    bias: npt.NDArray[np.float64],
    output: QTensor,
    bounds: Bounds,
    residual: QTensor | None = None,
    subtracts: bool = False,
    where: str,
) -> RequantParams:
    """Integer parameters of an epilogue.

    Args:
        units: (channels,) real value of one accumulator step.
        bias: (channels,) in accumulator steps, not yet rounded; finite.
        output: scale and zero point of the result.
        bounds: real activation bounds.
        residual: the tensor that is added.
        subtracts: it is taken off.
        where: label for errors.
    """
    residual_scale = residual.scale / output.scale if residual is not None else 0.0
    scales = units / output.scale
    if residual is None:  # with the greatest, whatever is not 0 saturates already
        scales = np.where(np.isfinite(scales), np.minimum(scales, MULTIPLIER_MAX), scales)
    m1, m2, shift = snap_scales(scales, residual_scale)
    m2 = -m2 if subtracts else m2
    if residual is not None and residual.zero_point:
        with np.errstate(divide="ignore", invalid="ignore"):
            steps = -residual.zero_point * (m2.astype(np.float64) * 2**RESIDUAL_SHIFT) / m1
            moved = np.where(m1 > 0, steps, np.inf)
        bias = bias + moved
    rounded = np.rint(bias)
    if not np.all(np.abs(rounded) <= _INT32_MAX):
        raise WorkloadError(
            "a bias must fit 32 bits in units of data scale x weight scale",
            field=f"{where}.bias",
            value=float(np.max(np.abs(rounded))),
            remedy="run this operator on the CPU",
        )
    low, high = clip_of(bounds, output)
    return RequantParams(
        bias=rounded.astype(np.int32),
        m1=m1,
        m2=m2,
        shift=shift,
        zero_point=np.full(units.size, output.zero_point, dtype=np.int8),
        clip_min=low,
        clip_max=high,
    )


def copied_entries(
    entries: npt.NDArray[np.int8], source: QTensor, target: QTensor
) -> npt.NDArray[np.int8]:
    """What a copy at another scale makes of a table's entries; themselves at the same scale.

    Args:
        entries: int8, (256,).
        source: the scale and zero point that they are for.
        target: those of the copy.
    """
    if (source.scale, source.zero_point) == (target.scale, target.zero_point):
        return entries
    requant = epilogue(
        units=np.full(1, source.scale / COPY_WEIGHT),
        bias=np.full(1, -source.zero_point * COPY_WEIGHT, float),
        output=target,
        bounds=UNBOUNDED,
        where=target.name,
    )
    acc = entries.astype(np.int32).reshape(1, 1, -1, 1) * COPY_WEIGHT
    return requantise(acc, requant).reshape(-1)


def clip_of(bounds: Bounds, tensor: QTensor) -> tuple[int, int]:
    """int8 clip bounds of real activation bounds."""

    def quantised(bound: float | None, missing: int) -> int:
        if bound is None:
            return missing
        return int(np.clip(np.rint(bound / tensor.scale) + tensor.zero_point, -128, 127))

    return quantised(bounds[0], -128), quantised(bounds[1], 127)
