# SPDX-License-Identifier: Apache-2.0
"""`MappingSpace`: every mapping of one nest on one architecture, as knobs.

The coding is total: each index stands for a mapping that is legal but for the buffers. An inner
tile that exceeds its outer tile is cut to it, and so is ``clusters`` where ``cluster_size`` leaves
fewer PEs. Several indices may therefore stand for one mapping; `encode` gives the plain one. Only
the buffers refuse an index; `repair` halves tiles until they fit.
"""

from __future__ import annotations

import math
from itertools import permutations, product
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.cost import CostModel, Rule
from tilewright.tuner.mapping.exact import nothing_fits
from tilewright.tuner.mapping.fixed import FREE, Fixed
from tilewright.tuner.mapping.mapping import COLUMNS, Batch, Mapping, mapping_of
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest
from tilewright.tuner.search.space import Index, Knob, Space, SpaceError

Indices = npt.NDArray[np.int32]
"""Positions of the knobs of many points, shape ``[n, len(space.knobs)]``."""

_D: Final = len(DIMENSIONS)


class LevelColumns(NamedTuple):
    """Columns of a `Batch` that describe one level."""

    tile: slice
    order: slice
    parallel: int  # number of the loop that its units share
    units: int  # how many: clusters, or PEs of a cluster


OUTER: Final = LevelColumns(slice(0, _D), slice(2 * _D, 3 * _D), 4 * _D, 4 * _D + 2)
INNER: Final = LevelColumns(slice(_D, 2 * _D), slice(3 * _D, 4 * _D), 4 * _D + 1, 4 * _D + 3)
LEVELS: Final = (OUTER, INNER)

ORDERS: Final[npt.NDArray[np.int32]] = np.array(list(permutations(range(_D))), dtype=np.int32)
"""Loop orders by the position of an order knob, shape ``[720, 6]``."""

_ORDER_CODE: Final = _D ** np.arange(_D)[::-1]
_ORDER_POSITION: Final = np.full(_D**_D, -1, dtype=np.int32)
_ORDER_POSITION[ORDERS @ _ORDER_CODE] = np.arange(len(ORDERS))

REJECTIONS: Final = 4
"""Rounds of draws before `MappingSpace.sample_batch` repairs what still fits no buffer."""


