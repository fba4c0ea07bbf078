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
from collections.abc import Iterator, Sequence

from tilewright.bench.commands import BuildsSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
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


class BuildTimes(Study):
    """Every build in each round; a row is the median of its rounds."""

    says = "{config:22} {fidelity:12} {seconds:7.2f} s ({lowest} to {highest})"

    def __init__(self, settings: BuildsSettings) -> None:
        super().__init__(settings)
        self._before = os.getloadavg()[0]

    def measure(self, cell: Cell) -> Iterator[Row]:
        del cell
        times = [one_round(self.settings.jobs) for _ in range(self.settings.rounds)]
        for config, fidelity in times[0]:
            seconds = sorted(each[config, fidelity] for each in times)
            yield {
                "config": config,
                "fidelity": fidelity,
                "seconds": round(statistics.median(seconds), 2),
                "lowest": round(seconds[0], 2),
                "highest": round(seconds[-1], 2),
            }

    def conditions(self) -> Row:
        return {
            "rtl": rtl_digest(),
            "jobs": self.settings.jobs,
            "rounds": self.settings.rounds,
            "load_before_after": [self._before, os.getloadavg()[0]],
            "verilator": find_verilator().version,
            "compiler": find_compiler().version,
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        return {
            f"build_seconds_{row['config']}": row["seconds"]
            for row in rows
            if row["config"] in CONFIGS and row["fidelity"] == "rtl"
        }
