# SPDX-License-Identifier: Apache-2.0
"""Structured search, our own: a few annealed chains whose moves know the shape of the space.

What makes it sample-efficient is what it leaves out (`plain_form`): three orders per level instead
of 720, tiles that waste nothing, and no mapping twice. Its moves trade: where a buffer is full, one
tile grows only while another shrinks, so a move changes such a pair; a move of the parallel loop or
of the PEs fits the tiles to them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.mapping.methods.plain_form import order_classes, step_tile, without_idle
from tilewright.tuner.mapping.nest import DIMENSIONS
from tilewright.tuner.mapping.space import INNER, LEVELS, OUTER, MappingSpace

FIRST: Final = 64
"""Random mappings; the best become the chains."""
CHAINS: Final = 6
OFFSPRING: Final = 3
"""Moves of a chain that are sampled together."""
HOT: Final = 0.3
COLD: Final = 0.003
"""Temperatures at the start and the end, in the logarithm of the cost."""
SECOND_MOVE: Final = 0.3
"""Probability that two moves are made at once."""
MIGRATION: Final = 0.05
"""Probability per step that the worst chain continues from where the best one is."""
BARREN: Final = 50
"""Steps without a mapping that is new, after which the chains start elsewhere."""

_D: Final = len(DIMENSIONS)
_STEPS: Final = (1, 1, 1, 2, 2, 3, 5, 9)
"""Distances among efficient tiles, drawn evenly."""

Row = list[int]


class StructuredMapper(Mapper):
    """Chains of mappings in plain form."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        moves = Moves(probe.space, rng)
        here, costs = self._begin(probe, moves, FIRST)
        barren = 0
        while barren < 2 * BARREN:
            done = 1 - probe.left / probe.budget
            temperature = HOT * (COLD / HOT) ** done
            offspring = [moves.moved(row) for row in here.tolist() for _ in range(OFFSPRING)]
            batch, places = moves.new(offspring)
            if not len(batch):
                barren += 1
                if barren == BARREN:
                    here, costs = self._begin(probe, moves, FIRST)
                continue
            barren = 0
            found = np.log(probe.values(batch))
            for child in np.argsort(-found, kind="stable"):  # the best child of a chain comes last
                chain = places[child] // OFFSPRING
                if rng.random() < math.exp(min(0.0, (costs[chain] - found[child]) / temperature)):
                    here[chain], costs[chain] = batch[child], found[child]
            worst, best = costs.argmax(), costs.argmin()
            if rng.random() < MIGRATION and costs[worst] - costs[best] > 2 * temperature:
                here[worst], costs[worst] = here[best], costs[best]

    @staticmethod
    def _begin(probe: Probe, moves: Moves, count: int) -> tuple[Batch, npt.NDArray[np.float64]]:
        """The best of some random mappings, and the logarithms of their costs."""
        batch, _ = moves.new([moves.start() for _ in range(count)])
        if not len(batch):
            batch = without_idle(probe.space.model.nest, probe.space.repair(moves.any_rows(1)))
        costs = np.log(probe.values(batch))
        best = np.argsort(costs, kind="stable")[:CHAINS]
        return batch[best], costs[best]


