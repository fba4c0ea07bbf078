# SPDX-License-Identifier: Apache-2.0
"""Records of syntheses, of cores and of systems, and their tables."""

from dataclasses import replace

import pytest
from support.randomness import rarely

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.area import estimate
from tilewright.host.machine.system_config import load_system
from tilewright.sim.synth import results as synthesis_results
from tilewright.sim.synth import system_record
from tilewright.sim.synth.design import rtl_digest, system_design
from tilewright.sim.synth.record import Ecp5Counts, load_results
from tilewright.sim.synth.results import draw, record
from tilewright.sim.synth.synthesis import SynthesisReport, synthesise
from tilewright.sim.synth.system_record import load_system_rows, record_systems, systems_table
from tilewright.sim.synth.tables import (
    CONFIGURATIONS_FILE,
    DOCS_FILE,
    HELDOUT_BEGIN,
    HELDOUT_END,
    TABLE_BEGIN,
    TABLE_END,
    renewed,
    renewed_overview,
)

COUNTS = {"lut": 10, "lutram": 2, "ff": 3, "ramb36": 4, "ramb18": 5, "dsp": 6}


@pytest.fixture
def synthesised(monkeypatch):
    """Replace synthesis; the LUT count is the number of the call."""
    calls = []

    def synthesise(design, family):
        calls.append((design, family))
        return SynthesisReport(
            config=design.name, family=family, tool="pyosys 1", seconds=2.5, memories=(),
            **{**COUNTS, "lut": len(calls)},
        )  # fmt: skip

    monkeypatch.setattr(synthesis_results, "synthesise", synthesise)
    return calls


def test_ecp5_counts_stay_beside_the_row_and_stale_ones_alone_are_made_again(
    tmp_path, synthesised, monkeypatch
):
    path = tmp_path / "results.yaml"
    record(["tiny-4x4"], path)
    record(["tiny-4x4"], path, family="ecp5")
    (tiny,) = load_results(path).rows
    assert tiny.ecp5 == Ecp5Counts(
        rtl=rtl_digest(), lut=2, lutram=2, ff=3, dp16kd=5, mult18=6, seconds=2.5
    )
    assert tiny.lut == 1
    record([], path, stale_only=True)
    record([], path, family="ecp5", stale_only=True)
    assert len(synthesised) == 2
    monkeypatch.setattr(synthesis_results, "rtl_digest", lambda: "edited")
    record([], path, stale_only=True)
    (tiny,) = load_results(path).rows
    assert (tiny.rtl, tiny.lut, tiny.ecp5.lut) == ("edited", 3, 2)
    record([], path, family="ecp5", stale_only=True)
    assert [family for _, family in synthesised] == ["xc7", "ecp5", "xc7", "ecp5"]


def test_ecp5_counts_need_a_row_and_no_other_family_is_recorded(tmp_path, synthesised):
    path = tmp_path / "results.yaml"
    with pytest.raises(ConfigError, match="must have a row"):
        record(["tiny-4x4"], path, family="ecp5")
    with pytest.raises(ConfigError, match="must be xc7 or ecp5"):
        record(["tiny-4x4"], path, family="xcup")


def test_drawn_configurations_repeat_and_are_legal_small_and_different():
    first = draw(7)
    assert draw(7) == first
    assert draw(8) != first
    assert len({hw.config_hash for hw in draw(7, 20)}) > 15
    assert all(hw.macs_per_cycle <= 128 for hw in draw(9, 20))
    assert [hw.name for hw in first] == [f"heldout-7-{n}" for n in (1, 2, 3, 4)]


def test_drawn_rows_are_recorded_and_never_fitted(tmp_path, synthesised):
    path = tmp_path / "results.yaml"
    record(["tiny-4x4", *draw(7)], path)
    rows = load_results(path).rows
    assert [row.hw for row in rows[1:]] == list(draw(7))
    assert [row.fitted for row in rows] == [True] + [False] * 4


def test_fits_compares_every_resource_of_the_largest_ecp5():
    counts = Ecp5Counts(
        rtl="0", lut=83_640, lutram=0, ff=83_640, dp16kd=208, mult18=156, seconds=1.0
    )
    assert counts.fits
    for name in ("lut", "ff", "dp16kd", "mult18"):
        assert not replace(counts, **{name: getattr(counts, name) + 1}).fits


def test_a_malformed_file_is_refused(tmp_path):
    path = tmp_path / "results.yaml"
    path.write_text("tool: x\nresults: {}\n")
    with pytest.raises(ConfigError, match="must hold tool, family and results"):
        load_results(path)


