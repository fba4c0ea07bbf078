# SPDX-License-Identifier: Apache-2.0
"""`Mapping`: how a loop nest is cut, ordered and spread; and its row in a batch.

Two levels. The *outer* level cuts the nest into cluster tiles and runs over the shared buffer (L2).
The *inner* level cuts a cluster tile into PE tiles and runs over the buffers of the PEs (L1). At
each level one loop is parallel: neighbouring tiles of it go to neighbouring clusters (outer) or PEs
(inner). A PE walks through its tile with one multiply-accumulate per cycle.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.nest import DIMENSIONS, MAX_SIZE

Batch = npt.NDArray[np.int32]
"""Mappings, shape ``[n, len(COLUMNS)]``; what the cost model takes."""

COLUMNS: Final = (
    *(f"outer_tile_{d}" for d in DIMENSIONS),
    *(f"inner_tile_{d}" for d in DIMENSIONS),
    *(f"outer_order_{i}" for i in range(len(DIMENSIONS))),
    *(f"inner_order_{i}" for i in range(len(DIMENSIONS))),
    "outer_parallel",
    "inner_parallel",
    "clusters",
    "cluster_size",
)
"""Columns of a `Batch`. Orders hold positions of `DIMENSIONS`, outermost loop first."""

_D: Final = len(DIMENSIONS)


def _counts(value: object) -> bool:
    return type(value) is int and 1 <= value <= MAX_SIZE


@dataclass(frozen=True, kw_only=True)
class Level:
    """Choices at one level.

    Attributes:
        tile: iterations of each loop within one tile, in the order of `DIMENSIONS`.
    """

    tile: tuple[int, int, int, int, int, int]
    order: str  # loops over tiles, outermost first; a permutation of `DIMENSIONS`
    parallel: str  # the loop whose neighbouring tiles run at the same time

    def __post_init__(self) -> None:
        """Refuse what is no tile, no permutation or no loop."""
        if len(self.tile) != _D or not all(map(_counts, self.tile)):
            raise ConfigError(
                f"must be {_D} integers from 1 to {MAX_SIZE}, {' '.join(DIMENSIONS)}",
                field="tile",
                value=self.tile,
            )
        if sorted(self.order) != sorted(DIMENSIONS):
            raise ConfigError(
                "must name each loop once", field="order", value=self.order, remedy="e.g. KCYXRS"
            )
        if self.parallel not in DIMENSIONS:
            raise ConfigError(
                f"must be one of {', '.join(DIMENSIONS)}", field="parallel", value=self.parallel
            )


@dataclass(frozen=True, kw_only=True)
class Mapping:
    """A point of the mapping space."""

    outer: Level  # cluster tiles, their order, and the loop that is spread over clusters
    inner: Level  # PE tiles, their order, and the loop that is spread over the PEs of a cluster
    clusters: int  # groups of PEs
    cluster_size: int  # PEs per cluster

    def __post_init__(self) -> None:
        """Validate what needs no nest and no architecture."""
        for name in ("clusters", "cluster_size"):
            value = getattr(self, name)
            if not _counts(value):
                raise ConfigError(
                    f"must be an integer from 1 to {MAX_SIZE}", field=name, value=value
                )
        for d, small, large in zip(DIMENSIONS, self.inner.tile, self.outer.tile, strict=True):
            if small > large:
                raise ConfigError(
                    f"must be at most the outer tile ({large})",
                    field=f"inner.tile.{d}",
                    value=small,
                    remedy="a PE works on a part of its cluster's tile",
                )

    def row(self) -> Batch:
        """The mapping as one row of a `Batch`, shape ``[len(COLUMNS)]``."""
        place = DIMENSIONS.index
        return np.array(
            [
                *self.outer.tile,
                *self.inner.tile,
                *map(place, self.outer.order),
                *map(place, self.inner.order),
                place(self.outer.parallel),
                place(self.inner.parallel),
                self.clusters,
                self.cluster_size,
            ],
            dtype=np.int32,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values for YAML and JSON; inverse of `mapping_from`."""
        levels = {
            name: {
                "tile": dict(zip(DIMENSIONS, level.tile, strict=True)),
                "order": level.order,
                "parallel": level.parallel,
            }
            for name, level in (("outer", self.outer), ("inner", self.inner))
        }
        return {**levels, "clusters": self.clusters, "cluster_size": self.cluster_size}


def mapping_of(row: Sequence[int] | Batch) -> Mapping:
    """The mapping of one row of a `Batch`."""
    values = [int(v) for v in row]
    if len(values) != len(COLUMNS) or not all(0 <= v < _D for v in values[2 * _D : 4 * _D + 2]):
        raise ConfigError(f"must have {len(COLUMNS)} columns", field="row", value=values)
    names = [DIMENSIONS[v] for v in values[2 * _D : 4 * _D + 2]]
    k, c, y, x, r, s = values[:_D]
    outer = Level(tile=(k, c, y, x, r, s), order="".join(names[:_D]), parallel=names[2 * _D])
    k, c, y, x, r, s = values[_D : 2 * _D]
    inner = Level(
        tile=(k, c, y, x, r, s), order="".join(names[_D : 2 * _D]), parallel=names[2 * _D + 1]
    )
    return Mapping(outer=outer, inner=inner, clusters=values[-2], cluster_size=values[-1])


def mapping_from(values: MappingType[str, Any]) -> Mapping:
    """The mapping of `Mapping.as_dict`."""
    known = ("outer", "inner", "clusters", "cluster_size")
    if not isinstance(values, dict) or set(values) != set(known):
        raise ConfigError(f"must have the keys {', '.join(known)}", field="mapping", value=values)
    levels = []
    for name in ("outer", "inner"):
        level = values[name]
        if not isinstance(level, dict) or set(level) != {"order", "parallel", "tile"}:
            raise ConfigError("must have the keys tile, order, parallel", field=name, value=level)
        tile = level["tile"]
        if not isinstance(tile, dict) or set(tile) != set(DIMENSIONS):
            raise ConfigError(
                f"must have the keys {', '.join(DIMENSIONS)}", field=f"{name}.tile", value=tile
            )
        k, c, y, x, r, s = (tile[d] for d in DIMENSIONS)
        levels.append(
            Level(
                tile=(k, c, y, x, r, s), order=str(level["order"]), parallel=str(level["parallel"])
            )
        )
    return Mapping(
        outer=levels[0],
        inner=levels[1],
        clusters=values["clusters"],
        cluster_size=values["cluster_size"],
    )


def batch_of(mappings: Iterable[Mapping]) -> Batch:
    """Rows of mappings, shape ``[n, len(COLUMNS)]``."""
    rows = [mapping.row() for mapping in mappings]
    return np.array(rows, dtype=np.int32).reshape(len(rows), len(COLUMNS))
