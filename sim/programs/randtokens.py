# SPDX-License-Identifier: Apache-2.0
"""Dependency tokens for random programs: as few as needed, then some at random."""

from __future__ import annotations

from collections.abc import Hashable, Mapping

import numpy as np
import numpy.typing as npt

from tilewright.host.machine.isa import Unit
from tilewright.sim.programs.randdata import pick


class TokenTracker:
    """Orders conflicting accesses of different units by tokens.

    A token from instruction ``d`` of unit A to instruction ``e`` of unit B is a push on ``d``
    and a pop on ``e``. It is added only if B does not know yet that ``d`` is complete, so for
    each pair (A, B) tokens have increasing ``d`` for increasing ``e``: the k-th push meets the
    k-th pop although tokens carry no names.
    """

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng
        self._transitive = bool(rng.integers(2))
        self._extra = pick(rng, (0.0, 0.1, 0.4))
        self._units: list[Unit] = []
        self._known: list[dict[Unit, int]] = []
        self._latest = {unit: dict.fromkeys(Unit, -1) for unit in Unit}
        self._writer: dict[Hashable, dict[Unit, int]] = {}
        self._reader: dict[Hashable, dict[Unit, int]] = {}
        self._tokens: set[tuple[int, int]] = set()

    def add(
        self,
        unit: Unit,
        reads: Mapping[Hashable, npt.NDArray[np.int64]],
        writes: Mapping[Hashable, npt.NDArray[np.int64]],
    ) -> None:
        """Append an instruction that accesses these cells of these memories."""
        index = len(self._units)
        read, written = _cells(reads), _cells(writes)
        needed: dict[Unit, int] = {}
        before = [self._writer.get(cell, {}) for cell in read | written]
        before += [self._reader.get(cell, {}) for cell in written]
        for other, latest in (item for accesses in before for item in accesses.items()):
            needed[other] = max(needed.get(other, -1), latest)
        known = self._latest[unit]
        for source in sorted(needed):
            if source != unit and needed[source] > known[source]:
                self._connect(needed[source], index, known)
        if self._rng.random() < self._extra:
            popped = {self._units[source] for source, target in self._tokens if target == index}
            self._connect_at_random(index, popped | {unit}, known)
        self._units.append(unit)
        known[unit] = index
        self._known.append(dict(known))
        for cell in read:
            self._reader.setdefault(cell, {})[unit] = index
        for cell in written:
            self._writer.setdefault(cell, {})[unit] = index

    def masks(self, index: int) -> dict[str, int]:
        """The ``pop`` and ``push`` masks of an instruction."""
        pop = push = 0
        for source, target in self._tokens:
            if target == index:
                pop |= 1 << self._units[source]
            if source == index:
                push |= 1 << self._units[target]
        return {"pop": pop, "push": push}

    def _connect(self, source: int, target: int, known: dict[Unit, int]) -> None:
        self._tokens.add((source, target))
        unit = self._units[source]
        if self._transitive:
            for other, latest in self._known[source].items():
                known[other] = max(known[other], latest)
        known[unit] = max(known[unit], source)

    def _connect_at_random(self, index: int, without: set[Unit], known: dict[Unit, int]) -> None:
        """A token that no data needs, from an instruction not yet known to be complete."""
        choices = [
            source
            for source, owner in enumerate(self._units)
            if owner not in without and source > known[owner]
        ]
        if choices:
            self._connect(pick(self._rng, choices), index, known)


def _cells(accesses: Mapping[Hashable, npt.NDArray[np.int64]]) -> set[Hashable]:
    return {(memory, cell) for memory, cells in accesses.items() for cell in cells.tolist()}
