# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

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
    TABLE_BEGIN,
    TABLE_END,
    Row,
    fit,
    load_results,
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

    def synthesise(hw):
        calls.append(hw)
        return SynthesisReport(
            config=hw.name, family="xc7", tool="pyosys 1", seconds=2.5, memories=(),
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
    page = f"a\n{TABLE_BEGIN}\nold\n{TABLE_END}\nb"
    assert "old" not in renewed(page, load_results())
    assert renewed(page, load_results()).endswith("\nb")