class Moves:
    """Random mappings of one space in plain form, and random changes of them."""

    def __init__(self, space: MappingSpace, rng: np.random.Generator) -> None:
        nest, arch = space.model.nest, space.model.arch
        self._space: Final = space
        self._rng: Final = rng
        self._sizes: Final = nest.sizes
        self._orders: Final = order_classes(nest.kind)
        self._live: Final = [d for d, size in enumerate(nest.sizes) if size > 1] or [0]
        spread = (
            [DIMENSIONS.index(d) for d in p] for p in (arch.outer_parallel, arch.inner_parallel)
        )
        self._parallels: Final = [[d for d in p if nest.sizes[d] > 1] or p for p in spread]
        self._most_clusters: Final = len(space.knobs[-2])
        self._most_per_cluster: Final = len(space.knobs[-1])
        self._seen: Final[set[bytes]] = set()

    def new(self, rows: Sequence[Row]) -> tuple[Batch, list[int]]:
        """Those of the rows, legal and in plain form, that were not given before; their places."""
        repaired = self._space.repair(np.array(rows, dtype=np.int32), self._rng)
        batch = without_idle(self._space.model.nest, repaired)
        places = []
        for place, row in enumerate(batch):
            key = row.tobytes()
            if key not in self._seen:
                self._seen.add(key)
                places.append(place)
        return batch[places], places

    def any_rows(self, count: int) -> Batch:
        """Mappings drawn by the space."""
        return self._space.decode_batch(self._space.sample_batch(self._rng, count))

    def start(self) -> Row:
        """A random mapping with an order class per level and PEs that tiles fit."""
        row: Row = self.any_rows(1)[0].tolist()
        for level in LEVELS:
            row[level.order] = self._any_order()
        row[OUTER.parallel], row[INNER.parallel] = map(self._pick, self._parallels)
        self._reshape(row)
        for d, size in enumerate(self._sizes):
            row[d] = step_tile(size, row[d], 0)
            row[_D + d] = step_tile(row[d], row[_D + d], 0)
        return row

    def moved(self, row: Row) -> Row:
        """A changed copy; the space has to repair it."""
        row = list(row)
        for _ in range(1 + (self._rng.random() < SECOND_MOVE)):
            self._move(row)
        return row

    def _move(self, row: Row) -> None:
        one, other = self._pick(self._live), self._pick(self._live)
        step, sign = self._pick(_STEPS), 1 if self._rng.random() < 0.5 else -1
        kind = self._rng.random()
        if kind < 0.2:
            self._step_inner(row, one, sign * step)
        elif kind < 0.4:
            self._step_outer(row, one, sign * step)
        elif kind < 0.52:
            self._step_inner(row, one, step)
            self._step_inner(row, other, -self._pick(_STEPS))
        elif kind < 0.64:
            self._step_outer(row, one, step)
            self._step_outer(row, other, -self._pick(_STEPS))
        elif kind < 0.74:
            row[OUTER.order if sign > 0 else INNER.order] = self._any_order()
        elif kind < 0.84:
            level = int(sign > 0)
            row[LEVELS[level].parallel] = self._pick(self._parallels[level])
            if self._rng.random() < 0.7:
                self._reshape(row)
        elif kind < 0.92:
            self._reshape(row)
        else:
            self._jump(row, one)

    def _step_inner(self, row: Row, d: int, steps: int) -> None:
        row[_D + d] = step_tile(row[d], row[_D + d], steps)

    def _step_outer(self, row: Row, d: int, steps: int) -> None:
        """An outer tile; its inner tile stays, or there stay as many of them."""
        inner_tiles = -(-row[d] // row[_D + d])
        row[d] = step_tile(self._sizes[d], row[d], steps)
        keep_count = self._rng.random() < 0.5
        row[_D + d] = -(-row[d] // inner_tiles) if keep_count else min(row[_D + d], row[d])

    def _jump(self, row: Row, d: int) -> None:
        """A tile to one of its ends, or as many clusters as there are PEs for."""
        kind = self._rng.random()
        if kind < 0.3:
            row[d] = self._sizes[d]
        elif kind < 0.6:
            row[_D + d] = row[d]
        elif kind < 0.8:
            row[_D + d] = 1
        else:
            row[OUTER.units] = self._clusters_of(row[INNER.units])

    def _reshape(self, row: Row) -> None:
        """Another size of clusters, all PEs in use, and often parallel tiles that fit them."""
        rng, most = self._rng, self._most_per_cluster
        if rng.random() < 0.7:
            size = 2 ** int(rng.integers(most.bit_length()))
        else:
            size = int(math.exp(rng.random() * math.log(most + 0.99)))
        row[INNER.units], row[OUTER.units] = size, self._clusters_of(size)
        outer, inner = row[OUTER.parallel], row[INNER.parallel]
        if rng.random() < 0.5:
            steps = int(rng.integers(1, 4))
            row[outer] = -(-self._sizes[outer] // (row[OUTER.units] * steps))
            row[_D + outer] = min(row[_D + outer], row[outer])
        if rng.random() < 0.5:
            steps = int(rng.integers(1, 4))
            row[_D + inner] = -(-row[inner] // (size * steps))

    def _clusters_of(self, size: int) -> int:
        return min(self._most_clusters, self._space.model.arch.pes // size)

    def _any_order(self) -> tuple[int, ...]:
        return self._orders[int(self._rng.integers(len(self._orders)))]

    def _pick(self, choices: Sequence[int]) -> int:
        return choices[int(self._rng.integers(len(choices)))]
