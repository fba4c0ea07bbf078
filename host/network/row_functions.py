# SPDX-License-Identifier: Apache-2.0
"""Softmax and layer normalisation of int8 rows, as the row unit computes them: the specification.

Each function is a sequence of operations that VECTOR has (`host.machine.isa`), in their order, on
whole arrays. `host.lowering.row_layers` emits the same sequence as programs.

A constant that softmax adds to its rows: masks and biases of attention.

Softmax does not change when a number is added to a whole row. So the greatest addend of each row
counts as 0, and what is so far below it that its probability is 0 in any case counts as just that.
The rest is two int8 planes, in steps of the row's scale: ``coarse * coarse_steps + fine / ratio``.
A mask needs the coarse one alone, a small bias the fine one alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.machine.isa import HELD_BITS, SUM_BITS
from tilewright.host.machine.log_tables import ARGUMENT_BITS
from tilewright.host.network.requant import MULTIPLIER_MAX, RequantParams, requantise, snap_scales
from tilewright.host.network.row_arithmetic import Ints, exp2, held, log2, low_bits, saturated

Int8Array = npt.NDArray[np.int8]

_FACTOR_MAX: Final = 2**15 - 1
"""Of an immediate."""

_PLANE_MAX: Final = 127
_RATIO_MAX: Final = 255
"""Finer than 1/255 step changes no result."""

_PRECISION: Final = 256
"""One plane is enough where one of it is at most the reciprocal."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Addend:
    """What a softmax adds to int8 rows before it takes powers.

    The exponents of a row q are ``((coarse * coarse_steps + q) * ratio + fine) * factor >> shift``:
    exponents of two, in 1 / 2^16.
    """

    coarse: Int8Array | None  # of the shape of the rows, channels last; or None
    coarse_steps: int  # steps of the row in one of it
    fine: Int8Array | None  # of the same shape; or None
    ratio: int  # how many of it are a step of the row
    factor: int
    shift: int

    @classmethod
    def of(cls, real: npt.NDArray[np.float64], scale: float, bits: int) -> Addend | None:
        """The integers of a real addend; None if it is one number in each row.

        Args:
            real: (images, rows, columns, channels); minus infinity is a mask. A row of nothing else
                counts as one without addend.
            scale: of a step of the rows.
            bits: binary digits of the least power that is not 0.
        """
        if np.isnan(real).any() or np.isposinf(real).any():
            raise WorkloadError(
                "must be numbers or minus infinity",
                field="softmax: addend",
                remedy="leave the operator to the CPU",
            )
        certain = 255 * scale + bits * math.log(2)
        peak = real.max(axis=-1, keepdims=True)
        below = np.where(np.isneginf(peak), 0, real - np.where(np.isneginf(peak), 0, peak))
        steps = np.maximum(below, -certain - scale) / scale
        if not steps.any():
            return None
        return cls._of_steps(steps, scale, np.asarray(below <= -certain))

    @classmethod
    def _of_steps(
        cls, steps: npt.NDArray[np.float64], scale: float, masked: npt.NDArray[np.bool_]
    ) -> Addend:
        exponent = scale * math.log2(math.e) * (1 << ARGUMENT_BITS)
        least = math.ceil(exponent / _FACTOR_MAX)
        greatest = float(-steps.min())
        wide = math.ceil(greatest / -np.iinfo(np.int8).min)
        ratio = min(int(_PLANE_MAX / greatest), _RATIO_MAX)
        coarse = fine = None
        if not steps[~masked].any():
            coarse, ratio = np.where(masked, -128, 0), max(1, least)
        elif ratio >= max(1, least, scale * _PRECISION):
            fine = np.rint(steps * ratio)
        else:
            ratio = 2 * _PLANE_MAX // wide
            coarse = np.rint(steps / wide)
            fine = np.rint((steps - coarse * wide) * ratio)
        reach = exponent * (128 + greatest)
        room = min(_FACTOR_MAX * ratio / exponent, (2**31 - 1) / reach)
        if ratio < 1 or room < 1:
            raise WorkloadError(
                "must be between 1/1500 and 50 where a constant is added",
                field="softmax: scale",
                value=scale,
                remedy="scale the rows before softmax, or leave the operator to the CPU",
            )
        shift = min(int(math.log2(room)), 15)
        return cls(
            coarse=None if coarse is None else coarse.astype(np.int8),
            coarse_steps=wide,
            fine=None if fine is None else fine.astype(np.int8),
            ratio=ratio,
            factor=round(math.ldexp(exponent / ratio, shift)),
            shift=shift,
        )

    @property
    def planes(self) -> tuple[tuple[str, Int8Array], ...]:
        """Its int8 planes by name, in the order in which they are added."""
        named = (("coarse", self.coarse), ("fine", self.fine))
        return tuple((name, plane) for name, plane in named if plane is not None)

    def exponents(self, rows: Int8Array) -> Ints:
        """Exponents of two, in 1 / 2^16, of rows of the planes' shape."""
        self.check(rows.shape)
        x = rows.astype(np.int64)
        if self.coarse is not None:
            x += self.coarse.astype(np.int64) * self.coarse_steps
        x = saturated(x * self.ratio)
        if self.fine is not None:
            x = saturated(x + self.fine)
        return saturated(x * self.factor) >> self.shift

    def check(self, shape: tuple[int, ...]) -> None:
        """Refuse rows of another shape."""
        if any(plane.shape != shape for _, plane in self.planes):
            raise WorkloadError(
                f"must have the rows' shape {shape}",
                field="softmax: addend",
                value=[plane.shape for _, plane in self.planes],
                remedy="broadcast it to the rows",
            )


