# SPDX-License-Identifier: Apache-2.0
"""Measure how much of the RTL the random and directed runs exercise.

`tilewright verify coverage` builds models that count, runs `sim.verify.coverage_campaign` on them,
merges the counts and prints line, branch and toggle coverage of every RTL file, what was not
reached, and functional coverage. It fails when a share is below `REQUIRED_PERCENT`, or when the
full campaign leaves a miss that ``sim/verify/coverage_waivers.yaml`` does not justify.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.host.common.names import counted
from tilewright.host.common.scratch import scratch_folder
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import Unit
from tilewright.sim.verify import coverage_campaign as campaign
from tilewright.sim.verify import coverage_points
from tilewright.sim.verify.functional_coverage import BINS, FunctionalCoverage
from tilewright.sim.verilator.build import build_model, read_manifest

REQUIRED_PERCENT: Final = 95.0
"""Least line and branch coverage of the RTL, before waivers."""

WAIVERS: Final = Path(__file__).resolve().parent / "coverage_waivers.yaml"
DATA_VARIABLE: Final = "TILEWRIGHT_COVERAGE_DIR"
"""Names the folder in which a counting model leaves its data when it is closed."""

_TINY: Final = load_hwconfig("tiny-4x4")
"""Also the base of the others, so that buffers stay small and models build fast."""
_COUNTED: Final = _TINY.with_(
    name="tiny-deep", axi_burst_beats=32, read_outstanding=8, write_outstanding=16, int4_weights=1
)
"""Loads and stores of as many instructions are in flight as the units can follow."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A configuration and how much runs on it."""

    hw: HwConfig  # configuration
    quick: bool = False  # part of the quick campaign


