# SPDX-License-Identifier: Apache-2.0
"""What every mapper has to beat: random samples, annealing, a plain genetic algorithm, descent.

The genetic algorithm knows nothing of mappings; pruned random samples as Timeloop's mapper does.

Simulated annealing: many chains side by side, cooled as the budget is used.

Source: Kirkpatrick et al., "Optimization by Simulated Annealing", Science 220, 1983. A move changes
one thing (`moves.any_move`); a temperature is a factor of cost, as costs span orders of magnitude.

A genetic algorithm that knows nothing of mappings: knobs are genes.

Source: Goldberg, "Genetic Algorithms in Search, Optimization and Machine Learning", 1989: uniform
crossover of two winners of a tournament, mutation by a fresh draw, elitism.

Coordinate descent with random restarts: the honest baseline.

One knob at a time takes the best of all values that are tried of it, in a random sequence of knobs.
After a round of knobs that changes nothing, the search starts again from a random mapping.

Random-pruned search, as Timeloop's mapper does it.

Source: Parashar et al., "Timeloop: A Systematic Approach to DNN Accelerator Evaluation", ISPASS
2019, section V, and the ``random-pruned`` strategy of its public code. Tiles are factors of what
they cut. Of mappings that differ in loops of one step alone, or were seen before, only one is
sampled; the others are passed by without a sample.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.mapping.methods.moves import any_move
from tilewright.tuner.mapping.nest import DIMENSIONS
from tilewright.tuner.mapping.space import INNER, OUTER, Indices, MappingSpace
from tilewright.tuner.search.space import Knob

CHAINS: Final = 16
HOT: Final = 0.3
COLD: Final = 0.001
"""Temperatures at the start and the end, in the logarithm of the cost."""


class AnnealingMapper(Mapper):
    """Chains that start from random mappings and never meet."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        space = probe.space
        here = space.decode_batch(space.sample_batch(rng, CHAINS))
        costs = np.log(probe.values(here))
        while True:
            done = 1 - probe.left / probe.budget
            temperature = HOT * (COLD / HOT) ** done
            there = any_move(space, here, rng)
            found = np.log(probe.values(there))
            accepted = rng.random(CHAINS) < np.exp(np.minimum(0, (costs - found) / temperature))
            here[accepted], costs[accepted] = there[accepted], found[accepted]


POPULATION: Final = 100
ELITE: Final = 10
TOURNAMENT: Final = 3
GENES_MUTATED: Final = 1.5
"""Mean number per child."""


class GeneticMapper(Mapper):
    """Generations of `POPULATION` children; what no buffer holds is repaired and kept so."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        space = probe.space
        parents = space.sample_batch(rng, POPULATION)
        costs = probe.values(space.decode_batch(parents))
        children, genes = POPULATION - ELITE, parents.shape[1]
        while True:
            drawn = rng.integers(POPULATION, size=(2, children, TOURNAMENT))
            winners = np.take_along_axis(drawn, costs[drawn].argmin(axis=2)[..., None], axis=2)
            mother, father = parents[winners[0, :, 0]], parents[winners[1, :, 0]]
            child = np.where(rng.random((children, genes)) < 0.5, mother, father)
            mutated = rng.random((children, genes)) < GENES_MUTATED / genes
            child = np.where(mutated, space.draw_batch(rng, children), child)
            batch = space.repair(space.decode_batch(child), rng)
            elite = np.argsort(costs, kind="stable")[:ELITE]
            parents = np.concatenate([parents[elite], space.encode_batch(batch)])
            costs = np.concatenate([costs[elite], probe.values(batch)])


LINE: Final = 24
"""Values that are tried of one knob."""


class CoordinateMapper(Mapper):
    """Greedy along lines; a line that no buffer holds is shorter."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        space = probe.space
        while True:
            centre = space.sample_batch(rng, 1)
            cost = float(probe.values(space.decode_batch(centre))[0])
            idle = 0
            while idle < len(space.knobs):
                for knob in rng.permutation(len(space.knobs)):
                    line = self._line(space, centre, int(knob), rng)
                    batch = space.decode_batch(line)
                    fits = space.model.costs(batch).legal
                    idle += 1
                    if fits.any():
                        values = probe.values(batch[fits])
                        if values.min() < cost:
                            cost, idle = float(values.min()), 0
                            centre = space.encode_batch(batch[fits][[values.argmin()]])
                    if idle >= len(space.knobs):
                        break

    @staticmethod
    def _line(space: MappingSpace, centre: Indices, knob: int, rng: np.random.Generator) -> Indices:
        positions = tried(space.knobs[knob], int(centre[0, knob]), rng)
        line = np.repeat(centre, len(positions), axis=0)
        line[:, knob] = positions
        return line


