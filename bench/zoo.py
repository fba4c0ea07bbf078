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
from collections.abc import Callable, Mapping, Sequence
from math import exp, log
from pathlib import Path
from typing import Any, Final

from tilewright.bench.result import BenchResult
from tilewright.bench.zoo_members import MEMBERS
from tilewright.bench.zoo_network import HOST_RUNS, Record, measure
from tilewright.host.common.errors import TilewrightError, WorkloadError
from tilewright.host.common.names import counted
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.compiler.pack.latency import Latency
from tilewright.host.machine.hwconfig import load_hwconfig

QUICK: Final = ("keyword-spotter", "bert-tiny", "gpt-block", "mobilenet-v3-small")

BEFORE_FILE: Final = Path(__file__).with_name("zoo_before.yaml")
"""Milliseconds that `zoo.geomean_speedup` compares with."""


def run(
    names: Sequence[str],
    *,
    hw: str,
    board: str,
    fidelity: str,
    search: int,
    int8_ends: bool = False,
    known: Mapping[str, Any] | None = None,
    keep: Callable[[BenchResult], None] | None = None,
) -> BenchResult:
    """Measure networks one after another.

    Args:
        names: of `MEMBERS`.
        hw: configuration.
        board: clock, memory and the rates of the CPU.
        fidelity: see `measure`.
        search: see there.
        int8_ends: see there.
        known: document of a stopped run with the same conditions; its rows are taken over.
        keep: told the result so far after each network.

    Returns:
        The rows, and in the summary what kept a network from being compiled, and which were left
        out because their packages are not installed.

    Raises:
        DeviceError: a result is not bit-exact, or the twin counts other cycles.
    """
    conditions = {
        "hw": hw,
        "board": board,
        "fidelity": fidelity,
        "search": search,
        "weights": "random, seed 0, or trained",
        "calibration": "one random input, minmax",
        "host_runs": HOST_RUNS,
        "int8_ends": int8_ends,
    }
    same = known is not None and known.get("conditions", {}) == conditions
    done = {row["network"]: row for row in known["rows"]} if known is not None and same else {}
    before = before_milliseconds(hw, board)
    records: list[Record] = []
    failures: dict[str, str] = {}
    left_out: dict[str, str] = {}

    def result() -> BenchResult:
        return BenchResult(
            rows=records,
            conditions=conditions,
            summary=summary(records, before) | {"failures": failures, "left_out": left_out},
            passed=not failures,
        )

    for name in names:
        started = time.perf_counter()
        record = done.get(name)
        if record is None:
            member = MEMBERS[name]
            try:
                model = member.load()
            except TilewrightError as error:
                left_out[name] = str(error)
                print(f"{name}, left out: {error}", flush=True)
                continue
            try:
                record = measure(
                    name,
                    member,
                    model,
                    hw_name=hw,
                    board_name=board,
                    fidelity=fidelity,
                    search=search,
                    int8_ends=int8_ends,
                )
            except WorkloadError as error:
                failures[name] = str(error)
                print(f"{name}: {error}", flush=True)
                continue
        record.setdefault("seconds", time.perf_counter() - started)
        records.append(record)
        print(_line(record), flush=True)
        if keep is not None and name not in done:
            keep(result())
    return result()


def summary(records: Sequence[Record], before: Mapping[str, float]) -> Record:
    """The figures of `zoo`, and how the CPU's model compares with this machine.

    Args:
        records: rows.
        before: end-to-end milliseconds by network; the speed-up is over those that have any.
    """
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


def _ratios(records: Sequence[Record], before: Mapping[str, float]) -> list[float]:
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


def _line(r: Mapping[str, Any]) -> str:
    return (
        f"{r['network']}: {counted(r['regions'], 'region')}, {r['accelerated']} of "
        f"{r['operators']} operators, {100 * r['mac_share']:.1f} % of the MACs; "
        f"{r['milliseconds']:.2f} ms = accelerator {r['accelerator_milliseconds']:.2f} + crossings "
        f"{r['crossings_milliseconds']:.2f} + CPU {r['cpu_milliseconds']:.2f} "
        f"(bottleneck: {r['bottleneck']}); largest gap to ONNX Runtime "
        f"{100 * r['largest_gap_to_ort']:.2f} % of the range"
    )