SCENARIOS: Final = (
    Scenario(hw=_COUNTED, quick=True),
    Scenario(
        hw=_TINY.with_(
            name="packed-256", batch=2, block_out=8, acc_bytes=8192, param_bytes=4096,
            axi_data_bits=256, axi_burst_beats=4, vector_lanes=8, mac_pipeline=3, mac_packed=1,
            mac_lut_columns=3, activation_table=1, row_unit=1, acc_bank_count=2,
            read_outstanding=3, write_outstanding=1,
        ),
        quick=True,
    ),
    Scenario(
        hw=_TINY.with_(
            name="narrow-32", block_in=16, block_out=8, axi_data_bits=32, axi_burst_beats=8,
            vector_lanes=1, mac_pipeline=2, read_outstanding=1, write_outstanding=16,
            activation_table=1, row_unit=1, int4_weights=2,
        ),
    ),
    Scenario(
        hw=_TINY.with_(
            name="wide-512", batch=8, block_out=8, acc_bytes=1024, axi_data_bits=512,
            param_bytes=4096, axi_burst_beats=2, vector_lanes=16, mac_pipeline=6,
            read_outstanding=16, write_outstanding=4,
        ),
    ),
)  # fmt: skip
"""Bus widths below, at and above an instruction, both MAC styles, one and several vector parts."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """What a campaign reached."""

    seed: int
    quick: bool
    programs: int
    seconds: float
    files: Sequence[coverage_points.FileCoverage]
    functional: FunctionalCoverage
    waivers: Sequence[coverage_points.Waiver]
    sources: coverage_points.Lines

    @property
    def open_misses(self) -> list[coverage_points.Miss]:
        """Those that no waiver justifies."""
        return coverage_points.unjustified(self.misses, self.waivers, self.sources)

    @property
    def misses(self) -> list[coverage_points.Miss]:
        """Lines and branches that nothing reached."""
        return [miss for file in self.files for miss in file.misses]

    @property
    def totals(self) -> dict[str, coverage_points.Share]:
        """Shares over all files: of lines, branches and toggles."""
        nothing = coverage_points.Share(hit=0, total=0)
        return {
            "line": sum((file.lines for file in self.files), nothing),
            "branch": sum((file.branches for file in self.files), nothing),
            "toggle": sum((file.toggles for file in self.files), nothing),
        }

    def problems(self) -> list[str]:
        """Why the campaign fails; empty when it passes."""
        found = []
        for name in ("line", "branch"):
            if (percent := self.totals[name].percent) < REQUIRED_PERCENT:
                found.append(f"{name} coverage is {percent:.1f} %, not {REQUIRED_PERCENT} %")
        if self.quick:
            return found
        if self.open_misses:
            found.append(
                f"neither reached nor justified: {counted(len(self.open_misses), 'miss', 'misses')}"
            )
        found += [
            f"{WAIVERS.name}: {waiver.file}: no miss needs the waiver of {waiver.line!r}"
            for waiver in coverage_points.stale(self.misses, self.waivers, self.sources)
        ]
        if missed := self.functional.misses():
            found.append(f"not hit: {counted(len(missed), 'functional bin')}")
        return found


def measure(*, seed: int, quick: bool, programs: int, note: Callable[[str], None]) -> Report:
    """Build, run, merge."""
    started = time.perf_counter()
    functional = FunctionalCoverage()
    scenarios = [s for s in SCENARIOS if s.quick or not quick]
    with scratch_folder() as folder:
        os.environ[DATA_VARIABLE] = str(folder)
        try:
            for number, scenario in enumerate(scenarios):
                note(f"[{number + 1}/{len(scenarios)}] {scenario.hw.name}: build")
                library = build_model(scenario.hw, coverage=True)
                target = campaign.Target(hw=scenario.hw, library=library)
                rng = np.random.default_rng([seed, number])
                note(f"[{number + 1}/{len(scenarios)}] {scenario.hw.name}: run")
                campaign.run_random(target, rng, functional, programs=programs)
                campaign.run_rare(target, functional)
                campaign.run_queues(target, functional)
                campaign.run_registers(target, rng)
                campaign.run_resets(target, rng, functional, runs=max(2, programs // 4))
                campaign.run_faults(target, rng, functional)
                campaign.run_outside_memory(target, functional)
            _overflows(functional, note, counting=not quick)
        finally:
            del os.environ[DATA_VARIABLE]
        note("merge")
        merged = folder / "merged"
        coverage_points.merge(sorted(folder.glob("*.dat")), merged)
        points = coverage_points.read_points(merged)
    functional.points(points)
    sources = {path.name: path.read_text(encoding="utf-8").splitlines() for path in read_manifest()}
    return Report(
        seed=seed,
        quick=quick,
        programs=programs,
        seconds=time.perf_counter() - started,
        files=coverage_points.summarise(points, sources),
        functional=functional,
        waivers=coverage_points.load_waivers(WAIVERS),
        sources=sources,
    )


def _overflows(
    functional: FunctionalCoverage, note: Callable[[str], None], *, counting: bool
) -> None:
    """Overflow a token counter of every unit: 65,535 instructions each.

    A counting model is slow: it sees one unit (none in a quick campaign), a fast model all of them.
    """
    note("token overflow of every unit")
    if counting:
        slow = campaign.Target(hw=_COUNTED, library=build_model(_COUNTED, coverage=True))
        campaign.run_overflow(slow, Unit.GEMM, functional)
    fast = campaign.Target(hw=_TINY, library=build_model(_TINY))
    for unit in Unit:
        campaign.run_overflow(fast, unit, functional)


def print_report(report: Report) -> None:
    """The tables, then everything that was missed."""
    _say(f"{'RTL file':22}{'lines':>18}{'branches':>18}{'toggles':>20}")
    for file in report.files:
        _say(f"{file.file:22}" + _columns(file.lines, file.branches, file.toggles))
    _say(f"{'total':22}" + _columns(*report.totals.values()))
    open_misses = report.open_misses
    justified = len(report.misses) - len(open_misses)
    _say(f"\nnot reached: {len(report.misses)}, of which justified: {justified}")
    for miss in report.misses:
        mark = "OPEN" if miss in open_misses else "justified"
        _say(f"  {mark:10}{miss.file}:{miss.line} {miss.what}: {miss.text}")
    _say(f"\n{'functional group':26}{'hit':>6}{'of':>6}")
    for group in BINS:
        share = report.functional.share(group)
        _say(f"{group:26}{share.hit:6}{share.total:6}")
    for group, name in report.functional.misses():
        _say(f"  not hit: {group}: {name}")


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _columns(
    lines: coverage_points.Share, branches: coverage_points.Share, toggles: coverage_points.Share
) -> str:
    text = "".join(f"{s.hit:>5}/{s.total:<5}{s.percent:5.1f} %" for s in (lines, branches))
    return text + f"{toggles.hit:>7}/{toggles.total:<6}{toggles.percent:5.1f} %"


def rows_of_files(report: Report) -> list[dict[str, Any]]:
    """A row for each file of the RTL."""
    return [
        {
            "file": file.file,
            "line_percent": round(file.lines.percent, 2),
            "branch_percent": round(file.branches.percent, 2),
            "toggle_percent": round(file.toggles.percent, 2),
        }
        for file in report.files
    ]


def summary_of(report: Report) -> dict[str, Any]:
    """Shares over all files, and what was missed."""
    functional = sum(map(report.functional.share, BINS), coverage_points.Share(hit=0, total=0))
    return {
        **{f"{name}_percent": round(share.percent, 2) for name, share in report.totals.items()},
        "functional_hit": functional.hit,
        "functional_total": functional.total,
        "misses": len(report.misses),
        "unjustified": len(report.open_misses),
    }


def conditions_of(report: Report) -> dict[str, Any]:
    """What a campaign was."""
    return {
        "seed": report.seed,
        "quick": report.quick,
        "programs_per_configuration": report.programs,
        "configurations": [s.hw.name for s in SCENARIOS if s.quick or not report.quick],
        "seconds": round(report.seconds, 1),
    }
