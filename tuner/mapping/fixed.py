# SPDX-License-Identifier: Apache-2.0
"""`Fixed`: the part of a mapping that a user fixes; what is searched then is the rest."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError, errors_in
from tilewright.host.common.plain_values import is_integer, plain_integer, refuse_unknown
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.mapping import Batch, Mapping
from tilewright.tuner.mapping.nest import DIMENSIONS, MAX_SIZE, LoopNest

GAP: Final = "..."
"""In an order: the loops that are free, in any order."""

LEVEL_NAMES: Final = ("outer", "inner")
_UNITS: Final = ("clusters", "cluster_size")
_D: Final = len(DIMENSIONS)


@dataclass(frozen=True, kw_only=True)
class FixedLevel:
    """What is fixed at one level.

    Attributes:
        tile: iterations of each loop, in the order of `DIMENSIONS`; 0: free.
        order: loops from outside to inside, with ``...`` for those that are free: ``K...YX`` has K
            outermost, and X innermost within Y.
        parallel: the parallel loop; empty: free.
    """

    tile: tuple[int, ...] = (0,) * _D
    order: str = GAP
    parallel: str = ""

    def __post_init__(self) -> None:
        """Validate."""
        for d, size in zip(DIMENSIONS, self.tile, strict=True):
            if not is_integer(size, 0, MAX_SIZE):
                raise ConfigError(
                    f"must be an integer from 1 to {MAX_SIZE}", field=f"tile.{d}", value=size
                )
        loops = self.order.replace(GAP, "", 1)
        whole = GAP in self.order or len(loops) == _D
        if not whole or len(set(loops)) != len(loops) or not set(loops) <= set(DIMENSIONS):
            raise ConfigError(
                f"must name each of {', '.join(DIMENSIONS)} once, or '{GAP}' for those left out",
                field="order",
                value=self.order,
                remedy="e.g. K...YX: K outermost, X innermost",
            )
        if self.parallel and self.parallel not in DIMENSIONS:
            raise ConfigError(
                f"must be one of {', '.join(DIMENSIONS)}", field="parallel", value=self.parallel
            )

    @property
    def places(self) -> tuple[int, ...]:
        """Number of the loop at each place of the order, outermost first; -1: any."""
        head, _, tail = self.order.partition(GAP)
        gap = _D - len(head) - len(tail)
        return tuple(-1 if d == " " else DIMENSIONS.index(d) for d in (*head, *(" " * gap), *tail))


class CFixed(ctypes.Structure):
    """`Fixed` of native/orders.h."""

    _fields_ = (
        *((name, ctypes.c_int32 * _D) for name in ("tile2", "tile1", "order2", "order1")),
        *((name, ctypes.c_int32) for name in _UNITS),
    )


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """A part of a mapping; without anything, every mapping is allowed.

    Example:
        >>> fixed = fixed_from({"outer": {"tile": {"K": 16}, "order": "...YX"}, "clusters": 4})
        >>> fixed.outer.tile, fixed.outer.places, fixed.clusters
        ((16, 0, 0, 0, 0, 0), (-1, -1, -1, -1, 2, 3), 4)
    """

    outer: FixedLevel = FixedLevel()
    inner: FixedLevel = FixedLevel()
    clusters: int = 0  # 0: free
    cluster_size: int = 0

    def __post_init__(self) -> None:
        """Validate what needs no nest and no architecture."""
        for name in _UNITS:
            value = getattr(self, name)
            if not is_integer(value, 0, MAX_SIZE):
                raise ConfigError(
                    f"must be an integer from 1 to {MAX_SIZE}", field=name, value=value
                )
        for d, small, large in zip(DIMENSIONS, self.inner.tile, self.outer.tile, strict=True):
            if large and small > large:
                raise ConfigError(
                    f"must be at most the outer tile ({large})",
                    field=f"inner.tile.{d}",
                    value=small,
                    remedy="a PE works on a part of its cluster's tile",
                )

    def __bool__(self) -> bool:
        return self != FREE

    def require_possible(self, nest: LoopNest, arch: Architecture) -> None:
        """Refuse what no mapping of a nest on an architecture has."""
        for name in LEVEL_NAMES:
            level: FixedLevel = getattr(self, name)
            for d, tile, size in zip(DIMENSIONS, level.tile, nest.sizes, strict=True):
                if tile > size:
                    raise ConfigError(
                        f"must be at most the loop's size ({size} in {nest.name})",
                        field=f"{name}.tile.{d}",
                        value=tile,
                    )
            allowed = getattr(arch, f"{name}_parallel")
            if level.parallel not in allowed:
                raise ConfigError(
                    f"must be one of the loops that {arch.name} spreads there ({allowed})",
                    field=f"{name}.parallel",
                    value=level.parallel,
                )
        for field, most in zip(_UNITS, (arch.max_clusters, arch.max_cluster_size), strict=True):
            own, limit = getattr(self, field), min(most or arch.pes, arch.pes)
            if own > limit:
                raise ConfigError(f"must be at most {limit} on {arch.name}", field=field, value=own)
        if self.clusters * self.cluster_size > arch.pes:
            raise ConfigError(
                f"must be at most {arch.pes} PEs of {arch.name}",
                field="clusters x cluster_size",
                value=f"{self.clusters} x {self.cluster_size}",
            )

    def within(self, arch: Architecture) -> Architecture:
        """The architecture with no other parallel loops, clusters and PEs of a cluster."""
        return replace(
            arch,
            outer_parallel=self.outer.parallel or arch.outer_parallel,
            inner_parallel=self.inner.parallel or arch.inner_parallel,
            max_clusters=self.clusters or arch.max_clusters,
            max_cluster_size=self.cluster_size or arch.max_cluster_size,
        )

    @functools.cached_property
    def given(self) -> npt.NDArray[np.bool_]:
        """Columns of a `Batch` that are fixed, orders left out; shape ``[len(COLUMNS)]``."""
        return self._values > 0

    @functools.cached_property
    def least(self) -> Batch:
        """The least value of each column of a `Batch`, shape ``[len(COLUMNS)]``."""
        least = self._values - self.given * ([0] * 4 * _D + [1, 1, 0, 0])
        np.maximum(least[:_D], least[_D : 2 * _D], out=least[:_D])
        sizes = np.array([1] * 2 * _D + [0] * (2 * _D + 2) + [1, 1], dtype=np.int32)
        return np.maximum(least, sizes)

    @functools.cached_property
    def _values(self) -> Batch:
        """Columns of a `Batch`, 0 where they are free; parallel loops count from 1."""
        spread = [
            1 + "".join(DIMENSIONS).find(level.parallel or "-")
            for level in (self.outer, self.inner)
        ]
        return np.array(
            [*self.outer.tile, *self.inner.tile, *[0] * 2 * _D, *spread,
             self.clusters, self.cluster_size],
            dtype=np.int32,
        )  # fmt: skip

    def apply(self, batch: Batch, pes: int) -> None:
        """Give mappings what is fixed, in place; what is free changes as little as it must."""
        np.maximum(batch, self.least, out=batch)
        batch[:, self.given] = self.least[self.given]
        for start, level in ((2 * _D, self.outer), (3 * _D, self.inner)):
            head, _, tail = level.order.partition(GAP)
            order = batch[:, start : start + _D]
            key = np.broadcast_to(np.arange(_D), order.shape).copy()
            for loops, first in ((head, -_D), (tail, _D)):
                for at, d in enumerate(loops):
                    key[order == DIMENSIONS.index(d)] = first + at
            order[:] = np.take_along_axis(order, key.argsort(axis=1), axis=1)
        if self.clusters:
            np.minimum(batch[:, -1], pes // self.clusters, out=batch[:, -1])

    def refusal(self, mapping: Mapping) -> str:
        """Where a mapping is another one than what is fixed, or an empty text."""
        for name in LEVEL_NAMES:
            fixed, level = getattr(self, name), getattr(mapping, name)
            for d, tile, own in zip(DIMENSIONS, fixed.tile, level.tile, strict=True):
                if tile not in (0, own):
                    return f"{name}.tile.{d} is {own}, not {tile}"
            own = [DIMENSIONS.index(d) for d in level.order]
            if any(place not in (-1, at) for place, at in zip(fixed.places, own, strict=True)):
                return f"{name}.order is {level.order}, not {fixed.order}"
            if fixed.parallel not in ("", level.parallel):
                return f"{name}.parallel is {level.parallel}, not {fixed.parallel}"
        for unit in _UNITS:
            if getattr(self, unit) not in (0, getattr(mapping, unit)):
                return f"{unit} is {getattr(mapping, unit)}, not {getattr(self, unit)}"
        return ""

    def native(self) -> CFixed:
        """As the native search takes it."""
        array = ctypes.c_int32 * _D
        return CFixed(
            *(array(*level.tile) for level in (self.outer, self.inner)),
            *(array(*level.places) for level in (self.outer, self.inner)),
            self.clusters,
            self.cluster_size,
        )

    def as_dict(self) -> dict[str, Any]:
        """Plain values, without what is free; inverse of `fixed_from`."""
        found: dict[str, Any] = {}
        for name in LEVEL_NAMES:
            level: FixedLevel = getattr(self, name)
            tile = {d: size for d, size in zip(DIMENSIONS, level.tile, strict=True) if size}
            order = level.order if level.order != GAP else ""
            parts = {"tile": tile, "order": order, "parallel": level.parallel}
            found[name] = {key: value for key, value in parts.items() if value}
        found |= {unit: getattr(self, unit) for unit in _UNITS}
        return {key: value for key, value in found.items() if value}


FREE: Final = Fixed()
"""Nothing is fixed."""


def fixed_from(values: MappingType[str, Any]) -> Fixed:
    """A part of the values of `Mapping.as_dict`.

    Raises:
        ConfigError: an unknown key, or a value that no mapping has.
    """
    refuse_unknown(values, (*LEVEL_NAMES, *_UNITS), of="a part of a mapping")
    levels: dict[str, FixedLevel] = {}
    for name in LEVEL_NAMES:
        level = values.get(name, {})
        with _level_named(name):
            if not isinstance(level, dict):
                raise ConfigError("must have some of tile, order, parallel", field="", value=level)
            refuse_unknown(level, ("tile", "order", "parallel"), of="a level")
            tile = level.get("tile", {})
            if not isinstance(tile, dict):
                raise ConfigError("must name loops and their sizes", field="tile", value=tile)
            refuse_unknown(tile, DIMENSIONS, of="a tile")
            for d, size in tile.items():
                _require_positive(f"tile.{d}", size)
            parallel = level.get("parallel", "")
            if "parallel" in level and (not isinstance(parallel, str) or not parallel):
                raise ConfigError("must name a loop", field="parallel", value=parallel)
            levels[name] = FixedLevel(
                tile=tuple(tile.get(d, 0) for d in DIMENSIONS),
                order=str(level.get("order", GAP)),
                parallel=parallel,
            )
    for unit in _UNITS:
        if unit in values:
            _require_positive(unit, values[unit])
    return Fixed(
        outer=levels["outer"],
        inner=levels["inner"],
        clusters=values.get("clusters", 0),
        cluster_size=values.get("cluster_size", 0),
    )


@contextlib.contextmanager
def _level_named(name: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        field = ".".join(part for part in (name, error.field) if part)
        raise ConfigError(
            error.rule, field=field, value=error.value, remedy=error.remedy
        ) from error


def read_fixed(texts: Sequence[str]) -> Fixed:
    """What several texts fix: ``outer.tile.K=16``, or a YAML file with a part of a mapping.

    Raises:
        ConfigError: a text is neither, one value is fixed twice, or no mapping has it.
    """
    values: dict[str, Any] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if sign and not Path(text).is_file():
            plain: Any = plain_integer(value)
            part = {}
            for name in reversed(key.split(".")):
                part = {name: plain}
                plain = part
        else:
            path = Path(text)
            part = read_yaml_mapping(path, "a part of a mapping")
            with errors_in(str(path)):
                fixed_from(part)
        _merge(values, part, text)
    return fixed_from(values)


def _merge(into: dict[str, Any], part: dict[str, Any], text: str) -> None:
    for key, value in part.items():
        if isinstance(value, dict) and isinstance(into.get(key), dict):
            _merge(into[key], value, text)
        elif key in into:
            raise ConfigError(f"{key} is fixed twice", field=text, remedy="leave one")
        else:
            into[key] = value


def _require_positive(field: str, value: object) -> None:
    if not is_integer(value, 1, MAX_SIZE):
        raise ConfigError(f"must be an integer from 1 to {MAX_SIZE}", field=field, value=value)