ONE: Final = 1 << ARGUMENT_BITS
"""Exponent of two itself."""

PROBABILITY_BITS: Final = 24
"""Bits behind the point of what softmax requantises, and of the powers that it adds."""

MEAN_BITS: Final = 7
"""Bits behind the point of a row's mean, in steps of the input."""

NORMAL_BITS: Final = 21
"""Bits behind the point of a normalised value, before gamma and beta."""

_GREATEST_RATIO: Final = 200.0
"""Of beta to gamma: beta is added in units of gamma, in 32 bits with `NORMAL_BITS` of them."""

_LEAST_EPSILON: Final = 0.25
"""In squared steps of the input: less is lost in the rounding of the input itself."""

_GREATEST_EPSILON: Final = 2.0**40
"""More makes every result beta, as this does."""

_EPSILON_BITS: Final = 14
"""An epsilon is added to sums of squares in units of which it has at most 2^15."""

_IMMEDIATE_MAX: Final = (1 << 15) - 1
"""Greatest immediate of VECTOR."""

_FACTOR_END: Final = 1 << 23
"""Factors of int8 numbers are below it: products are less than half of an int32."""

_GREATEST_STEP: Final = 80.0
"""Of a row: a step that is larger leaves as little of what is less than the greatest, nothing."""

_MASKED: Final = -128
"""Step of a mask that leaves nothing of a probability."""

_MARGIN: Final = 1.001
"""Of a mask's scale, for factors that are rounded."""

GREATEST_INVERSE: Final = HELD_BITS * ONE - 256
"""Exponent of twice the greatest factor that MUL takes: lesser deviations than 1/8 step count as
that."""

ROW_CHANNELS: Final = 4096
"""Longest row: the squares of its differences fit the sum of a row."""


@dataclass(frozen=True, kw_only=True)
class Softmax:
    """Softmax of int8 rows of one scale, to int8.

    Attributes:
        m1, shift, zero_point: requantisation of probabilities with `PROBABILITY_BITS`.
        addend: what is added to the rows before; `factor` does not count where there is one.
        mask_factor: the same as `factor` of a step of the mask; 0: there is no mask. A mask is one
            int8 row, given at run time, that is added to every row.
    """

    factor: int  # exponent of two of a step of the input, in 1 / 2^16
    m1: int
    shift: int
    zero_point: int
    clip: tuple[int, int] = (-128, 127)  # int8 bounds of the result
    addend: Addend | None = None
    mask_factor: int = 0

    @classmethod
    def of(
        cls,
        scale: float,
        out_scale: float = 1 / 256,
        zero_point: int = -128,
        addend: npt.NDArray[np.float64] | None = None,
        *,
        clip: tuple[int, int] = (-128, 127),
        mask_scale: float | None = None,
    ) -> Softmax:
        """The integers of real scales.

        Args:
            scale: of a step of the input.
            out_scale: of a step of the output.
            zero_point: int8 output of the probability 0.
            addend: real numbers that are added to the rows, of their shape; minus infinity, or a
                number far below the others of its row, is a mask.
            clip: int8 bounds of the result.
            mask_scale: of a step of the mask (see `mask_scale`); None: there is none.
        """
        if addend is None and mask_scale is None and scale < math.inf:
            scale = min(scale, _GREATEST_STEP)
        factor = _factor_of("scale", scale)
        m1, _, shift = map(int, snap_scales(math.ldexp(1 / out_scale, -PROBABILITY_BITS), 0.0))
        return cls(
            factor=factor,
            m1=m1,
            shift=shift,
            zero_point=zero_point,
            addend=None if addend is None else Addend.of(addend, scale, PROBABILITY_BITS),
            clip=clip,
            mask_factor=0 if mask_scale is None else max(1, _factor_of("mask", mask_scale)),
        )

    def params_for(self, channels: int) -> RequantParams:
        """The same requantisation for each channel of a row."""
        return RequantParams(
            bias=np.zeros(channels, dtype=np.int32),
            m1=np.full(channels, self.m1, dtype=np.int16),
            m2=np.zeros(channels, dtype=np.int16),
            shift=np.full(channels, self.shift, dtype=np.uint8),
            zero_point=np.full(channels, self.zero_point, dtype=np.int8),
            clip_min=self.clip[0],
            clip_max=self.clip[1],
        )


