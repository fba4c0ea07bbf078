# SPDX-License-Identifier: Apache-2.0
"""The verdict of a coverage campaign, its command line, and its configurations."""

import re
from pathlib import Path

import pytest

from tilewright.sim.verify.coverage import SCENARIOS, Report, summary_of
from tilewright.sim.verify.coverage_points import FileCoverage, Miss, Share, Waiver
from tilewright.sim.verify.functional_coverage import BINS, FunctionalCoverage

MISS = Miss(file="a.sv", line=1, what="line", text="x = 1;")
WAIVER = Waiver(file="a.sv", line="x = 1;", reason="never")
SOURCES = {"a.sv": ["x = 1;", "y = 1;"]}


ROOT = Path(__file__).resolve().parents[4]
COUNTED = {
    name: (ROOT / "rtl" / place).read_text(encoding="utf-8")
    for place in (ROOT / "rtl" / "tilewright.f").read_text(encoding="utf-8").splitlines()
    if (name := Path(place).name) not in ("tw_pkg.sv", "tw_legal.sv", "tw_sizes.sv")
    and name.endswith(".sv")
}
"""Files of the RTL that have something to count: no package, no constants."""


def test_the_page_lists_the_files_that_the_rtl_has():
    table = (ROOT / "docs" / "results" / "coverage" / "files.csv").read_text(encoding="utf-8")
    assert set(re.findall(r"^(\w+\.sv),", table, re.MULTILINE)) == set(COUNTED)


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


def test_the_record_counts_every_bin():
    summary = summary_of(report())
    assert summary["functional_hit"] == summary["functional_total"] == sum(map(len, BINS.values()))


def test_scenarios_span_the_shapes_that_change_the_rtl():
    configs = [scenario.hw for scenario in SCENARIOS]
    widths = {hw.axi_data_bits for hw in configs}
    assert min(widths) == 32
    assert {256, 512} <= widths
    assert {hw.mac_packed for hw in configs} == {0, 1}
    assert any(hw.vector_lanes < hw.batch * hw.block_out for hw in configs)
    assert any(hw.vector_lanes == hw.batch * hw.block_out for hw in configs)
    assert any(hw.acc_depth == hw.acc_banks for hw in configs)
