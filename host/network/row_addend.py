# SPDX-License-Identifier: Apache-2.0
"""A constant that softmax adds to its rows: masks and biases of attention.

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
from tilewright.host.machine.log_tables import ARGUMENT_BITS
from tilewright.host.network.row_arithmetic import Ints, saturated

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

    The exponents of a row q are ``((coarse * coarse_steps + q) * ratio + fine) * factor >> shift``.

    Attributes:
        coarse: of the shape of the rows, channels last; or None.
        coarse_steps: steps of the row in one of it.
        fine: of the same shape; or None.
        ratio: how many of it are a step of the row.
        factor, shift: exponents of two, in 1 / 2^16, of one of it.
    """

    coarse: Int8Array | None
    coarse_steps: int
    fine: Int8Array | None
    ratio: int
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
        """Exponents of two of rows, in 1 / 2^16.

        Args:
            rows: of the planes' shape.
        """
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