def _factor_of(field: str, scale: float) -> int:
    """Exponent of two of a step, in 1 / 2^16."""
    factor = round(scale * math.log2(math.e) * ONE) if 0 < scale < math.inf else -1
    if not 0 <= factor < _FACTOR_END:
        raise WorkloadError(
            "must be above 0 and at most 80",
            field=f"softmax: {field}",
            value=scale,
            remedy="scale the rows before softmax",
        )
    return factor


def mask_scale(scale: float, spread: float = 0.0) -> float:
    """The scale with which -128 of a mask makes a probability exactly 0, whatever rows hold.

    A row that is masked everywhere counts as one without a mask.
    """
    certain = 255 * scale + spread + PROBABILITY_BITS * math.log(2)
    return _MARGIN * certain / -_MASKED


def softmax_probabilities(
    rows: npt.NDArray[np.int8], function: Softmax, mask: npt.NDArray[np.int8] | None = None
) -> Ints:
    """Softmax along the last axis before its requantisation.

    Args:
        rows: int8 of any shape.
        function: what to compute.
        mask: of a shape that is broadcast to that of `rows`; None: there is none.
    """
    if (mask is None) != (function.mask_factor == 0):
        raise WorkloadError(
            "must be given exactly where the function has a factor for it",
            field="softmax: mask",
            value=None if mask is None else mask.shape,
            remedy="give the mask's scale to Softmax.of, and an int8 row here",
        )
    added = function.addend
    x = rows.astype(np.int64) * function.factor if added is None else added.exponents(rows)
    if mask is not None:
        x = saturated(x + mask.astype(np.int64) * function.mask_factor)
    x = saturated(x - (x.max(axis=-1, keepdims=True) - PROBABILITY_BITS * ONE))
    total = log2(exp2(x).sum(axis=-1, keepdims=True)) - PROBABILITY_BITS * ONE
    return exp2(saturated(x - total))


def softmax(
    rows: npt.NDArray[np.int8], function: Softmax, mask: npt.NDArray[np.int8] | None = None
) -> npt.NDArray[np.int8]:
    """Softmax along the last axis: int8 to int8 of the same shape (`softmax_probabilities`)."""
    flat = softmax_probabilities(rows, function, mask).reshape(1, 1, 1, -1)
    return requantise(flat, function.params_for(1)).reshape(rows.shape)


