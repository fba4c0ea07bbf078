# SPDX-License-Identifier: Apache-2.0
"""Architectures that nobody had in mind: how many does the accelerator run whole?

Architectures are drawn from timm by a seed, over its families (`bench.networks.timm_networks`).
Each has random weights, is compiled in a process of its own with limits of time and memory, and is
not run: cycles are the twin's. What is refused, crashes or takes too long is a row with an error.

    tilewright bench networks --unseen --json unseen.json
"""

from __future__ import annotations

import resource
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from tilewright.bench.commands import NETWORK_CONDITIONS, NetworksSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study, limited
from tilewright.bench.framework.tables import FigureTable, table_of
from tilewright.bench.networks import timm_networks
from tilewright.bench.networks.networks import compiled_row
from tilewright.host.common.names import counted
from tilewright.host.compiler.quantise.agreement import Agreement
from tilewright.host.compiler.read.calibration import Calibration
from tilewright.host.compiler.read.import_options import ImportOptions, QuantiseOptions

SAMPLES: Final = 2
"""Random inputs that an architecture is quantised with, and compared on."""

SECONDS: Final = 900.0
MEMORY_BYTES: Final = 16 << 30
"""Of address space."""

LITTLE: Final = 0.1
"""Of the latency: crossings and the CPU take little up to it."""


def measure(name: str, given: NetworksSettings) -> Row:
    """One architecture."""
    import numpy as np  # noqa: PLC0415  (of a child alone)

    network, shape = timm_networks.build(name, given.seed), timm_networks.input_shape(name)
    compilation, row = compiled_row(
        network,
        given,
        Calibration(random_samples=SAMPLES, seed=given.seed),
        ImportOptions(
            name=name,
            example_inputs=[np.zeros(shape, np.float32)],
            quantise=QuantiseOptions(int8_ends=True),
        ),
    )
    agreement = Agreement.from_mapping(compilation.imported.accuracy.agreement)
    return {
        "pixels": shape[-1],
        "parameters": timm_networks.parameters(network),
        **row,
        "sqnr_db": agreement.worst_db,
        "compile_seconds": compilation.seconds,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def left_behind(row: Row) -> dict[str, int]:
    """Operators of a row that stay on the CPU: count by kind, most frequent first."""
    kinds: Counter[str] = Counter()
    for each in row["cpu_kinds"]:
        kinds[each["kind"]] += each["count"]
    return dict(kinds.most_common())


class Unseen(Study):
    """Architectures of timm, one after another."""

    resumes = True

    def __init__(self, settings: NetworksSettings) -> None:
        super().__init__(settings)
        self.given: Final = settings.chosen(search=0)

    def cells(self) -> list[Cell]:
        timm_networks.load_timm()
        chosen = timm_networks.drawn(
            timm_networks.families(), self.given.count, self.given.seed, timm_networks.fits
        )
        return [{"network": name, "family": family} for family, name in chosen]

    def measure(self, cell: Cell) -> list[Row]:
        started = time.perf_counter()
        row = limited(
            measure, cell["network"], self.given, seconds=SECONDS, memory_bytes=MEMORY_BYTES
        )
        return [{**row, "seconds": time.perf_counter() - started}]

    def conditions(self) -> Row:
        return {
            **{name: getattr(self.given, name) for name in NETWORK_CONDITIONS},
            "seed": self.given.seed,
            "packages": timm_networks.VERSION,
            "weights": "random",
            "calibration": f"{counted(SAMPLES, 'random input')}, default quantisation",
            "int8_ends": True,
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        compiled = [row for row in rows if "error" not in row]
        apart = [row for row in compiled if row["regions"] != 1]
        shares = [row["cpu_and_crossings_share"] for row in compiled]
        kinds = Counter(kind for row in apart for kind in left_behind(row))
        return {
            "networks": len(rows),
            "compiled": len(compiled),
            "one_region": len(compiled) - len(apart),
            "little_cpu": sum(share <= LITTLE for share in shares),
            "median_cpu_and_crossings_share": statistics.median(shares) if shares else None,
            "left_on_cpu": dict(kinds.most_common()),
            "failures": {row["network"]: row["error"] for row in rows if "error" in row},
        }

    def line(self, row: Row) -> str:
        if "error" in row:
            return f"{row['network']}: {row['error']}"
        return (
            f"{row['network']}: {counted(row['regions'], 'region')}, "
            f"{100 * row['mac_share']:.1f} % of the MACs, {row['milliseconds']:.2f} ms, crossings "
            f"and CPU {100 * row['cpu_and_crossings_share']:.1f} %, {row['sqnr_db']:.0f} dB, "
            f"{row['seconds']:.0f} s, {row['peak_mib']:.0f} MiB; CPU: "
            f"{_listed(left_behind(row)) or 'nothing'}"
        )

    def tables(self, document: Row) -> Iterator[FigureTable]:
        rows, summary = document["rows"], document["summary"]
        compiled = [row for row in rows if "error" not in row]
        yield _of_all(summary)
        yield table_of(
            "Each",
            compiled,
            {
                "architecture": "{network}",
                "family": "{family}",
                "M parameters": lambda row: f"{row['parameters'] / 1e6:.1f}",
                "M MACs": lambda row: f"{row['macs'] / 1e6:,.0f}",
                "regions": "{regions}",
                "operators on the accelerator": "{accelerated} of {operators}",
                "MACs on the accelerator": "{mac_share:.1 %}",
                "cycles": "{cycles:,}",
                "ms, end to end": "{milliseconds:.2f}",
                "crossings": lambda row: _share_of_time(row, "crossings"),
                "CPU": lambda row: _share_of_time(row, "cpu"),
                "SQNR dB": "{sqnr_db:.0f}",
                "compile s": "{compile_seconds:.0f}",
                "peak MiB": "{peak_mib:,.0f}",
            },
        )
        yield table_of(
            "Not one region",
            (row for row in compiled if row["regions"] != 1),
            {
                "architecture": "{network}",
                "regions": "{regions}",
                "operators on the CPU": lambda row: _listed(left_behind(row)),
            },
        )
        if summary["failures"]:
            yield table_of(
                "Not compiled",
                summary["failures"].items(),
                {
                    "architecture": lambda of: of[0],
                    "why": lambda of: f"`{of[1].replace('|', '/').replace('`', '')}`",
                },
            )


def _share_of_time(row: Row, part: str) -> str:
    return f"{100 * row[f'{part}_milliseconds'] / row['milliseconds']:.1f} %"


def _listed(kinds: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in kinds.items())


def _of_all(summary: Row) -> FigureTable:
    """The summary, as shares of what was drawn."""
    share, drawn_ones = summary["median_cpu_and_crossings_share"], summary["networks"]
    figures: dict[str, Any] = {
        "are compiled": summary["compiled"],
        "are one region": summary["one_region"],
        f"spend at most {100 * LITTLE:.0f} % in crossings and on the CPU": summary["little_cpu"],
    }
    return FigureTable(
        title="All",
        header=("architectures", "figure"),
        rows=[
            *((name, f"{count} of {drawn_ones}") for name, count in figures.items()),
            ("median share of crossings and CPU", "-" if share is None else f"{100 * share:.1f} %"),
        ],
    )
