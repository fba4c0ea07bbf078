# SPDX-License-Identifier: Apache-2.0
"""The verdict of a coverage campaign, its command line, and its configurations."""

from __future__ import annotations

import json

import pytest

from tilewright.host.common.errors import ToolError
from tilewright.sim.verify import coverage
from tilewright.sim.verify.coverage import SCENARIOS, Report, main, to_record
from tilewright.sim.verify.coverage_points import FileCoverage, Miss, Share, Waiver
from tilewright.sim.verify.functional_coverage import BINS, FunctionalCoverage
from tilewright.sim.verilator import build

MISS = Miss(file="a.sv", line=1, what="line", text="x = 1;")
WAIVER = Waiver(file="a.sv", line="x = 1;", reason="never")
SOURCES = {"a.sv": ["x = 1;", "y = 1;"]}


def complete():
    functional = FunctionalCoverage()
    for group, names in BINS.items():
        for name in names:
            functional.hit(group, name)
    return functional


def report(*, lines=100, branches=100, misses=(), waivers=(), quick=False, functional=None):
    file = FileCoverage(
        file="a.sv",
        lines=Share(hit=lines, total=100),
        branches=Share(hit=branches, total=100),
        toggles=Share(hit=1, total=2),
        misses=tuple(misses),
    )
    return Report(
        seed=7,
        quick=quick,
        programs=1,
        seconds=1.0,
        files=[file],
        functional=functional or complete(),
        waivers=list(waivers),
        sources=SOURCES,
    )


def test_passes_when_everything_is_reached_or_justified():
    assert report().problems() == []
    assert report(lines=95, branches=95).problems() == []
    assert report(lines=99, misses=[MISS], waivers=[WAIVER]).problems() == []


@pytest.mark.parametrize("name", ["lines", "branches"])
@pytest.mark.parametrize("quick", [True, False])
def test_fails_below_the_required_share(name, quick):
    (problem,) = report(**{name: 94}, quick=quick).problems()
    assert "94.0 %" in problem


@pytest.mark.parametrize(
    ("case", "text"),
    [
        ({"misses": [MISS]}, "neither reached nor justified"),
        ({"waivers": [WAIVER]}, "no miss needs the waiver"),
        ({"functional": FunctionalCoverage()}, "functional bins"),
    ],
)
def test_only_the_full_campaign_must_be_complete(case, text):
    (problem,) = report(**case).problems()
    assert text in problem
    assert report(**case, quick=True).problems() == []


def test_the_command_reports_the_verdict_the_seed_and_the_record(monkeypatch, tmp_path, capsys):
    outcome = report(misses=[MISS])
    monkeypatch.setattr(coverage, "measure", lambda **_: outcome)
    path = tmp_path / "coverage.json"
    assert main(["--seed", "7", "--json", str(path)]) == 1
    shown = capsys.readouterr()
    assert "seed 7" in shown.out
    assert "OPEN      a.sv:1 line: x = 1;" in shown.out
    assert "neither reached nor justified (seed 7)" in shown.err
    record = json.loads(path.read_text())
    assert set(record) == {"records", "summary", "conditions"}
    assert record["summary"]["unjustified"] == 1
    assert record["summary"]["toggle_percent"] == 50.0
    outcome = report()
    assert main(["--seed", "7"]) == 0


def test_a_campaign_that_cannot_be_measured_ends_with_one_message(monkeypatch, capsys):
    def fail(**_):
        raise ToolError("is not installed", field="verilator")

    monkeypatch.setattr(coverage, "measure", fail)
    assert main(["--seed", "3"]) == 2
    assert capsys.readouterr().err == "error: verilator: is not installed (seed 3)\n"


def test_the_seed_is_fresh_unless_given(monkeypatch):
    seeds = []

    def note(*, seed, **_):
        seeds.append(seed)
        return report()

    monkeypatch.setattr(coverage, "measure", note)
    main([])
    main([])
    assert seeds[0] != seeds[1]


def test_the_record_counts_every_bin():
    summary = to_record(report())["summary"]
    assert summary["functional_hit"] == summary["functional_total"] == sum(map(len, BINS.values()))


def test_scenarios_span_the_shapes_that_change_the_rtl():
    configs = [scenario.hw for scenario in SCENARIOS]
    widths = {hw.axi_data_bits for hw in configs}
    assert min(widths) == 32
    assert {256, 512} <= widths
    assert {s.hw.mac_packed for s in SCENARIOS if s.exact_mac} == {0, 1}
    assert any(hw.vector_lanes < hw.batch * hw.block_out for hw in configs)
    assert any(hw.vector_lanes == hw.batch * hw.block_out for hw in configs)
    assert any(hw.acc_depth == hw.acc_banks for hw in configs)


def test_a_counting_model_is_a_model_of_its_own(tmp_path):
    hw = SCENARIOS[0].hw
    keys = {
        build._recipe(
            hw, waves=False, exact_mac=False, coverage=counting, manifest=build.MANIFEST
        ).key
        for counting in (False, True)
    }
    assert len(keys) == 2