class MappingSpace(Space[Mapping]):
    """Mappings of one nest on one architecture.

    Knobs, in the order of an index: six outer tiles, six inner tiles (each any integer up to the
    loop's size), outer and inner order (positions of `ORDERS`), outer and inner parallel loop,
    clusters, cluster size.

    Attributes:
        model: the cost model of the two.
        fixed: what every mapping has.

    Example:
        >>> import numpy as np
        >>> from tilewright.tuner.mapping.architecture import load_architecture
        >>> nest = LoopNest(name="fc", sizes=(64, 256, 1, 1, 1, 1))
        >>> space = MappingSpace(nest, load_architecture("flexible-256"))
        >>> indices = space.sample_batch(np.random.default_rng(0), 1000)
        >>> bool(space.model.costs(space.decode_batch(indices)).legal.all())
        True
    """

    def __init__(self, nest: LoopNest, arch: Architecture, fixed: Fixed = FREE) -> None:
        fixed.require_possible(nest, arch)
        self.model: Final = CostModel(nest, arch)
        self.fixed: Final = fixed
        arch = fixed.within(arch)
        self._parallels: Final = tuple(
            np.array([DIMENSIONS.index(d) for d in loops], dtype=np.int32)
            for loops in (arch.outer_parallel, arch.inner_parallel)
        )
        orders = tuple("".join(DIMENSIONS[d] for d in order) for order in ORDERS)
        sizes = nest.sizes
        tiles = {size: tuple(range(1, size + 1)) for size in sizes}
        self._most_clusters: Final = min(arch.pes, arch.max_clusters or arch.pes)
        most_per_cluster = min(arch.pes, arch.max_cluster_size or arch.pes)
        super().__init__(
            [
                *(
                    Knob(name=f"{level}_tile_{d}", values=tiles[size])
                    for level in ("outer", "inner")
                    for d, size in zip(DIMENSIONS, sizes, strict=True)
                ),
                *(Knob(name=f"{at}_order", values=orders, ordered=False) for at in _LEVELS),
                *(
                    Knob(name=f"{at}_parallel", values=tuple(loops), ordered=False)
                    for at, loops in zip(
                        _LEVELS, (arch.outer_parallel, arch.inner_parallel), strict=True
                    )
                ),
                Knob(name="clusters", values=tuple(range(1, self._most_clusters + 1))),
                Knob(name="cluster_size", values=tuple(range(1, most_per_cluster + 1))),
            ]
        )
        self._lengths: Final = np.array([len(knob) for knob in self.knobs], dtype=np.int32)
        self._log_uniform: Final = np.array([k.ordered and len(k) >= 4 for k in self.knobs])
        outer, inner = (range(len(loops)) for loops in self._parallels)
        smallest = np.zeros((len(outer) * len(inner), len(self.knobs)), dtype=np.int32)
        smallest[:, 2 * _D + 2 : 2 * _D + 4] = list(product(outer, inner))
        rows = self.decode_batch(smallest)
        self._smallest: Final = rows[self.model.costs(rows).legal]
        if not len(self._smallest):
            error = nothing_fits(arch, fixed)
            raise SpaceError(error.rule, field=error.field, value=error.value, remedy=error.remedy)

    @property
    def mappings(self) -> int:
        """Distinct mappings before the buffers and what is fixed refuse some.

        `raw_size` counts every index.
        """
        nest, arch = self.model.nest, self.model.arch
        tiles: int = math.prod(size * (size + 1) // 2 for size in nest.sizes)
        pairs = sum(min(self._most_clusters, arch.pes // s) for s in self.knobs[-1].values)
        parallels = len(arch.outer_parallel) * len(arch.inner_parallel)
        return int(tiles * len(ORDERS) ** 2 * parallels * pairs)

    # -- one point --------------------------------------------------------------------------

    def decode(self, index: Index) -> Mapping:
        """The mapping of an index."""
        if why := self._outside(index):
            raise SpaceError(why, field="index", value=index)
        return mapping_of(self._row(index))

    def encode(self, point: Mapping) -> Index:
        """The plain index of a mapping: no tile that `decode` would cut."""
        if why := self.fixed.refusal(point):
            raise SpaceError("is no mapping of this space", value=why)
        row = point.row()
        rule = Rule(int(self.model.costs(row[None]).rules[0]))
        if rule in _OUTSIDE:
            try:
                self.model.cost(point)
            except ConfigError as error:
                raise SpaceError("is no mapping of this space", value=str(error)) from error
        return tuple(self.encode_batch(row[None])[0].tolist())

    def _refusal(self, index: Index) -> str:
        row = self._row(index)
        if self.model.costs(row[None]).legal[0]:
            return ""
        try:
            self.model.cost(mapping_of(row))
        except ConfigError as error:
            return str(error)
        raise AssertionError("the batch and the single cost disagree")

    def _row(self, index: Index) -> Batch:
        row: Batch = self.decode_batch(np.array([index], dtype=np.int32))[0]
        return row

    # -- many points at once ----------------------------------------------------------------

    def decode_batch(self, indices: Indices) -> Batch:
        """Mappings of indices, shape ``[n, len(COLUMNS)]``; the buffers may refuse some."""
        batch = np.empty((len(indices), len(COLUMNS)), dtype=np.int32)
        for number, level in enumerate(LEVELS):
            batch[:, level.tile] = indices[:, level.tile] + 1
            batch[:, level.order] = ORDERS[indices[:, 2 * _D + number]]
            batch[:, level.parallel] = self._parallels[number][indices[:, 2 * _D + 2 + number]]
            batch[:, level.units] = indices[:, number - 2] + 1
        return self.cut(batch)

    def encode_batch(self, batch: Batch) -> Indices:
        """Plain indices of mappings of this space, shape ``[n, len(space.knobs)]``."""
        indices = np.empty((len(batch), len(self.knobs)), dtype=np.int32)
        for number, level in enumerate(LEVELS):
            indices[:, level.tile] = batch[:, level.tile] - 1
            indices[:, 2 * _D + number] = _ORDER_POSITION[batch[:, level.order] @ _ORDER_CODE]
            same = batch[:, level.parallel, None] == self._parallels[number]
            indices[:, 2 * _D + 2 + number] = same.argmax(axis=1)
            indices[:, number - 2] = batch[:, level.units] - 1
        return indices

    def cut(self, batch: Batch) -> Batch:
        """Mappings with what is fixed, inner tiles cut to the outer ones, and clusters to the PEs.

        In place.
        """
        if self.fixed:
            self.fixed.apply(batch, self.model.arch.pes)
        np.minimum(batch[:, INNER.tile], batch[:, OUTER.tile], out=batch[:, INNER.tile])
        most = self.model.arch.pes // batch[:, INNER.units]
        np.minimum(batch[:, OUTER.units], most, out=batch[:, OUTER.units])
        return batch

    def draw_batch(self, rng: np.random.Generator, n: int) -> Indices:
        """Indices drawn knob by knob as `Knob.draw` does; the buffers may refuse some."""
        lengths = self._lengths
        uniform = rng.random((n, len(lengths)))
        logs = np.exp(uniform * np.log(lengths + 1)).astype(np.int32) - 1
        flat = (uniform * lengths).astype(np.int32)
        drawn: Indices = np.where(self._log_uniform, logs, flat)
        return np.minimum(drawn, lengths - 1, out=drawn)

    def sample_batch(self, rng: np.random.Generator, n: int) -> Indices:
        """Indices of ``n`` legal mappings; each legal mapping has a positive probability.

        What the buffers refuse is drawn again `REJECTIONS` times, then repaired.
        """
        indices = self.draw_batch(rng, n)
        for attempt in range(REJECTIONS + 1):
            batch = self.decode_batch(indices)
            refused = np.flatnonzero(~self.model.costs(batch).legal)
            if not len(refused):
                break
            if attempt == REJECTIONS:
                indices[refused] = self.encode_batch(self.repair(batch[refused], rng))
            else:
                indices[refused] = self.draw_batch(rng, len(refused))
        return indices

    def repair(self, batch: Batch, rng: np.random.Generator | None = None) -> Batch:
        """Legal mappings near mappings of this space: tiles are halved until the buffers hold them.

        Where a PE's buffer overflows, an inner tile is halved; where the shared one does, an outer
        tile or the clusters. The largest is, or with a generator a random one, large ones first.
        """
        batch = self.cut(batch.copy())
        left = np.arange(len(batch))
        while len(left):
            rules = self.model.costs(batch[left]).rules
            left, rules = left[rules != Rule.LEGAL], rules[rules != Rule.LEGAL]
            for rule, columns in _HALVED.items():
                rows = left[rules == rule]
                size = np.log2(batch[np.ix_(rows, columns)] / self.fixed.least[columns])
                if rng is not None:
                    size *= rng.random(size.shape)
                chosen = columns[size.argmax(axis=1)]
                batch[rows, chosen] = (batch[rows, chosen] + 1) // 2
                # Only what is fixed is left: another parallel loop has room.
                batch[rows[size.max(axis=1, initial=0) == 0]] = self._smallest[0]
            self.cut(batch)
        return batch


_LEVELS: Final = ("outer", "inner")
_OUTSIDE: Final = (Rule.TILE, Rule.ORDER, Rule.PARALLEL, Rule.PES)
_HALVED: Final = {
    Rule.L1_CAPACITY: np.arange(_D, 2 * _D),
    Rule.L2_CAPACITY: np.array([*range(_D), OUTER.units]),
}
"""Columns of a `Batch` that make the tiles of a buffer smaller."""