@pytest.fixture
def synthesised_system(monkeypatch):
    """Replace synthesis; the LUT count is the number of the call."""
    calls = []

    def synthesise(design, family):
        calls.append((design.name, family))
        return SynthesisReport(
            config=design.name, family=family, tool="pyosys 1", seconds=2.5, memories=(),
            lut=len(calls), lutram=2, ff=3, ramb36=4, ramb18=5, dsp=6,
        )  # fmt: skip

    monkeypatch.setattr(system_record, "synthesise", synthesise)
    return calls


def test_systems_are_recorded_for_the_family_of_their_smallest_board(tmp_path, synthesised_system):
    path = tmp_path / "new" / "systems.yaml"
    record_systems(["dual-8x8", "quad-8x8"], path)
    record_systems(["dual-8x8"], path)
    assert synthesised_system == [("dual-8x8", "xc7"), ("quad-8x8", "xcup"), ("dual-8x8", "xc7")]
    dual, quad = load_system_rows(path)
    assert (dual.lut, quad.lut, dual.area.bram36) == (3, 2, 7)
    assert dual.config_hash == load_system("dual-8x8").config_hash
    assert dual.rtl == system_design(load_system("dual-8x8")).rtl != quad.rtl
    record_systems([], path)
    assert len(synthesised_system) == 5


def test_the_table_tells_counts_from_estimates_and_adds_up_the_cores(tmp_path, synthesised_system):
    (row,) = record_systems(["dual-8x8"], tmp_path / "systems.yaml")
    known = load_results()
    (edge,) = [each for each in known.rows if each.hw.name == "edge-8x8"]
    text = systems_table([replace(row, lut=estimate(load_system("dual-8x8")).lut)], known)
    (dual,) = [line for line in text.splitlines() if line.startswith("| `dual-8x8`")]
    assert f"| Yosys | {2 * edge.lut:,} | +0.0% |" in dual
    stale = systems_table([replace(row, config_hash=1)], known)
    assert stale.count("| estimate |") == text.count("| estimate |") + 1


def test_a_system_that_no_board_holds_is_not_synthesised(tmp_path, synthesised_system):
    path = tmp_path / "huge.yaml"
    path.write_text("cores: [zu-32x32, zu-32x32, zu-32x32, zu-32x32]\n")
    with pytest.raises(ConfigError, match="no board"):
        record_systems([str(path)], tmp_path / "systems.yaml")
    assert not synthesised_system


def test_a_broken_record_is_refused(tmp_path):
    path = tmp_path / "systems.yaml"
    path.write_text("systems: {dual-8x8: {lut: 3}}\n")
    with pytest.raises(ConfigError, match="synth-record systems"):
        load_system_rows(path)


@rarely("dual-tiny")
@pytest.mark.slow
def test_the_recorded_row_of_dual_tiny_is_still_true():
    pytest.importorskip("pyosys")
    (row,) = [each for each in load_system_rows() if each.name == "dual-tiny"]
    system = load_system("dual-tiny")
    assert row.config_hash == system.config_hash, "the system has changed: record it again"
    found = synthesise(system_design(system))
    assert (found.ramb36, found.ramb18, found.dsp) == (row.ramb36, row.ramb18, row.dsp)
    assert found.lut == pytest.approx(row.lut, rel=0.03)
    assert found.ff == pytest.approx(row.ff, rel=0.03)


def test_the_tables_of_the_pages_are_those_of_the_results():
    results = load_results()
    for page, renew in ((DOCS_FILE, renewed), (CONFIGURATIONS_FILE, renewed_overview)):
        text = page.read_text(encoding="utf-8")
        assert renew(text, results) == text, "run: tilewright synth-record write"


def test_a_page_without_a_place_for_the_table_is_refused():
    with pytest.raises(ConfigError, match="must hold"):
        renewed("no place", load_results())
    page = f"a\n{TABLE_BEGIN}\nold\n{TABLE_END}\nb\n"
    with pytest.raises(ConfigError, match="heldout: begin"):
        renewed(page, load_results())
    page += f"{HELDOUT_BEGIN}\nold\n{HELDOUT_END}\nc"
    assert "old" not in renewed(page, load_results())
    assert renewed(page, load_results()).endswith("\nc")
    with pytest.raises(ConfigError, match="configurations: begin"):
        renewed_overview(page, load_results())
