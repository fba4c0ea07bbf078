# SPDX-License-Identifier: Apache-2.0
"""Points of a space as vectors: what every learning tuner sees of them.

An ordered knob gives two numbers, its position scaled to [0, 1] and the logarithm (base 2) of one
plus its value; an unordered knob gives one indicator a value. The encoding holds no knowledge of
the accelerator: what a tuner knows beyond it, it has to measure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.search.space import Index, Knob, Space

Features = npt.NDArray[np.float32]
"""Shape (points, features)."""


class FeatureEncoder:
    """Encodes the indices of one space; ``columns`` are the places of each knob's features."""

    def __init__(self, space: Space[object]) -> None:
        names: list[str] = []
        tables: list[Features] = []
        columns: list[range] = []
        for knob in space.knobs:
            labels, table = _knob_table(knob)
            columns.append(range(len(names), len(names) + len(labels)))
            names += labels
            tables.append(table)
        self.names: Final = tuple(names)
        self.columns: Final = tuple(columns)
        self._tables: Final = tables

    @property
    def width(self) -> int:
        """Features of a point."""
        return len(self.names)

    def encode(self, indices: Sequence[Index]) -> Features:
        """Feature vectors of some indices: float32 array of shape (len(indices), width)."""
        if not indices:
            return np.zeros((0, self.width), dtype=np.float32)
        positions = np.asarray(indices, dtype=np.int64)
        columns = [table[positions[:, k]] for k, table in enumerate(self._tables)]
        return np.concatenate(columns, axis=1)


def _knob_table(knob: Knob) -> tuple[list[str], Features]:
    """Feature names of a knob, and its features by position: shape (len(knob), names)."""
    count = len(knob)
    if not knob.ordered:
        labels = [f"{knob.name}={value}" for value in knob.values]
        return labels, np.eye(count, dtype=np.float32)
    scaled = np.arange(count, dtype=np.float32) / max(1, count - 1)
    labels, columns = [f"{knob.name}.position"], [scaled]
    if all(isinstance(v, (int, float)) and v >= 0 for v in knob.values):
        labels.append(f"{knob.name}.log2")
        columns.append(np.log2(1 + np.asarray(knob.values, dtype=np.float64)).astype(np.float32))
    return labels, np.stack(columns, axis=1)
