# SPDX-License-Identifier: Apache-2.0
"""Axes of a chart: from data to pixels, and where ticks stand."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tilewright.tuner.report.drawing.marks import LETTER, element, label


@dataclass(frozen=True, kw_only=True)
class Axis:
    """What an axis shows."""

    title: str  # quantity and unit
    low: float  # end of the axis in data units
    high: float
    log: bool = False  # logarithmic; then ``low`` is above 0
    ticks: tuple[float, ...] = ()  # where labels stand; empty: at round values
    text: Callable[[float], str] | None = None  # label of a value; None: `compact`

    def place(self, value: float, start: float, end: float) -> float:
        """The pixel of a value when the axis goes from pixel ``start`` to pixel ``end``."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = math.log(low), math.log(high), math.log(max(value, 1e-300))
        return start + (end - start) * (at - low) / (high - low)

    def labels(self, count: int) -> list[tuple[float, str]]:
        """Ticks with their labels, about ``count`` of them."""
        ticks = list(self.ticks) or (
            log_ticks(self.low, self.high, count)
            if self.log
            else linear_ticks(self.low, self.high, count)
        )
        slack = 1e-9 * max(abs(self.low), abs(self.high))
        inside = [tick for tick in ticks if self.low - slack <= tick <= self.high + slack]
        if self.text is not None:
            return [(tick, self.text(tick)) for tick in inside]
        step = min((b - a for a, b in itertools.pairwise(inside)), default=abs(self.high))
        return [(tick, compact(tick, step)) for tick in inside]


def ticks_below(axis: Axis, left: float, right: float, top: float, bottom: float) -> list[str]:
    """Grid lines of an axis below a chart, their values, and its title."""
    parts, last = [], -1e9
    for value, text in axis.labels(max(2, int((right - left) / 84))):
        x, half = round(axis.place(value, left, right), 1), LETTER * len(text) / 2
        parts.append(element("path", d=f"M{x:g} {top:g}V{bottom:g}", class_="grid"))
        if x - half >= last + 4:
            last = x + half
            parts.append(label(x, bottom + 15, text, anchor="middle"))
    middle = (left + right) / 2
    return [*parts, label(middle, bottom + 34, axis.title, anchor="middle", kind="title")]


def spanning(
    title: str,
    values: Sequence[float],
    *,
    log: bool = False,
    zero: bool = False,
    ticks: tuple[float, ...] = (),
    text: Callable[[float], str] | None = None,
) -> Axis:
    """An axis that holds some values with a little room around them."""
    known = [float(v) for v in values if math.isfinite(v) and (not log or v > 0)]
    low, high = (min(known), max(known)) if known else (1.0, 2.0)
    if log:
        room = max(high / low, 1.02) ** 0.04
        low, high = low / room, high * room
    else:
        room = 0.05 * (high - low) or 0.05 * abs(high) or 1.0
        low, high = low - room, high + room
        if zero:
            low = 0.0
    return Axis(title=title, low=low, high=high, log=log, ticks=ticks, text=text)


def linear_ticks(low: float, high: float, count: int) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two values."""
    raw = (high - low) / max(1, count)
    magnitude = 10 ** math.floor(math.log10(raw))
    steps = [s * m for m in (magnitude / 10, magnitude) for s in (1, 2, 5)] + [10 * magnitude]
    coarse = next(k for k, step in enumerate(steps) if step >= raw * (1 - 1e-9))
    ticks: list[float] = []
    for step in reversed(steps[: coarse + 1]):
        first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
        ticks = [number * step for number in range(first, last + 1)]
        if len(ticks) >= 2:
            break
    return ticks


def log_ticks(low: float, high: float, count: int) -> list[float]:
    """Round values between two positive ones on a logarithmic axis."""
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for steps in ((1,), (1, 3), (1, 2, 5)):
        ticks = [s * 10.0**d for d in decades for s in steps]
        inside = [tick for tick in ticks if low <= tick <= high]
        if len(inside) >= min(3, count):
            every = -(-len(inside) // max(1, count))
            return inside[::every]
    return linear_ticks(low, high, count)


def compact(value: float, step: float) -> str:
    """A number with k, M or G, with the digits that neighbours a step away need."""
    if value == 0:
        return "0"
    for size, suffix in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            scale = 1e3 if suffix == "k" else size
            digits = max(0, -math.floor(math.log10(max(step / scale, 1e-6)) + 1e-9))
            return f"{value / scale:.{digits}f}{suffix}"
    digits = max(0, -math.floor(math.log10(max(abs(step), 1e-9)) + 1e-9))
    return f"{value:,.{digits}f}"
