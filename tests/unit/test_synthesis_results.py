# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.area import LogicModel, estimate
from tilewright.host.errors import ConfigError
from tilewright.host.hwconfig import HwConfig
from tilewright.sim import synthesis_results
from tilewright.sim.synthesis import SynthesisReport, rtl_digest
from tilewright.sim.synthesis_results import (
    DOCS_FILE,
    HELDOUT_BEGIN,
    HELDOUT_END,
    TABLE_BEGIN,
    TABLE_END,
    Ecp5Counts,
    Row,
    draw,
    fit,
    held_out,
    held_out_table,
    load_results,
    main,
    record,
    renewed,
    table,
)

SPREAD = [
    HwConfig(vector_lanes=lanes, block_out=out, batch=batch, axi_data_bits=bus, mac_packed=packed)
    for lanes, out, batch, bus, packed in [
        (4, 4, 1, 64, 0), (8, 8, 1, 64, 1), (16, 16, 1, 32, 0), (16, 32, 1, 64, 1),
        (16, 16, 2, 128, 1), (4, 16, 4, 256, 0), (32, 64, 1, 512, 1),
    ]
]  # fmt: skip


def row(hw, lut, ff):
    return Row(hw=hw, rtl="0", lut=lut, lutram=0, ff=ff, ramb36=1, ramb18=1, dsp=1, seconds=1.0)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 2000), min_size=9, max_size=9))
def test_the_fit_finds_the_coefficients_that_made_the_counts(values):
    names = list(LogicModel.__dataclass_fields__)
    truth = LogicModel(**{n: float(v) for n, v in zip(names, values, strict=True)})
    areas = [estimate(hw, truth) for hw in SPREAD]
    found = fit([row(hw, area.lut, area.ff) for hw, area in zip(SPREAD, areas, strict=True)])
    for name in names:
        assert getattr(found, name) == pytest.approx(getattr(truth, name), abs=0.11), name


COUNTS = {"lut": 10, "lutram": 2, "ff": 3, "ramb36": 4, "ramb18": 5, "dsp": 6}


@pytest.fixture
def synthesised(monkeypatch):
    """Replace synthesis; the LUT count is the number of the call."""
    calls = []

    def synthesise(hw, family):
        calls.append((hw, family))
        return SynthesisReport(
            config=hw.name, family=family, tool="pyosys 1", seconds=2.5, memories=(),
            **{**COUNTS, "lut": len(calls)},
        )  # fmt: skip

    monkeypatch.setattr(synthesis_results, "synthesise", synthesise)
    return calls


def test_what_is_recorded_is_read_back(tmp_path, synthesised):
    own = HwConfig(name="mine", vector_lanes=8)
    (tmp_path / "mine.yaml").write_text(own.to_yaml())
    path = tmp_path / "new" / "results.yaml"
    record([str(tmp_path / "mine.yaml"), "tiny-4x4"], path)
    results = load_results(path)
    assert (results.tool, results.family) == ("pyosys 1", "xc7")
    mine, tiny = results.rows
    assert mine == Row(hw=own, rtl=rtl_digest(), seconds=2.5, **{**COUNTS, "lut": 1})
    assert mine.area.bram36 == 7
    assert (mine.named, tiny.named) == (False, True)


def test_recording_one_configuration_keeps_the_others(tmp_path, synthesised):
    path = tmp_path / "results.yaml"
    record(["tiny-4x4", "edge-8x8"], path)
    record(["tiny-4x4", "zu-32x32"], path)
    luts = {r.hw.name: r.lut for r in load_results(path).rows}
    assert luts == {"tiny-4x4": 3, "edge-8x8": 2, "zu-32x32": 4}
    record([], path)
    assert len(synthesised) == 7


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


def test_fits_compares_every_resource_of_the_largest_ecp5():
    counts = Ecp5Counts(
        rtl="0", lut=83_640, lutram=0, ff=83_640, dp16kd=208, mult18=156, seconds=1.0
    )
    assert counts.fits
    for name in ("lut", "ff", "dp16kd", "mult18"):
        assert not replace(counts, **{name: getattr(counts, name) + 1}).fits