@dataclass(frozen=True, kw_only=True, eq=False)
class LayerNorm:
    """Layer normalisation of int8 rows, to int8.

    Attributes:
        mean_factor, mean_half, mean_shift: the mean is the sum times the first, plus the second,
            shifted right by the third.
    """

    channels: int  # of a row
    mean_factor: int
    mean_half: int
    mean_shift: int
    epsilon: int  # added to the sum of squares, in units of 2^(unit / 2^16); 0: nothing is
    unit: int  # exponent of that unit
    offset: int  # exponent from which half the logarithm of the sum of squares in it is subtracted
    params: RequantParams  # gamma, beta and the scale of the output, a channel each

    @classmethod
    def of(
        cls,
        gamma: npt.NDArray[np.float64],
        beta: npt.NDArray[np.float64],
        out_scale: float,
        zero_point: int = 0,
        epsilon: float = 0.0,
        *,
        clip: tuple[int, int] = (-128, 127),
    ) -> LayerNorm:
        """The integers of real parameters.

        Args:
            gamma: factors of the normalised values, shape (channels,).
            beta: added to them, shape (channels,).
            out_scale: a step of the output.
            zero_point: int8 output of the value 0.
            epsilon: added to the variance, in squared steps of the input.
            clip: int8 bounds of the result.
        """
        gamma, beta = np.asarray(gamma, dtype=np.float64), np.asarray(beta, dtype=np.float64)
        channels = gamma.size
        fits = gamma.ndim == 1 and gamma.shape == beta.shape and 0 < channels <= ROW_CHANNELS
        if not fits or not (np.isfinite(gamma).all() and np.isfinite(beta).all()):
            raise WorkloadError(
                f"must be two vectors of as many finite numbers, at most {ROW_CHANNELS}",
                field="layer norm: gamma, beta",
                value=(gamma.shape, beta.shape),
                remedy="give a factor and an addend for each channel of the row",
            )
        if not 0 <= epsilon < math.inf:
            raise WorkloadError(
                "must be 0 or more, and finite",
                field="layer norm: epsilon",
                value=epsilon,
                remedy="give what the model adds to the variance, over the squared input scale",
            )
        beta, zero_points = _apart(gamma, beta, out_scale, zero_point)
        least = np.abs(beta) / _GREATEST_RATIO
        sign = np.where(gamma < 0, -1.0, 1.0)
        gamma = sign * np.maximum(np.abs(gamma), np.maximum(least, 1e-6 * out_scale))
        m1, _, shift = snap_scales(np.ldexp(abs(gamma) / out_scale, -NORMAL_BITS), 0.0)
        bias = np.rint(beta / gamma * (1 << NORMAL_BITS)).astype(np.int64)
        mean_shift = min(17, int(math.log2(MULTIPLIER_MAX * channels)) - MEAN_BITS)
        counted = min(epsilon, _GREATEST_EPSILON) if epsilon > _LEAST_EPSILON else 0.0
        addend, exponent = _units(math.ldexp(counted * channels, 2 * MEAN_BITS))
        offset = (NORMAL_BITS + 1) * ONE + round(math.log2(channels) * ONE / 2)
        return cls(
            channels=channels,
            mean_factor=round(math.ldexp(1 / channels, MEAN_BITS + mean_shift)),
            mean_half=min(1 << (mean_shift - 1), _IMMEDIATE_MAX),
            mean_shift=mean_shift,
            epsilon=addend,
            unit=exponent * ONE,
            offset=offset - exponent * ONE // 2,
            params=RequantParams(
                bias=bias.astype(np.int32),
                m1=m1 * sign.astype(np.int16),
                m2=np.zeros(channels, dtype=np.int16),
                shift=shift.astype(np.uint8),
                zero_point=zero_points,
                clip_min=clip[0],
                clip_max=clip[1],
            ),
        )

    @property
    def clip(self) -> tuple[int, int]:
        """int8 bounds of the result."""
        return self.params.clip_min, self.params.clip_max


def _apart(
    gamma: npt.NDArray[np.float64],
    beta: npt.NDArray[np.float64],
    out_scale: float,
    zero_point: int,
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int8]]:
    """Beta and zero points: where gamma is too small a unit, whole steps go to the zero point."""
    whole = np.clip(np.rint(beta / out_scale) + zero_point, -128, 127)
    small = np.abs(beta) > _GREATEST_RATIO * np.abs(gamma)
    zero_points = np.where(small, whole, zero_point)
    return beta - (zero_points - zero_point) * out_scale, zero_points.astype(np.int8)


def _units(value: float) -> tuple[int, int]:
    """A number as an immediate times a power of two: (immediate, exponent)."""
    exponent = max(0, math.frexp(value)[1] - 1 - _EPSILON_BITS)
    return min(round(math.ldexp(value, -exponent)), _IMMEDIATE_MAX), exponent


def normalised(rows: npt.NDArray[np.int8], function: LayerNorm) -> Ints:
    """Rows without their mean, over their standard deviation."""
    x = rows.astype(np.int64)
    product = saturated(x.sum(axis=-1, keepdims=True) * function.mean_factor)
    mean = saturated(product + function.mean_half) >> function.mean_shift
    x = (x << MEAN_BITS) - mean
    squares = low_bits((x * held(x)).sum(axis=-1, keepdims=True), SUM_BITS)
    power = log2(squares)
    if function.epsilon:
        power = power - function.unit
        power = np.maximum(power, log2(saturated(exp2(power) + function.epsilon)))
    twice = exp2(np.minimum(function.offset - (power >> 1), GREATEST_INVERSE))
    inverse = (twice + 1) >> 1
    return saturated(x * held(inverse))


def layer_norm(rows: npt.NDArray[np.int8], function: LayerNorm) -> npt.NDArray[np.int8]:
    """Layer normalisation along the last axis: int8 to int8 of the same shape."""
    values = np.moveaxis(normalised(rows, function).reshape(1, -1, 1, function.channels), 3, 1)
    return np.moveaxis(requantise(values, function.params), 1, 3).reshape(rows.shape)


RowFunction = Softmax | LayerNorm


def is_masked(function: RowFunction) -> bool:
    """Whether a row is added to all of a function's rows, given at run time."""
    return isinstance(function, Softmax) and function.mask_factor > 0


def addend_planes(function: RowFunction) -> dict[str, npt.NDArray[np.int8]]:
    """The planes of what a function adds to its rows, by name; channels are the last axis."""
    added = function.addend if isinstance(function, Softmax) else None
    return {} if added is None else dict(added.planes)
