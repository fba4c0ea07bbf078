# SPDX-License-Identifier: Apache-2.0
"""How long a new configuration takes to build, in a build cache that starts empty.

The first row also compiles what all models share (Verilator's run time, the harness); the others
show what each further configuration costs. `general` rows are the libraries that serve every
configuration with one bus width.

    tilewright bench builds
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from typing import Any

from tilewright.bench.result import BenchResult
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.sim.synth.design import rtl_digest
from tilewright.sim.tools.toolchain import find_compiler, find_verilator
from tilewright.sim.verilator.build import build_model

CONFIGS = ("tiny-4x4", "edge-8x8", "pynq-16x16", "zu-32x32")
"""The first one also pays for what is shared."""


def timed(hw: HwConfig, fidelity: Fidelity, jobs: int) -> float:
    """Wall seconds of a build."""
    begin = time.perf_counter()
    build_model(hw, fidelity=fidelity, checks=False, jobs=jobs)
    return time.perf_counter() - begin


def one_round(jobs: int) -> dict[tuple[str, str], float]:
    """(configuration, fidelity) -> seconds, in an empty cache."""
    seconds: dict[tuple[str, str], float] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TILEWRIGHT_CACHE"] = folder
        for name in CONFIGS:
            seconds[name, "rtl"] = timed(load_hwconfig(name), Fidelity.RTL, jobs)
        for fidelity in (Fidelity.DPI, Fidelity.TIMING):
            hw = load_hwconfig("pynq-16x16")
            seconds[f"general, {hw.axi_data_bits} bits", fidelity.value] = timed(hw, fidelity, jobs)
        hw = load_hwconfig("pynq-16x16")
        seconds[hw.name, "rtl, cached"] = timed(hw, Fidelity.RTL, jobs)
    return seconds


def run(*, rounds: int, jobs: int) -> BenchResult:
    """Time the builds.

    Args:
        rounds: builds of each model.
        jobs: compilers at a time.
    """
    before = os.getloadavg()[0]
    times = [one_round(jobs) for _ in range(rounds)]
    records: list[dict[str, Any]] = []
    for key in times[0]:
        seconds = sorted(each[key] for each in times)
        record = {
            "config": key[0],
            "fidelity": key[1],
            "seconds": round(statistics.median(seconds), 2),
            "lowest": round(seconds[0], 2),
            "highest": round(seconds[-1], 2),
        }
        records.append(record)
        print(
            f"{record['config']:22} {record['fidelity']:12} {record['seconds']:7.2f} s "
            f"({record['lowest']} to {record['highest']})"
        )
    return BenchResult(
        rows=records,
        summary={
            f"build_seconds_{name}": record["seconds"]
            for record in records
            for name in CONFIGS
            if (record["config"], record["fidelity"]) == (name, "rtl")
        },
        conditions={
            "rtl": rtl_digest(),
            "jobs": jobs,
            "rounds": rounds,
            "load_before_after": [before, os.getloadavg()[0]],
            "verilator": find_verilator().version,
            "compiler": find_compiler().version,
        },
    )