def tried(knob: Knob, here: int, rng: np.random.Generator) -> npt.NDArray[np.int32]:
    """Positions to try: all of a short knob; else near ones, and others at random.

    Near ones of an ordered knob are the next ones up and down, twice and half; the others are drawn
    as the knob draws.
    """
    n = len(knob)
    if n <= LINE:
        every = np.arange(n)
    else:
        near = [here - 1, here + 1, 2 * here + 1, (here + 1) // 2 - 1] if knob.ordered else []
        drawn = [knob.draw(rng) for _ in range(LINE - len(near))]
        every = np.unique([p for p in (*near, *drawn) if 0 <= p < n])
    found: npt.NDArray[np.int32] = every[every != here].astype(np.int32)
    return found


DRAWN: Final = 2048
BARREN: Final = 20
"""Draws without anything new in a row that end the search: the space is used up."""

_D: Final = len(DIMENSIONS)


class PrunedRandomMapper(Mapper):
    """Draws tiles that divide, and samples each distinct mapping once."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        space, seen, barren = probe.space, set[bytes](), 0
        divisors = _divisor_table(space.model.nest.sizes)
        while barren < BARREN:
            batch = _draw(space, divisors, rng)
            batch = batch[space.model.costs(batch).legal]
            keys = [row.tobytes() for row in plain_orders(space, batch)]
            fresh = []
            for place, key in enumerate(keys):
                if key not in seen:
                    seen.add(key)
                    fresh.append(place)
            barren = 0 if fresh else barren + 1
            if fresh:
                probe.values(batch[fresh])


def _divisor_table(sizes: tuple[int, ...]) -> dict[int, npt.NDArray[np.int32]]:
    """Divisors of each size and of each of its divisors."""
    found = {}
    for size in set(sizes):
        small = [d for d in range(1, int(size**0.5) + 1) if size % d == 0]
        every = sorted({*small, *(size // d for d in small)})
        for d in every:
            found[d] = np.array([e for e in every if d % e == 0], dtype=np.int32)
    return found


def _draw(
    space: MappingSpace, divisors: dict[int, npt.NDArray[np.int32]], rng: np.random.Generator
) -> Batch:
    """Mappings with tiles that divide, and no more clusters or PEs than there are tiles."""
    batch = space.decode_batch(space.draw_batch(rng, DRAWN))
    sizes = space.model.nest.sizes
    for d, size in enumerate(sizes):
        outer = divisors[size][rng.integers(len(divisors[size]), size=DRAWN)]
        counts = {tile: len(divisors[tile]) for tile in divisors[size].tolist()}
        pick = (rng.random(DRAWN) * [counts[tile] for tile in outer.tolist()]).astype(int)
        batch[:, d] = outer
        batch[:, _D + d] = [
            divisors[tile][p] for tile, p in zip(outer.tolist(), pick.tolist(), strict=True)
        ]
    rows = np.arange(DRAWN)
    parallel2, parallel1 = batch[:, OUTER.parallel], batch[:, INNER.parallel]
    tiles2 = np.array(sizes)[parallel2] // batch[rows, parallel2]
    tiles1 = batch[rows, parallel1] // batch[rows, _D + parallel1]
    np.minimum(batch[:, OUTER.units], tiles2, out=batch[:, OUTER.units])
    np.minimum(batch[:, INNER.units], tiles1, out=batch[:, INNER.units])
    return batch


def plain_orders(space: MappingSpace, batch: Batch) -> Batch:
    """The same mappings with all loops of one step outermost, in the order of `DIMENSIONS`.

    Mappings that differ in where such loops stand cost the same, and become equal here.
    """
    plain = batch.copy()
    sizes = np.broadcast_to(space.model.nest.sizes, (len(batch), _D))
    for order, extent, tile, parallel, wide in (
        (OUTER.order, sizes, batch[:, OUTER.tile], OUTER.parallel, OUTER.units),
        (INNER.order, batch[:, OUTER.tile], batch[:, INNER.tile], INNER.parallel, INNER.units),
    ):
        span = tile.astype(np.int64)
        rows = np.arange(len(batch))
        span[rows, batch[:, parallel]] *= batch[:, wide]
        still = np.take_along_axis(span >= extent, batch[:, order], axis=1)
        key = np.where(still, batch[:, order], _D + np.arange(_D))
        plain[:, order] = np.take_along_axis(batch[:, order], np.argsort(key, axis=1), axis=1)
    return plain


CHUNK: Final = 4096
"""Mappings drawn at once."""


class RandomMapper(Mapper):
    """Draws legal mappings: tiles and PEs log-uniform, orders and parallel loops uniform."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        while True:
            indices = probe.space.sample_batch(rng, min(CHUNK, probe.left))
            probe.values(probe.space.decode_batch(indices))
