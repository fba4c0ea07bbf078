# SPDX-License-Identifier: Apache-2.0
from dataclasses import replace

import pytest

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.area import estimate
from tilewright.host.machine.hwconfig import load_hwconfig, named_configs
from tilewright.sim.synth.record import Results, Row, load_results
from tilewright.sim.synth.tables import (
    CONFIGURATIONS_FILE,
    DOCS_FILE,
    HELDOUT_BEGIN,
    HELDOUT_END,
    TABLE_BEGIN,
    TABLE_END,
    configurations,
    renewed,
    renewed_overview,
    table,
)


def test_the_tables_of_the_pages_are_those_of_the_results():
    results = load_results()
    for page, renew in ((DOCS_FILE, renewed), (CONFIGURATIONS_FILE, renewed_overview)):
        text = page.read_text(encoding="utf-8")
        assert renew(text, results) == text, "run: tilewright synth-record write"


def test_the_table_names_every_configuration_and_the_boards_that_hold_it():
    results = load_results()
    pynq = next(row for row in results.rows if row.hw.name == "pynq-16x16")
    large = replace(pynq, hw=pynq.hw.with_(name="probe-large"), ramb36=150)
    lines = table(replace(results, rows=(pynq, large))).splitlines()
    assert lines[2].startswith("| `pynq-16x16` |")
    assert "pynq-z2" in lines[2]
    assert lines[3].startswith("| probe-large |")
    assert "pynq-z2" not in lines[3]
    assert "zcu104" in lines[3]


def test_rows_of_different_sources_are_told_apart():
    results = load_results()
    first, second, *_ = results.rows
    rows = (replace(first, rtl="0" * 16, ecp5=None), replace(second, rtl="1" * 16, ecp5=None))
    lines = table(replace(results, rows=rows)).splitlines()
    assert [line.split("|")[2].strip() for line in lines[2:4]] == ["A", "B"]
    assert lines[-1].endswith(f"RTL: A: {'0' * 16}; B: {'1' * 16}.")


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


def test_configurations_without_a_row_are_estimates_and_others_are_counts():
    tiny, edge = (load_hwconfig(name) for name in ("tiny-4x4", "edge-8x8"))
    counts = {"lutram": 0, "ramb36": 130, "ramb18": 21, "dsp": 38, "seconds": 1.0}
    row = Row(hw=tiny, rtl="0", lut=12_345, ff=9_876, **counts)
    other = replace(row, hw=edge.with_(vector_lanes=4))  # the name, but not its parameters
    lines = configurations(Results(tool="", family="", rows=(row, other))).splitlines()
    assert lines[2].startswith(
        "| `tiny-4x4` | 1 x 4 x 4 | 16 | 64 bit | 12,345 | 9,876 | 141 | 38 "
    )
    assert lines[2].endswith("| Yosys | ultra96-v2, zcu104 |")  # 140 BRAM36 are too few
    assert lines[3].startswith("| `edge-8x8` |")
    assert f"| {estimate(edge).lut:,} |" in lines[3]
    assert "| estimate |" in lines[3]
    assert len(lines) == 2 + len(named_configs())