def test_drawn_configurations_repeat_and_are_legal_small_and_different():
    first = draw(7)
    assert draw(7) == first
    assert draw(8) != first
    assert len({hw.config_hash for hw in draw(7, 20)}) > 15
    assert all(hw.macs_per_cycle <= 128 for hw in draw(9, 20))
    assert [hw.name for hw in first] == [f"heldout-7-{n}" for n in (1, 2, 3, 4)]


def test_drawn_rows_are_recorded_and_never_fitted(tmp_path, synthesised, monkeypatch):
    path = tmp_path / "results.yaml"
    monkeypatch.setattr(synthesis_results.record, "__defaults__", (path,))
    assert main(["record", "tiny-4x4", "--draw", "7"]) == 0
    rows = load_results(path).rows
    assert [row.hw for row in rows[1:]] == list(draw(7))
    assert [row.fitted for row in rows] == [True] + [False] * 4


def true_rows(configs, model, factor=1.0):
    areas = [estimate(hw, model) for hw in configs]
    return [
        replace(
            row(hw, round(area.lut * factor), round(area.ff * factor)),
            ramb36=area.bram36, ramb18=0, dsp=area.dsp,
        )
        for hw, area in zip(configs, areas, strict=True)
    ]  # fmt: skip


def test_held_out_errors_vanish_for_a_true_model_and_show_a_row_that_departs_from_it():
    truth = LogicModel(**dict.fromkeys(LogicModel.__dataclass_fields__, 100.0))
    rows = true_rows(SPREAD, truth)
    fresh = [replace(r, hw=r.hw.with_(name="heldout-x")) for r in true_rows(SPREAD[2:3], truth, 2)]
    errors = held_out([*rows, *fresh])
    assert all(abs(e.lut) < 0.01 and abs(e.ff) < 0.01 for e in errors[:-1])
    assert errors[-1].fresh
    assert errors[-1].lut == pytest.approx(-0.5, abs=0.01)
    assert all(e.bram36 == 0 and e.dsp == 0 for e in errors)
    odd = [replace(rows[0], lut=2 * rows[0].lut, dsp=rows[0].dsp + 3), *rows[1:]]
    assert held_out(odd)[0].lut == pytest.approx(-0.5, abs=0.01)
    assert held_out(odd)[0].dsp == -3
    lines = held_out_table(held_out(odd)).splitlines()
    assert lines[-1].startswith("| largest | left out | ")
    assert lines[-1].endswith("| 0 | 3 |")


def test_held_out_needs_more_rows_than_coefficients():
    with pytest.raises(ConfigError, match="must be more than 5 rows"):
        held_out([row(hw, 1, 1) for hw in SPREAD[:5]])


def test_a_malformed_file_is_refused(tmp_path):
    path = tmp_path / "results.yaml"
    path.write_text("tool: x\nresults: {}\n")
    with pytest.raises(ConfigError, match="must hold tool, family and results"):
        load_results(path)


def test_the_table_of_the_docs_is_that_of_the_results():
    text = DOCS_FILE.read_text(encoding="utf-8")
    assert renewed(text, load_results()) == text, (
        "run: python -m tilewright.sim.synthesis_results write"
    )


def test_the_table_names_every_configuration_and_the_boards_that_hold_it():
    text = table(load_results())
    pynq = next(line for line in text.splitlines() if line.startswith("| `pynq-16x16`"))
    assert "pynq-z2" in pynq
    wide = next(line for line in text.splitlines() if "probe-wide-wgt256k" in line)
    assert "pynq-z2" not in wide
    assert "zcu104" in wide


def test_a_page_without_a_place_for_the_table_is_refused():
    with pytest.raises(ConfigError, match="must hold"):
        renewed("no place", load_results())
    page = f"a\n{TABLE_BEGIN}\nold\n{TABLE_END}\nb\n"
    with pytest.raises(ConfigError, match="heldout: begin"):
        renewed(page, load_results())
    page += f"{HELDOUT_BEGIN}\nold\n{HELDOUT_END}\nc"
    assert "old" not in renewed(page, load_results())
    assert renewed(page, load_results()).endswith("\nc")
