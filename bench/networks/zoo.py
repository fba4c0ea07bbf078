# SPDX-License-Identifier: Apache-2.0
"""The zoo: where networks of other architectures run, and what one inference takes from end to end.

Each network (`bench.zoo_members`) is quantised with one random input and compiled. Told for each:
regions, the share of the multiplications that the accelerator computes, and the milliseconds of
accelerator, crossings and CPU apart (`bench.zoo_network`). The summary compares them with what they
took before the causes that kept them from the accelerator were mended.

    tilewright bench networks --zoo --quick
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import Any, Final

from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.settings import require_names
from tilewright.bench.framework.study import BenchResult, Study
from tilewright.bench.networks.settings import CONDITIONS, NetworksSettings
from tilewright.bench.networks.zoo_network import HOST_RUNS, MEMBERS, Record, measure
from tilewright.host.common.errors import TilewrightError, WorkloadError
from tilewright.host.common.names import counted
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.compiler.pack.latency import Latency
from tilewright.host.machine.hwconfig import load_hwconfig

QUICK: Final = ("keyword-spotter", "bert-tiny", "gpt-block", "mobilenet-v3-small")

BEFORE_FILE: Final = Path(__file__).with_name("zoo_before.yaml")
"""Milliseconds that `zoo.geomean_speedup` compares with."""


def summary(records: Sequence[Row], before: Mapping[str, float]) -> Record:
    """The figures of `zoo`, and how the CPU's model compares with this machine."""
    zoo = [r for r in records if r["kind"] == "zoo"]
    controls = [r for r in records if r["kind"] == "control"]
    gained, kept = _ratios(zoo, before), _ratios(controls, before)
    factors = sorted(
        r["host_milliseconds"] / r["host_milliseconds_here"]
        for r in records
        if r["host_milliseconds"] >= MEASURABLE_MILLISECONDS
    )
    return {
        "zoo": {
            "most_regions": max((r["regions"] for r in zoo), default=None),
            "worst_mac_share": min((r["mac_share"] for r in zoo), default=None),
            "worst_cpu_and_crossings_share": max(
                (r["cpu_and_crossings_share"] for r in zoo), default=None
            ),
            "geomean_speedup": _geometric_mean(gained),
            "geomean_speedup_with_controls": _geometric_mean([*gained, *kept]),
            "controls_worst_ratio": min(kept, default=None),
            "networks": len(zoo),
            "networks_with_before": len(gained),
            "controls": len(controls),
            "before_hw": _recorded()["conditions"]["hw"] if gained or kept else None,
        },
        "host_factor": {
            "median": factors[len(factors) // 2] if factors else None,
            "least": factors[0] if factors else None,
            "most": factors[-1] if factors else None,
        },
    }


MEASURABLE_MILLISECONDS: Final = 1.0
"""Less work on the CPU is not compared with this machine: calls of TVM outweigh it."""


def _ratios(records: Sequence[Row], before: Mapping[str, float]) -> list[float]:
    """How many times longer each took before, of those on record."""
    return [before[r["network"]] / r["milliseconds"] for r in records if r["network"] in before]


def _geometric_mean(ratios: Sequence[float]) -> float | None:
    return exp(sum(map(log, ratios)) / len(ratios)) if ratios else None


def before_milliseconds(hw: str, board: str) -> dict[str, float]:
    """End-to-end milliseconds on record for a configuration and a board; empty: there are none.

    They hold for configurations of the same parameters that have options more: what an option is
    worth belongs to the comparison.
    """
    recorded = _recorded()
    conditions = recorded["conditions"]
    plain = load_hwconfig(hw).without_options().config_hash
    same = plain == load_hwconfig(conditions["hw"]).config_hash
    if not same or conditions["board"] != board:
        return {}
    return {
        name: Latency(**{part: value / 1e3 for part, value in parts.items()}).total * 1e3
        for name, parts in recorded["milliseconds"].items()
    }


def _recorded() -> Mapping[str, Any]:
    return read_yaml_mapping(BEFORE_FILE, "figures of the zoo")


class Zoo(Study):
    """Networks of other architectures, one after another."""

    tells = False

    resumes = True

    def __init__(self, settings: NetworksSettings) -> None:
        super().__init__(settings)
        self.given: Final = settings.chosen()
        self.failures: Final[dict[str, str]] = {}
        """What kept a network from being compiled."""
        self.left_out: Final[dict[str, str]] = {}
        """Networks whose packages are not installed."""
        require_names("--networks", settings.networks, MEMBERS)

    def cells(self) -> list[Cell]:
        chosen = self.settings.networks or (QUICK if self.settings.quick else MEMBERS)
        return [{"network": name} for name in chosen]

    def measure(self, cell: Cell) -> Iterator[Row]:
        started, name = time.perf_counter(), cell["network"]
        try:
            model = MEMBERS[name].load()
        except TilewrightError as error:
            self.left_out[name] = str(error)
            print(f"{name}, left out: {error}", flush=True)
            return
        try:
            row = measure(name, MEMBERS[name], model, self.given)
        except WorkloadError as error:
            self.failures[name] = str(error)
            print(f"{name}: {error}", flush=True)
            return
        yield {**row, "seconds": time.perf_counter() - started}

    def conditions(self) -> Row:
        return {
            **{name: getattr(self.given, name) for name in CONDITIONS},
            "weights": "random, seed 0, or trained",
            "calibration": "one random input, minmax",
            "host_runs": HOST_RUNS,
            "int8_ends": self.given.int8_ends,
        }

    def result(self, rows: Sequence[Row]) -> BenchResult:
        before = before_milliseconds(self.given.hw, self.given.board)
        told = {"failures": self.failures, "left_out": self.left_out}
        return BenchResult(
            rows=rows,
            conditions=self.conditions(),
            summary=summary(rows, before) | told,
            passed=not self.failures,
        )

    def line(self, row: Row) -> str:
        """Regions, share of the products, and milliseconds of each part."""
        return (
            f"{row['network']}: {counted(row['regions'], 'region')}, {row['accelerated']} of "
            f"{row['operators']} operators, {100 * row['mac_share']:.1f} % of the MACs; "
            f"{row['milliseconds']:.2f} ms = accelerator {row['accelerator_milliseconds']:.2f} + "
            f"crossings {row['crossings_milliseconds']:.2f} + CPU {row['cpu_milliseconds']:.2f} "
            f"(bottleneck: {row['bottleneck']}); largest gap to ONNX Runtime "
            f"{100 * row['largest_gap_to_ort']:.2f} % of the range"
        )
