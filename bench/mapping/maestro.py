# SPDX-License-Identifier: Apache-2.0
"""The cost model against recorded rows of MAESTRO: rank correlation and error of cycles.

A row is compared when it is sound (exact multiply-accumulates, cycles at least these per PE) and
translated: the average number of PEs at work, which MAESTRO prints, is that of our mapping within
5 %. MAESTRO's Y and X count input rows; its tiles of them count output rows.

Recorded rows are ``dataflows.csv`` and ``mapspace.csv`` of a folder: what was given to MAESTRO, and
of its output the columns of `PRINTED`. tests/unit/bench/mapping/maestro has them.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.bench.framework.statistics import rank_correlation
from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.cost import CostModel
from tilewright.tuner.mapping.mapping import Level, Mapping
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest, NestKind

PRINTED: Final = ("NumPEs", "Runtime (Cycles)", "Num MACs", "Avg number of utilized PEs")
"""Columns that MAESTRO prints; the others say what it was given."""

UNLIMITED: Final = 81920000
"""Bandwidth of the rows of ``mapspace.csv``, elements per cycle."""

Row = dict[str, str]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """One row, translated: cycles."""

    group: str  # data flow and hardware, or layer of the random mappings
    theirs: float
    ours: float
    compute: float  # of ours, what the PEs need; the others wait for bandwidth or the first tile


def nest_of_row(row: Row) -> LoopNest:
    """The layer of a row."""
    k, c, rows, columns, r, s = (int(row[name]) for name in "KCYXRS")
    stride = int(row.get("stride") or 1)
    return LoopNest(
        name=row["layer"],
        kind=NestKind.DEPTHWISE if row["type"] == "DSCONV" else NestKind.CONV,
        sizes=(k, c, (rows - r) // stride + 1, (columns - s) // stride + 1, r, s),
        stride_y=stride,
        stride_x=stride,
    )


def architecture(pes: int, noc: float, dram: float) -> Architecture:
    """Hardware of a row; all elements are one byte wide, as in MAESTRO."""
    return Architecture(
        name="maestro",
        pes=pes,
        noc_bytes_per_cycle=noc,
        dram_bytes_per_cycle=dram,
        partial_bytes=1,
        l1_energy=1.68,
        l2_energy=18.61,
        dram_energy=0,
    )


def _two_levels(
    nest: LoopNest,
    pes: int,
    cluster_size: int,
    outer: tuple[dict[str, int], str, str],
    inner: tuple[dict[str, int], str, str],
) -> Mapping:
    """A mapping; of each level tiles (whole where not named), order, and parallel loop."""
    extent = dict(zip(DIMENSIONS, nest.sizes, strict=True))
    levels = []
    for tiles, order, parallel in (outer, inner):
        extent = {d: min(tiles.get(d, size), size) for d, size in extent.items()}
        k, c, y, x, r, s = (extent[d] for d in DIMENSIONS)
        rest = "".join(d for d in DIMENSIONS if d not in order)
        levels.append(Level(tile=(k, c, y, x, r, s), order=order + rest, parallel=parallel))
    return Mapping(
        outer=levels[0], inner=levels[1], clusters=pes // cluster_size, cluster_size=cluster_size
    )


def _nvdla(nest: LoopNest, pes: int) -> Mapping:
    outer = ({"K": 1, "C": 64, "Y": 1, "X": 1}, "KCRSYX", "K")
    return _two_levels(nest, pes, 64, outer, ({"C": 1}, "CYXRS", "C"))


def _one_level(tiles: str, order: str, parallel: str) -> Callable[[LoopNest, int], Mapping]:
    def flow(nest: LoopNest, pes: int) -> Mapping:
        outer = (dict.fromkeys(tiles, 1), order, parallel)
        return _two_levels(nest, pes, 1, outer, ({}, order, parallel))

    return flow


def _output_stationary(nest: LoopNest, pes: int) -> Mapping:
    outer = ({"K": 1, "Y": 1, "X": 8, "C": 1}, "KYXCRS", "Y")
    return _two_levels(nest, pes, 8, outer, ({"X": 1}, "XRSKCY", "X"))


def _shidiannao(nest: LoopNest, pes: int) -> Mapping:
    size = 12 if pes == 256 else 32  # M3E's clusters, found by the PEs at work
    outer = ({"K": 1, "Y": nest.sizes[4], "X": size, "C": 1}, "KYXCRS", "Y")
    return _two_levels(nest, pes, size, outer, ({"C": 1, "Y": 1, "X": 1}, "CYXRSK", "X"))


FLOWS: Final[dict[str, Callable[[LoopNest, int], Mapping]]] = {
    "kcp_ws": _nvdla,
    "dla_magma": _nvdla,
    "xp_ws": _one_level("KCYX", "KCRSYX", "X"),
    "nlr": _one_level("KCYX", "KYXRSC", "C"),
    "yxp_os": _output_stationary,
    "shi_magma": _shidiannao,
}
"""Data flows as mappings. Row-stationary ones are none: two loops step together on their PEs."""


def mapping_of_row(row: Row, nest: LoopNest, pes: int) -> Mapping | None:
    """The mapping of a row; None for a data flow that is none."""
    if "dataflow" in row:
        flow = FLOWS.get(row["dataflow"])
        return None if flow is None else flow(nest, pes)
    outer, inner = (
        (json.loads(row[f"tiles_{level}"]), row[f"order_{level}"], row[f"par_{level}"])
        for level in ("L2", "L1")
    )
    return _two_levels(nest, pes, int(row["cluster"]), outer, inner)


def average_pes(nest: LoopNest, mapping: Mapping) -> float:
    """PEs at work, on average over steps: what MAESTRO prints."""
    found = 1.0
    extents = (nest.sizes, mapping.outer.tile)
    wide = (mapping.clusters, mapping.cluster_size)
    for level, extent, units in zip((mapping.outer, mapping.inner), extents, wide, strict=True):
        at = DIMENSIONS.index(level.parallel)
        tiles = ceil(extent[at] / level.tile[at])
        found *= tiles / ceil(tiles / units)
    return found


def compare(rows: Iterable[Row]) -> Iterator[tuple[str, Compared | None]]:
    """What became of each row: "unsound", "untranslated", or "compared" with its figures."""
    for row in rows:
        nest = nest_of_row(row)
        pes, theirs = int(row["NumPEs"]), float(row["Runtime (Cycles)"])
        if int(row["Num MACs"]) != nest.macs or theirs * pes < nest.macs:
            yield "unsound", None
            continue
        mapping = mapping_of_row(row, nest, pes)
        at_work = float(row["Avg number of utilized PEs"])
        if mapping is None or abs(average_pes(nest, mapping) / at_work - 1) > 0.05:
            yield "untranslated", None
            continue
        noc, dram = (float(row.get(name) or UNLIMITED) for name in ("noc_bw", "offchip_bw"))
        cost = CostModel(nest, architecture(pes, noc, dram)).cost(mapping)
        name = f"random {nest.name}"
        if "dataflow" in row:
            name = f"{row['dataflow']} {row['hw']} hop {row['hop_latency']}"
        yield (
            "compared",
            Compared(
                group=name, theirs=theirs, ours=cost["cycles"], compute=cost["compute_cycles"]
            ),
        )


def figures(rows: list[Compared]) -> dict[str, Any]:
    """Rows, rank correlation, median ratio of cycles, and median error, per cent."""
    ratio = np.array([r.ours / r.theirs for r in rows])
    return {
        "rows": len(rows),
        "spearman": rank_correlation([r.ours for r in rows], [r.theirs for r in rows]),
        "median_ratio": round(float(np.median(ratio)), 4),
        "median_error_pct": round(float(np.median(np.abs(ratio - 1))) * 100, 2),
        "worst_ratio": round(float(np.exp(np.abs(np.log(ratio)).max())), 2),
    }


def document(folder: Path) -> dict[str, Any]:
    """All figures: in all, per file, per data flow and hardware, and what was left out."""
    fates: dict[str, int] = {}
    found: dict[str, list[Compared]] = {}
    for name in ("dataflows", "mapspace"):
        with (folder / f"{name}.csv").open(encoding="utf-8", newline="") as file:
            for fate, row in compare(csv.DictReader(file)):
                fates[fate] = fates.get(fate, 0) + 1
                if row is not None:
                    for group in ("all", name, row.group):
                        found.setdefault(group, []).append(row)
    return {"fates": fates, "groups": {name: figures(rows) for name, rows in found.items()}}
