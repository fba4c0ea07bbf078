# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest
from support.randomness import rarely

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.area import estimate
from tilewright.host.machine.system_config import load_system
from tilewright.sim.synth import system_record
from tilewright.sim.synth.design import system_design
from tilewright.sim.synth.record import load_results
from tilewright.sim.synth.synthesis import SynthesisReport, synthesise
from tilewright.sim.synth.system_record import (
    load_system_rows,
    record_systems,
    systems_table,
)


@pytest.fixture
def synthesised(monkeypatch):
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


def test_systems_are_recorded_for_the_family_of_their_smallest_board(tmp_path, synthesised):
    path = tmp_path / "new" / "systems.yaml"
    record_systems(["dual-8x8", "quad-8x8"], path)
    record_systems(["dual-8x8"], path)
    assert synthesised == [("dual-8x8", "xc7"), ("quad-8x8", "xcup"), ("dual-8x8", "xc7")]
    dual, quad = load_system_rows(path)
    assert (dual.lut, quad.lut, dual.area.bram36) == (3, 2, 7)
    assert dual.config_hash == load_system("dual-8x8").config_hash
    assert dual.rtl == system_design(load_system("dual-8x8")).rtl != quad.rtl
    record_systems([], path)
    assert len(synthesised) == 5


def test_the_table_tells_counts_from_estimates_and_adds_up_the_cores(tmp_path, synthesised):
    (row,) = record_systems(["dual-8x8"], tmp_path / "systems.yaml")
    known = load_results()
    (edge,) = [each for each in known.rows if each.hw.name == "edge-8x8"]
    text = systems_table([replace(row, lut=estimate(load_system("dual-8x8")).lut)], known)
    (dual,) = [line for line in text.splitlines() if line.startswith("| `dual-8x8`")]
    assert f"| Yosys | {2 * edge.lut:,} | +0.0% |" in dual
    stale = systems_table([replace(row, config_hash=1)], known)
    assert stale.count("| estimate |") == text.count("| estimate |") + 1


def test_a_system_that_no_board_holds_is_not_synthesised(tmp_path, synthesised):
    path = tmp_path / "huge.yaml"
    path.write_text("cores: [zu-32x32, zu-32x32, zu-32x32, zu-32x32]\n")
    with pytest.raises(ConfigError, match="no board"):
        record_systems([str(path)], tmp_path / "systems.yaml")
    assert not synthesised


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
