# SPDX-License-Identifier: Apache-2.0
"""Runs a mapping step by step and counts what moves: the judge of the mapping cost model.

Written from the prose of docs/explanation/mapping-model.md. Nothing is multiplied over loops, and
no trip is counted in advance: clusters and PEs hold tiles, each tile is a set of coordinates, and a
tile moves when somebody needs one that it does not hold.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod

import numpy as np

from tilewright.tuner.mapping.mapping import Level, Mapping
from tilewright.tuner.mapping.nest import DIMENSIONS, RELEVANT, LoopNest, Tensor

Range = tuple[int, int]
"""Iterations of one loop, first and one past the last."""

Tile = dict[str, Range]
"""Iterations of every loop."""

Part = tuple[Range, ...]
"""Iterations of the loops that index one tensor: which tile of the tensor it is."""


@dataclass
class Counts:
    """What an interpreted mapping did. Outputs count visits: times that an element moves up."""

    macs: np.ndarray
    """Times that each multiply-accumulate was done; shape: the nest's sizes."""
    touched: dict[Tensor, set] = field(default_factory=lambda: {t: set() for t in Tensor})
    """Distinct elements that ever moved."""
    cycles: int = 0
    """Sum over steps of the largest PE tile."""
    steps: int = 0
    dram: dict[Tensor, int] = field(default_factory=lambda: dict.fromkeys(Tensor, 0))
    noc: dict[Tensor, int] = field(default_factory=lambda: dict.fromkeys(Tensor, 0))
    delivered: dict[Tensor, int] = field(default_factory=lambda: dict.fromkeys(Tensor, 0))
    dram_back: int = 0
    """Partial sums that L2 reads again."""
    noc_back: int = 0
    l1: dict[Tensor, int] = field(default_factory=lambda: dict.fromkeys(Tensor, 0))
    """Largest tile of a PE, elements."""
    l2: dict[Tensor, int] = field(default_factory=lambda: dict.fromkeys(Tensor, 0))
    most_pes: int = 0


def interpret(nest: LoopNest, mapping: Mapping) -> Counts:
    """Run a mapping literally."""
    return _Machine(nest, mapping).run()


