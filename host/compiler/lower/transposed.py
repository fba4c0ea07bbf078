# SPDX-License-Identifier: Apache-2.0
"""Transposed convolutions as plain ones: one for each phase of the strides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Int8Array = npt.NDArray[np.int8]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One residue of the output positions of a transposed convolution, along one axis.

    Attributes:
        first: first output position; the others follow at the stride.
        taps: kernel positions in the order of a plain convolution; -1 is a zero.
        pad_low, pad_high: padding of that convolution.
    """

    first: int
    taps: tuple[int, ...]
    pad_low: int
    pad_high: int

    def take(self, weights: Int8Array, axis: int) -> Int8Array:
        """The phase's taps of a kernel."""
        padded = np.concatenate([weights, np.zeros_like(np.take(weights, [0], axis))], axis)
        taken: Int8Array = np.take(padded, list(self.taps), axis)
        return taken


def phases(size: int, kernel: int, stride: int, pad: int, outputs: int) -> list[Phase]:
    """The plain convolutions that make up a transposed one, along one axis.

    Output position o sums ``x[i] * w[k]`` over all ``i * stride - pad + k == o``. Of one residue of
    o modulo the stride only every stride-th tap takes part: a convolution with stride 1.
    """
    found = []
    for first in range(min(stride, outputs)):
        tap = (first + pad) % stride
        ahead = (first + pad) // stride
        taps = list(range(tap, kernel, stride))[::-1] or [-1]
        count = -(-(outputs - first) // stride)
        low = len(taps) - 1 - ahead
        taps = [-1] * max(-low, 0) + taps
        low = max(low, 0)
        high = count + len(taps) - 1 - size - low
        taps += [-1] * max(-high, 0)
        found.append(Phase(first=first, taps=tuple(taps), pad_low=low, pad_high=max(high, 0)))
    return found
