# SPDX-License-Identifier: Apache-2.0
"""How long a new configuration takes to build, in a build cache that starts empty.

The first row also compiles what all models share (Verilator's run time, the harness); the others
show what each further configuration costs. `general` rows are the libraries that serve every
configuration with one bus width.

    python bench/builds.py --json build/bench/builds.json
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.sim.synth.synthesis import rtl_digest
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


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1 round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="compilers at a time")
    parser.add_argument("--json", type=Path, help="write records, summary and conditions here")
    options = parser.parse_args()
    before = os.getloadavg()[0]
    rounds = [one_round(options.jobs) for _ in range(1 if options.quick else options.rounds)]
    records: list[dict[str, Any]] = []
    for key in rounds[0]:
        seconds = sorted(each[key] for each in rounds)
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
    summary = {
        f"build_seconds_{name}": record["seconds"]
        for record in records
        for name in CONFIGS
        if (record["config"], record["fidelity"]) == (name, "rtl")
    }
    if options.json:
        conditions = {
            "rtl": rtl_digest(),
            "jobs": options.jobs,
            "rounds": len(rounds),
            "load_before_after": [before, os.getloadavg()[0]],
            "verilator": find_verilator().version,
            "compiler": find_compiler().version,
        }
        result = {"records": records, "summary": summary, "conditions": conditions}
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
