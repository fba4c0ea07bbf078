# SPDX-License-Identifier: Apache-2.0
"""Costs of mappings: cycles, energy, area and what they come from, for whole batches.

`native/cost.h` computes them; docs/explanation/mapping-model.md derives it. The model is sound by
construction: multiply-accumulates are exact, cycles are at least multiply-accumulates per PE,
traffic is at least what every mapping must move, and edge tiles count with their own size.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Collection
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.places import ROOT
from tilewright.host.common.str_enum import StrEnum
from tilewright.sim.tools.build_cache import bind_library
from tilewright.sim.tools.native_build import build_native
from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.mapping import COLUMNS, Batch, Mapping
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest, NestKind

NATIVE_DIR: Final = ROOT / "tuner" / "mapping" / "native"

_VERSION: Final = 2

_NUMBERS: Final = (
    "partial_bytes", "noc_bandwidth", "dram_bandwidth", "pass_cycles", "mac_energy", "l1_energy",
    "l2_energy", "noc_energy", "dram_energy", "pe_area", "l1_area", "l2_area", "noc_area",
    "l1_bytes", "l2_bytes", "buffers",
)  # fmt: skip
"""Doubles of `Architecture` in native/cost.h, after ``bytes``."""

_PRICES: Final = {
    kind: tuple(name for name in _NUMBERS if name.endswith(f"_{kind}"))
    for kind in ("energy", "area")
}

_WHOLE_NUMBERS: Final = ("pes", "max_clusters", "max_cluster_size")

MEASURES: Final = (
    "cycles",
    "energy",
    "area",
    "compute_cycles",
    "noc_in_bytes",
    "noc_out_bytes",
    "dram_weight_bytes",
    "dram_input_bytes",
    "dram_output_bytes",
    "l2_moved_bytes",
    "delivered_bytes",
    "l1_bytes",
    "l2_bytes",
    "pes",
)
"""What the model tells of a mapping; columns of `Costs.values`, in the order of native/cost.h."""


class Objective(StrEnum):
    """What a search minimises."""

    LATENCY = "latency"
    ENERGY = "energy"
    EDP = "edp"
    """Energy times latency."""
    AREA = "area"


def value_of(cost: dict[str, float], objective: Objective) -> float:
    """What a search minimises of a cost."""
    if objective is Objective.EDP:
        return cost["energy"] * cost["cycles"]
    return cost["cycles" if objective is Objective.LATENCY else objective.value]


class Resident(StrEnum):
    """What may lie in L2 as a whole while a nest runs; the order of native/cost.h."""

    WEIGHTS = "weights"
    INPUTS = "inputs"
    SUMS = "sums"
    """Partial sums, ``partial_bytes`` wide: the nest goes on with them and leaves them as such."""
    RESULTS = "results"
    """Complete outputs, ``output_bytes`` wide; partial sums may leave for DRAM as ever."""


class Rule(IntEnum):
    """Why a row is no legal mapping; the order of `Verdict` in native/evaluate.cpp."""

    LEGAL = 0
    TILE = 1
    ORDER = 2
    PARALLEL = 3
    PES = 4
    L1_CAPACITY = 5
    L2_CAPACITY = 6


@dataclass(frozen=True)
class Costs:
    """Costs of a batch.

    Attributes:
        values: shape ``[n, len(MEASURES)]``; zeros for a row that has no cost at all (a rule
            before `Rule.L1_CAPACITY`).
    """

    rules: npt.NDArray[np.int32]  # shape ``[n]``; `Rule` of each row
    values: npt.NDArray[np.float64]

    def __getitem__(self, measure: str) -> npt.NDArray[np.float64]:
        """One of `MEASURES`, shape ``[n]``."""
        column: npt.NDArray[np.float64] = self.values[:, MEASURES.index(measure)]
        return column

    @property
    def legal(self) -> npt.NDArray[np.bool_]:
        """Shape ``[n]``."""
        mask: npt.NDArray[np.bool_] = self.rules == Rule.LEGAL
        return mask

    def of(self, objective: Objective) -> npt.NDArray[np.float64]:
        """What a search minimises, shape ``[n]``; infinite for a row that is not legal."""
        if objective is Objective.LATENCY:
            found = self["cycles"]
        elif objective is Objective.ENERGY:
            found = self["energy"]
        elif objective is Objective.EDP:
            found = self["energy"] * self["cycles"]
        else:
            found = self["area"]
        return np.where(self.legal, found, np.inf)


def require_priced(arch: Architecture, objective: Objective) -> None:
    """Refuse an objective that is zero for every mapping: there is nothing to minimise."""
    kind = "area" if objective is Objective.AREA else "energy"
    prices = _PRICES[kind]
    if objective is not Objective.LATENCY and not any(getattr(arch, name) for name in prices):
        raise ConfigError(
            f"is nothing to minimise: no {kind} of {arch.name} is above 0",
            field="objective",
            value=objective.value,
            remedy=f"give one of {', '.join(prices)}, or minimise latency",
        )


class CNest(ctypes.Structure):
    """`Nest` of native/cost.h."""

    _fields_ = (
        ("size", ctypes.c_int32 * len(DIMENSIONS)),
        ("stride", ctypes.c_int32 * 2),
        ("depthwise", ctypes.c_int32),
        ("resident", ctypes.c_uint32),
    )


class CArchitecture(ctypes.Structure):
    """`Architecture` of native/cost.h."""

    _fields_ = (
        ("bytes", ctypes.c_double * 3),
        *((name, ctypes.c_double) for name in _NUMBERS),
        *((name, ctypes.c_int32) for name in _WHOLE_NUMBERS),
        ("outer_parallel", ctypes.c_uint32),
        ("inner_parallel", ctypes.c_uint32),
    )


def c_nest(nest: LoopNest, resident: Collection[Resident] = ()) -> CNest:
    """A nest as the native model takes it."""
    return CNest(
        (ctypes.c_int32 * len(DIMENSIONS))(*nest.sizes),
        (ctypes.c_int32 * 2)(nest.stride_y, nest.stride_x),
        nest.kind is NestKind.DEPTHWISE,
        sum(1 << list(Resident).index(part) for part in resident),
    )


def c_architecture(arch: Architecture) -> CArchitecture:
    """An architecture as the native model takes it."""
    renamed = {
        "noc_bandwidth": arch.noc_bytes_per_cycle,
        "dram_bandwidth": arch.dram_bytes_per_cycle,
        "outer_parallel": _mask(arch.outer_parallel),
        "inner_parallel": _mask(arch.inner_parallel),
    }
    element_bytes = (ctypes.c_double * 3)(arch.weight_bytes, arch.input_bytes, arch.output_bytes)
    names = (*_NUMBERS, *_WHOLE_NUMBERS, "outer_parallel", "inner_parallel")
    rest = [renamed[name] if name in renamed else getattr(arch, name) for name in names]
    return CArchitecture(element_bytes, *rest)


def _array_of(arch: Architecture) -> str:
    limits = (
        f"{arch.max_clusters} clusters" if arch.max_clusters else "",
        f"{arch.max_cluster_size} PEs per cluster" if arch.max_cluster_size else "",
        f"{arch.pes} PEs",
    )
    return ", ".join(filter(None, limits))


def _mask(loops: str) -> int:
    return sum(1 << DIMENSIONS.index(loop) for loop in loops)


@functools.cache
def mapping_library() -> ctypes.CDLL:
    """The native cost model and exact mapper, built when the cache does not hold them."""
    inputs = sorted(path for path in NATIVE_DIR.iterdir() if path.suffix in (".cpp", ".h"))
    pointer, i32, i64, number = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.c_double
    signatures: dict[str, tuple[list[Any], Any]] = {
        "tw_mapping_evaluate": ([pointer, pointer, pointer, i64, pointer, pointer], None),
        "tw_mapping_order": ([pointer, pointer, i32, pointer, i64], None),
        "tw_mapping_exact_new": (
            [pointer, pointer, i32, number, i64, pointer, number, number],
            pointer,
        ),
        "tw_mapping_exact_front": ([pointer, pointer, i64], i64),
        "tw_mapping_exact_run": ([pointer, i64, number, pointer, pointer], None),
        "tw_mapping_exact_free": ([pointer], None),
    }
    path = build_native("mapping", inputs)
    return bind_library(path, {"tw_mapping_version": _VERSION}, signatures)


class CostModel:
    """Costs of mappings of one nest on one architecture.

    Args:
        resident: what L2 holds whole throughout, in one copy, and does not exchange with DRAM.

    Example:
        >>> from tilewright.tuner.mapping.architecture import load_architecture
        >>> from tilewright.tuner.mapping.mapping import Level, Mapping
        >>> nest = LoopNest(name="fc", sizes=(64, 256, 1, 1, 1, 1))
        >>> model = CostModel(nest, load_architecture("flexible-256"))
        >>> level = Level(tile=(1, 16, 1, 1, 1, 1), order="KCYXRS", parallel="K")
        >>> mapping = Mapping(outer=level, inner=level, clusters=64, cluster_size=1)
        >>> cost = model.cost(mapping)
        >>> cost["compute_cycles"], cost["dram_weight_bytes"]
        (256.0, 16384.0)
    """

    def __init__(
        self, nest: LoopNest, arch: Architecture, *, resident: Collection[Resident] = ()
    ) -> None:
        self.nest: Final = nest
        self.arch: Final = arch
        self.resident: Final = tuple(resident)
        self._nest = c_nest(nest, resident)
        self._arch = c_architecture(arch)

    def __reduce__(self) -> tuple[object, ...]:
        return functools.partial(CostModel, resident=self.resident), (self.nest, self.arch)

    def costs(self, batch: Batch) -> Costs:
        """Costs of a batch, shape ``[n, len(COLUMNS)]``."""
        if batch.ndim != 2 or batch.shape[1] != len(COLUMNS):
            raise ConfigError(
                f"must have the shape [n, {len(COLUMNS)}]", field="batch", value=batch.shape
            )
        rows = np.ascontiguousarray(batch, dtype=np.int32)
        rules = np.empty(len(rows), dtype=np.int32)
        values = np.empty((len(rows), len(MEASURES)), dtype=np.float64)
        mapping_library().tw_mapping_evaluate(
            ctypes.byref(self._nest),
            ctypes.byref(self._arch),
            rows.ctypes.data,
            len(rows),
            rules.ctypes.data,
            values.ctypes.data,
        )
        return Costs(rules, values)

    def cost(self, mapping: Mapping) -> dict[str, float]:
        """Costs of one mapping, by the names of `MEASURES`."""
        costs = self.costs(mapping.row()[None])
        found = dict(zip(MEASURES, costs.values[0].tolist(), strict=True))
        self._require_legal(Rule(int(costs.rules[0])), mapping, found)
        return found

    def _require_legal(self, rule: Rule, mapping: Mapping, found: dict[str, float]) -> None:
        arch = self.arch
        if rule is Rule.TILE:
            d, tile, size = next(
                (d, tile, size)
                for d, tile, size in zip(
                    DIMENSIONS, mapping.outer.tile, self.nest.sizes, strict=True
                )
                if tile > size
            )
            raise ConfigError(
                f"must be at most the loop's size ({size})", field=f"outer.tile.{d}", value=tile
            )
        if rule is Rule.PARALLEL:
            raise ConfigError(
                f"{arch.name} spreads {arch.outer_parallel} over clusters and "
                f"{arch.inner_parallel} over PEs",
                field="parallel",
                value=f"{mapping.outer.parallel}, {mapping.inner.parallel}",
            )
        if rule is Rule.PES:
            raise ConfigError(
                f"must be at most {_array_of(arch)} of {arch.name}",
                field="clusters x cluster_size",
                value=f"{mapping.clusters} x {mapping.cluster_size}",
            )
        if rule in (Rule.L1_CAPACITY, Rule.L2_CAPACITY):
            level = "l1_bytes" if rule is Rule.L1_CAPACITY else "l2_bytes"
            raise ConfigError(
                f"tiles must fit the buffer of {getattr(arch, level)} bytes",
                field=level,
                value=int(found[level]),
                remedy=f"take smaller tiles: {found[level] - getattr(arch, level):,.0f} bytes less",
            )
