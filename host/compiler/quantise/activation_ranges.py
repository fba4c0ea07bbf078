# SPDX-License-Identifier: Apache-2.0
"""Ranges of activations from what occurs in them on calibration data.

A range is (lowest, highest); int8 divides it into equal steps, and what lies outside is clipped. A
narrow range has fine steps and clips more.

Which activations multiply each other: their zero point must be 0, also among asymmetric ones.

A zero point of a factor would add sums over its rows and columns to each element of a product. GEMM
has no place for sums that data decide.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import frexp
from typing import Final

import numpy as np
import onnx
import onnx_ir as ir

from tilewright.host.compiler.quantise.observation import Batches, observe, require_finite
from tilewright.host.compiler.quantise.table_functions import TableFunction
from tilewright.host.compiler.read.edit import Array, array_of, is_kind
from tilewright.host.compiler.read.import_options import QuantiseOptions
from tilewright.host.network.operators import MOVES


def product_factors(graph: ir.Graph, nodes: Collection[str]) -> set[str]:
    """Names of activations that products, not dense layers, read, and of what they come from."""
    found: set[str] = set()
    for node in graph:
        if not is_kind(node, "MatMul") or node.name not in nodes:
            continue
        if any(a is not None and a.ndim == _MATRIX for a in map(array_of, node.inputs)):
            continue
        for value in node.inputs:
            moved = value
            while moved is not None and moved.name and moved.name not in found:
                found.add(moved.name)
                source = moved.producer()
                moved = source.inputs[0] if is_kind(source, *MOVES) else None
    return found


Range = tuple[float, float]

_MATRIX: Final = 2
"""Axes of the weights of a dense layer."""
_BINS: Final = 2048
"""Bins of a histogram on each side of zero."""
_SMALLEST: Final = 2.0**-100
"""Limit of a histogram that has seen nothing."""
_STEPS: Final = 254
"""Steps from the lowest to the highest int8 of symmetric quantisation."""
_ROUNDS: Final = 3
"""How often lower and upper end of an asymmetric range are improved in turn."""
_GRID: Final = 8 * _BINS + 1
"""Points between which a function is a straight line."""
_TRIES: Final = 96
"""Ends of ranges that are compared behind a function, in equal ratios."""
_NARROWEST: Final = 0.02
"""The least of them, of the largest magnitude."""


class Histogram:
    """How often values occur, in equal bins up to a power of two that grows with the largest.

    Attributes:
        lowest, highest: value so far.
        limit: what the last bin ends at, and the first begins at when negated.
        counts: int64 (2 * bins,), of all values that are not zero.
        zeros: how many values are zero.
    """

    def __init__(self) -> None:
        self.lowest, self.highest = np.inf, -np.inf
        self.limit = _SMALLEST
        self.counts = np.zeros(2 * _BINS, np.int64)
        self.zeros = 0

    def widen(self, values: Array) -> None:
        """Take note of the least and the largest of values of any shape; NaN stays."""
        if values.size:
            self.lowest = float(np.minimum(self.lowest, values.min()))
            self.highest = float(np.maximum(self.highest, values.max()))

    def count(self, values: Array) -> None:
        """Count float32 values of any shape, of which `widen` took note and which are finite."""
        flat = values.reshape(-1)
        largest = max(-self.lowest, self.highest)
        if largest > self.limit:
            self._grow(2.0 ** frexp(largest)[1])
        scaled = flat * np.float32(_BINS / self.limit)
        scaled += np.float32(_BINS)
        indices = scaled.astype(np.int32)  # all positive: rounded down
        np.minimum(indices, 2 * _BINS - 1, out=indices)
        self.counts += np.bincount(indices, minlength=2 * _BINS)
        zeros = flat.size - int(np.count_nonzero(flat))
        self.zeros += zeros
        self.counts[_BINS] -= zeros

    def _grow(self, limit: float) -> None:
        while self.limit < limit and self.counts.any():
            pairs = self.counts.reshape(_BINS, 2).sum(axis=1)
            self.counts = np.zeros_like(self.counts)
            self.counts[_BINS // 2 : _BINS + _BINS // 2] = pairs
            self.limit *= 2
        self.limit = limit

    def sides(self) -> tuple[Array, Array]:
        """Counts of negative and of positive values by magnitude, (bins,) each."""
        return self.counts[:_BINS][::-1], self.counts[_BINS:]


def find_ranges(
    model: onnx.ModelProto,
    rounded: Collection[str],
    inner: Collection[str],
    batches: Batches,
    options: QuantiseOptions,
    functions: Mapping[str, TableFunction] | None = None,
) -> dict[str, Range]:
    """The range of each activation."""
    histograms = {name: Histogram() for name in (*rounded, *inner)}
    counted = () if options.method == "minmax" else frozenset(rounded)
    for tensors in observe(model, histograms, batches):
        for name, histogram in histograms.items():
            histogram.widen(tensors[name])
            if tensors[name].size:
                require_finite(name, histogram.lowest, histogram.highest)
            if name in counted:
                histogram.count(tensors[name])
    functions = functions or {}
    return {
        name: _range(histogram, options if name in counted else None, functions.get(name))
        for name, histogram in histograms.items()
    }


def _range(
    histogram: Histogram, options: QuantiseOptions | None, function: TableFunction | None
) -> Range:
    """The range of one activation; without options all that occurs."""
    everything = min(histogram.lowest, 0.0), max(histogram.highest, 0.0)
    if options is None or not histogram.counts.any():
        return everything
    if options.method == "percentile":
        lowest, highest = _percentiles(histogram, options.percentile / 100, options.asymmetric)
    elif function is None:
        lowest, highest = _least_error(histogram, options.asymmetric)
    else:
        lowest, highest = _least_error_behind(function, histogram, asymmetric=options.asymmetric)
    return max(lowest, everything[0]), min(highest, everything[1])


def _percentiles(histogram: Histogram, share: float, asymmetric: bool) -> Range:
    """The range that holds a share of all values; if asymmetric, half of the rest on each side."""
    below, above = histogram.sides()
    if not asymmetric:
        highest = _quantile(below + above, histogram.zeros, histogram.limit, share)
        return -highest, highest
    share = (1 + share) / 2
    return (
        -_quantile(below, histogram.zeros + int(above.sum()), histogram.limit, share),
        _quantile(above, histogram.zeros + int(below.sum()), histogram.limit, share),
    )


def _quantile(counts: Array, others: int, limit: float, share: float) -> float:
    """What a share of all values does not exceed."""
    sums = others + np.cumsum(counts)
    wanted = share * sums[-1]
    if wanted <= others:
        return 0.0
    index = int(np.searchsorted(sums, wanted))
    inside = 1 - (sums[index] - wanted) / counts[index]
    return float(index + inside) * limit / counts.size


def _least_error(histogram: Histogram, asymmetric: bool) -> Range:
    """The range with the least mean square error.

    A rounded value errs by a twelfth of the squared step on average, a clipped one by its distance
    to the end; zero is exact.
    """
    below, above = histogram.sides()
    ends = np.arange(_BINS + 1) * (histogram.limit / _BINS)
    if not asymmetric:
        inside, clipped = _errors(below + above, ends)
        error = inside * (2 * ends / _STEPS) ** 2 / 12 + clipped
        highest = float(ends[1 + np.argmin(error[1:])])
        return -highest, highest
    sides = (_errors(below, ends), _errors(above, ends))
    chosen = [int(np.flatnonzero(inside == inside[-1])[0]) for inside, _ in sides]
    for side in (0, 1) * _ROUNDS:
        (inside, clipped), (others, _) = sides[side], sides[1 - side]
        width = ends + ends[chosen[1 - side]]
        rounded = inside + others[chosen[1 - side]]
        chosen[side] = int(np.argmin(rounded * (width / (_STEPS + 1)) ** 2 / 12 + clipped))
    return -float(ends[chosen[0]]), float(ends[chosen[1]])


def _least_error_behind(
    function: TableFunction, histogram: Histogram, *, asymmetric: bool
) -> Range:
    """The range with the least mean square error of a function's results."""
    centres = (np.arange(-_BINS, _BINS) + 0.5) * (histogram.limit / _BINS)
    seen = histogram.counts > 0
    values, counts = centres[seen], histogram.counts[seen]
    exact = function(values)
    grid = np.linspace(-histogram.limit, histogram.limit, _GRID)
    known = function(grid)

    def error(lowest: float, highest: float) -> float:
        step = (highest - lowest) / (_STEPS + asymmetric)
        steps = np.clip(np.rint(values / step), np.rint(lowest / step), np.rint(highest / step))
        found = np.stack([np.interp(steps * step, grid, each) for each in known])
        return float((counts * (found - exact) ** 2).sum())

    largest = min(max(-histogram.lowest, histogram.highest), histogram.limit)
    tries = largest * np.geomspace(_NARROWEST, 1, _TRIES)
    lowest, highest = _least_error(histogram, asymmetric)
    if not asymmetric:
        highest = min((*tries.tolist(), highest), key=lambda each: error(-each, each))
        return -highest, highest
    for _ in range(_ROUNDS):
        highest = min((*tries.tolist(), highest), key=lambda each: error(lowest, each))
        lowest = min((*(-tries).tolist(), 0.0, lowest), key=lambda each: error(each, highest))
    return lowest, highest


def _errors(counts: Array, ends: Array) -> tuple[Array, Array]:
    """Clipping at each of the ends of bins, (bins + 1,)."""
    centres = (ends[:-1] + ends[1:]) / 2
    number, total, squares = (
        np.append(np.cumsum((counts * centres**power)[::-1])[::-1], 0.0) for power in (0, 1, 2)
    )
    return number[0] - number, squares - 2 * ends * total + ends**2 * number
