# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.area import LogicModel, estimate
from tilewright.host.errors import ConfigError
from tilewright.host.hwconfig import HwConfig
from tilewright.sim.synthesis import SynthesisReport
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
    return Row(hw=hw, lut=lut, lutram=0, ff=ff, ramb36=1, ramb18=1, dsp=1, seconds=1.0)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.integers(1, 2000), min_size=10, max_size=10))
def test_the_fit_finds_the_coefficients_that_made_the_counts(values):
    names = list(LogicModel.__dataclass_fields__)
    truth = LogicModel(**{n: float(v) for n, v in zip(names, values, strict=True)})
    areas = [estimate(hw, truth) for hw in SPREAD]
    found = fit([row(hw, area.lut, area.ff) for hw, area in zip(SPREAD, areas, strict=True)])
    for name in names:
        assert getattr(found, name) == pytest.approx(getattr(truth, name), abs=0.11), name


def test_what_is_recorded_is_read_back(tmp_path):
    hw = HwConfig(name="mine", vector_lanes=8)
    counts = {"lut": 10, "lutram": 2, "ff": 3, "ramb36": 4, "ramb18": 5, "dsp": 6}
    report = SynthesisReport(
        config="mine", family="xc7", tool="pyosys 1", seconds=2.5, memories=(), **counts
    )
    path = tmp_path / "new" / "results.yaml"
    record([hw], [report], path)
    results = load_results(path)
    assert (results.tool, results.family) == ("pyosys 1", "xc7")
    assert results.rows == (Row(hw=hw, seconds=2.5, **counts),)
    assert results.rows[0].area.bram36 == 7
    assert not results.rows[0].named


def test_a_malformed_file_is_refused(tmp_path):
    path = tmp_path / "results.yaml"
    path.write_text("tool: x\nresults: {}\n")
    with pytest.raises(ConfigError, match="must hold tool, family, rtl and results"):
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
    wide = next(line for line in text.splitlines() if line.startswith("| `wide-8x32`"))
    assert "pynq-z2" not in wide


def test_a_page_without_a_place_for_the_table_is_refused():
    with pytest.raises(ConfigError, match="must hold"):
        renewed("no place", load_results())
    page = f"a\n{TABLE_BEGIN}\nold\n{TABLE_END}\nb"
    assert "old" not in renewed(page, load_results())
    assert renewed(page, load_results()).endswith("\nb")