class _Machine:
    def __init__(self, nest: LoopNest, mapping: Mapping) -> None:
        self.nest = nest
        self.mapping = mapping
        self.counts = Counts(np.zeros(nest.sizes, dtype=np.int64))
        self.l2: dict[Tensor, Part] = {}
        self.pes: dict[Tensor, dict[tuple[int, int], Part]] = {t: {} for t in Tensor}
        self.been_in_dram: set = set()
        self.been_in_l2: set = set()
        self._elements: dict[tuple[Tensor, Part], frozenset] = {}

    def run(self) -> Counts:
        outer, inner = self.mapping.outer, self.mapping.inner
        whole = {d: (0, size) for d, size in zip(DIMENSIONS, self.nest.sizes, strict=True)}
        for chunk in _steps(whole, outer, self.mapping.clusters):
            clusters = _parts(chunk, whole, outer, self.mapping.clusters)
            self.outer_step(_join(list(clusters.values())))
            # Clusters step together; the first one has the largest tile, and so the most steps.
            for offset in _steps(clusters[0], inner, self.mapping.cluster_size):
                moved = {d: offset[d][0] - clusters[0][d][0] for d in DIMENSIONS}
                tiles = {}
                for j, tile in clusters.items():
                    start = {d: (tile[d][0] + moved[d], tile[d][1]) for d in DIMENSIONS}
                    parts = _parts(start, tile, inner, self.mapping.cluster_size)
                    tiles |= {(j, i): part for i, part in parts.items()}
                self.inner_step(tiles)
        self.flush_pes()
        self.flush_l2()
        return self.counts

    def outer_step(self, chunk: Tile) -> None:
        """L2 takes the tiles that the clusters of this step need together."""
        counts = self.counts
        for tensor in Tensor:
            wanted = self.part(tensor, chunk)
            if self.l2.get(tensor) == wanted:
                continue
            elements = self.elements(tensor, wanted)
            if tensor is Tensor.OUTPUTS:
                self.flush_pes()
                self.flush_l2()
                counts.dram_back += len(elements & self.been_in_dram)
            else:
                counts.dram[tensor] += len(elements)
            counts.l2[tensor] = max(counts.l2[tensor], len(elements))
            counts.touched[tensor] |= elements
            self.l2[tensor] = wanted

    def inner_step(self, tiles: dict[tuple[int, int], Tile]) -> None:
        """PEs with work take the tiles that they do not hold, and work on them."""
        counts = self.counts
        counts.steps += 1
        counts.most_pes = max(counts.most_pes, len(tiles))
        longest = 0
        for tile in tiles.values():
            where = tuple(slice(*tile[d]) for d in DIMENSIONS)
            counts.macs[where] += 1
            longest = max(longest, prod(hi - lo for lo, hi in tile.values()))
        counts.cycles += longest
        for tensor in Tensor:
            self.serve(tensor, {pe: self.part(tensor, tile) for pe, tile in tiles.items()})

    def serve(self, tensor: Tensor, wanted: dict[tuple[int, int], Part]) -> None:
        """Multicast each tile once to the PEs that want it and do not hold it."""
        counts, held = self.counts, self.pes[tensor]
        takers = {pe: part for pe, part in wanted.items() if held.get(pe) != part}
        if tensor is Tensor.OUTPUTS:
            self.give({held[pe] for pe in takers if pe in held})
        present = self.elements(tensor, self.l2[tensor])
        for part in set(takers.values()):
            elements = self.elements(tensor, part)
            assert elements <= present, "a PE works on what L2 does not hold"
            counts.l1[tensor] = max(counts.l1[tensor], len(elements))
            if tensor is Tensor.OUTPUTS:
                counts.noc_back += len(elements & self.been_in_l2)
            else:
                counts.noc[tensor] += len(elements)
        if tensor is not Tensor.OUTPUTS:
            for part in takers.values():
                counts.delivered[tensor] += len(self.elements(tensor, part))
        held |= takers

    def give(self, gone: set[Part]) -> None:
        """All PEs that hold one of these tiles of outputs add up to one tile, which goes to L2."""
        counts, held = self.counts, self.pes[Tensor.OUTPUTS]
        for part in gone:
            elements = self.elements(Tensor.OUTPUTS, part)
            counts.noc[Tensor.OUTPUTS] += len(elements)
            self.been_in_l2 |= elements
            for pe in [pe for pe, mine in held.items() if mine == part]:
                del held[pe]
                counts.delivered[Tensor.OUTPUTS] += len(elements)

    def flush_pes(self) -> None:
        self.give(set(self.pes[Tensor.OUTPUTS].values()))

    def flush_l2(self) -> None:
        if Tensor.OUTPUTS in self.l2:
            elements = self.elements(Tensor.OUTPUTS, self.l2.pop(Tensor.OUTPUTS))
            self.counts.dram[Tensor.OUTPUTS] += len(elements)
            self.been_in_dram |= elements

    def part(self, tensor: Tensor, tile: Tile) -> Part:
        return tuple(tile[d] for d in RELEVANT[self.nest.kind][tensor])

    def elements(self, tensor: Tensor, part: Part) -> frozenset:
        """Coordinates of the elements that a tile touches."""
        key = (tensor, part)
        if key not in self._elements:
            loops = RELEVANT[self.nest.kind][tensor]
            axes = {d: range(*bounds) for d, bounds in zip(loops, part, strict=True)}
            if tensor is Tensor.INPUTS:
                found = itertools.product(
                    axes["C"],
                    {y * self.nest.stride_y + r for y in axes["Y"] for r in axes["R"]},
                    {x * self.nest.stride_x + s for x in axes["X"] for s in axes["S"]},
                )
            else:
                found = itertools.product(*axes.values())
            self._elements[key] = frozenset(found)
        return self._elements[key]


def _steps(extent: Tile, level: Level, wide: int) -> Iterator[Tile]:
    """Where each step of a level through an extent starts, in its order."""
    size = dict(zip(DIMENSIONS, level.tile, strict=True))
    starts = [
        range(*extent[d], size[d] * (wide if d == level.parallel else 1)) for d in level.order
    ]
    for found in itertools.product(*starts):
        yield {d: (at, extent[d][1]) for d, at in zip(level.order, found, strict=True)}


def _parts(start: Tile, extent: Tile, level: Level, wide: int) -> dict[int, Tile]:
    """Tiles of the neighbours of one step that have work."""
    size = dict(zip(DIMENSIONS, level.tile, strict=True))
    parts = {}
    for j in range(wide):
        tile = {}
        for d in DIMENSIONS:
            low = start[d][0] + (j * size[d] if d == level.parallel else 0)
            tile[d] = (low, min(low + size[d], extent[d][1]))
        if all(lo < hi for lo, hi in tile.values()):
            parts[j] = tile
    return parts


def _join(tiles: list[Tile]) -> Tile:
    """The smallest box around neighbouring tiles, which they fill."""
    return {d: (min(t[d][0] for t in tiles), max(t[d][1] for t in tiles)) for d in DIMENSIONS}
