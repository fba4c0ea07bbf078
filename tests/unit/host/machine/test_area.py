# SPDX-License-Identifier: Apache-2.0
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.area import (
    DSP_LOAD,
    DSP_PER_LANE,
    FF_ERROR,
    LOGIC_MODEL,
    LUT_ERROR,
    array_luts,
    array_registers,
    dsp_count,
    estimate,
    fits,
    holds_beats,
    lut_memory,
    scratchpads,
)
from tilewright.host.machine.board import load_board, named_boards
from tilewright.host.machine.hwconfig import PARAMETERS, HwConfig, load_hwconfig, named_configs
from tilewright.sim.synth.fit import fit, fittable
from tilewright.sim.synth.record import load_results


@st.composite
def legal_configs(draw):
    def pow2(low, high):
        return 1 << draw(st.integers(low, high))

    values = {
        "batch": pow2(0, 3),
        "block_in": pow2(2, 6),
        "block_out": pow2(2, 6),
        "axi_data_bits": pow2(5, 9),
        "vector_lanes": pow2(0, 9),
        "mac_pipeline": draw(st.integers(1, 6)),
        "mac_packed": draw(st.integers(0, 1)),
    }
    values["mac_lut_columns"] = draw(st.integers(0, values["block_out"]))
    for name in ("inp", "wgt", "acc", "out", "uop", "res", "param"):
        values[f"{name}_bytes"] = pow2(10, 20)
    try:
        return HwConfig(**values)
    except ConfigError:
        return HwConfig()


@pytest.fixture(scope="module")
def results():
    return load_results()


def test_pynq_16x16_uses_the_block_rams_that_yosys_gives_it():
    memories = {m.name: m.cost.ramb36 + m.cost.ramb18 / 2 for m in scratchpads(HwConfig())}
    assert memories == {
        "INP": 8, "WGT": 64, "ACC": 32, "OUT": 7.5, "RES": 8, "UOP": 6, "PARAM": 4,
    }  # fmt: skip
    assert estimate(load_hwconfig("pynq-16x16")).bram36 == 130


def test_dsp_and_block_ram_equal_every_recorded_synthesis(results):
    for row in results.rows:
        area, costs = estimate(row.hw), [m.cost for m in scratchpads(row.hw)]
        found = (sum(c.ramb36 for c in costs), sum(c.ramb18 for c in costs), area.dsp)
        assert found == (row.ramb36, row.ramb18, row.dsp), row.hw.name
        assert area.bram36 == row.area.bram36, row.hw.name


def test_luts_as_memory_equal_every_recorded_synthesis_but_for_shift_registers(results):
    for row in results.rows:
        shifted = row.lutram - lut_memory(row.hw)  # a row unit has long pipelines
        assert 0 <= shifted <= 40 + 24 * row.hw.row_unit, row.hw.name


def test_luts_and_flip_flops_are_within_the_stated_error_of_every_fitted_row(results):
    for row in (row for row in results.rows if row.fitted):
        area = estimate(row.hw)
        assert area.lut == pytest.approx(row.lut, rel=LUT_ERROR), row.hw.name
        assert area.ff == pytest.approx(row.ff, rel=FF_ERROR), row.hw.name


def test_the_coefficients_are_those_of_the_fit_to_the_recorded_syntheses(results):
    assert fit(fittable(results.rows)) == LOGIC_MODEL


@settings(deadline=None)
@given(legal_configs())
def test_memories_hold_exactly_the_bytes_of_the_configuration(hw):
    for m in scratchpads(hw):
        assert 8 * getattr(hw, f"{m.name.lower()}_bytes") == m.banks * m.width * m.depth, m


def test_beats_are_held_where_one_can_bring_several_diagonals():
    named = {name: holds_beats(load_hwconfig(name)) for name in named_configs()}
    assert named["tiny-4x4"]
    assert not named["pynq-16x16"]
    wide = HwConfig(axi_data_bits=256)
    assert holds_beats(wide)
    assert lut_memory(wide.with_(axi_burst_beats=64)) - lut_memory(wide) == 4 * 43


# tw_mac.sv synthesised alone with pyosys 0.70; four output channels, so that a column is seen.
ARRAYS = [
    # batch, block_in, pipeline, packed, columns in LUTs; LUT, FF
    ((1, 16, 2, 0, 0), 700, 80),
    ((1, 16, 2, 1, 0), 678, 80),
    ((1, 8, 1, 1, 0), 252, 76),
    ((2, 8, 2, 1, 0), 534, 152),
    ((2, 8, 3, 1, 0), 534, 408),
    ((1, 16, 4, 1, 0), 678, 336),
    ((1, 16, 6, 1, 0), 258, 792),
    ((1, 8, 5, 1, 0), 90, 356),
    ((1, 16, 6, 1, 2), 1943, 1816),
    ((1, 16, 2, 1, 4), 4230, 1104),
]


@pytest.mark.parametrize(("shape", "lut", "ff"), ARRAYS)
def test_the_mac_array_takes_what_it_takes_when_synthesised_alone(shape, lut, ff):
    batch, block_in, pipeline, packed, columns = shape
    hw = HwConfig(
        batch=batch, block_in=block_in, block_out=4, vector_lanes=4, mac_pipeline=pipeline,
        mac_packed=packed, mac_lut_columns=columns,
    )  # fmt: skip
    assert array_registers(hw) == pytest.approx(ff, rel=0.02)
    assert array_luts(hw) == pytest.approx(lut, rel=0.04)


def test_a_sum_that_waits_three_cycles_is_in_shift_registers():
    hw = HwConfig(block_in=4, block_out=4, vector_lanes=4, mac_packed=0)
    lines = {p: lut_memory(hw.with_(mac_pipeline=p)) - lut_memory(hw) for p in (4, 5, 6)}
    assert lines == {4: 0, 5: 0, 6: 4 * 18}
    assert [array_registers(hw.with_(mac_pipeline=p)) for p in (4, 5, 6)] == [72, 144, 0]


@settings(deadline=None)
@given(legal_configs())
def test_dsps_are_multipliers_of_the_array_of_the_lanes_and_of_the_loads(hw):
    columns = hw.block_out - hw.mac_lut_columns
    rows = hw.batch * hw.block_in
    rest = DSP_PER_LANE * hw.vector_lanes + DSP_LOAD
    assert dsp_count(hw.with_(mac_packed=0)) == rows * columns + rest
    assert dsp_count(hw.with_(mac_packed=1)) == rows * math.ceil(columns / 2) + rest


@settings(deadline=None)
@given(legal_configs(), st.sampled_from([p.name for p in PARAMETERS if p.name.endswith("_bytes")]))
def test_a_larger_buffer_never_needs_fewer_block_rams(hw, name):
    # LUT RAM is left out: there, growth moves a memory into block RAM
    size = getattr(hw, name)
    if size >= 1 << 20:
        return
    assert estimate(hw.with_(**{name: 2 * size})).bram36 >= estimate(hw).bram36


def test_plain_16x16_does_not_fit_the_zynq_7020_for_want_of_dsps():
    fit = fits(HwConfig(mac_packed=0), load_board("pynq-z2"))
    assert not fit.ok
    assert "DSP 306 exceeds 220 by 86" in fit.text
    assert "LUT" not in fit.text


def test_pynq_16x16_fits_every_board_and_says_what_it_uses():
    for name in named_boards():
        fit = fits(load_hwconfig("pynq-16x16"), load_board(name))
        assert fit.ok, fit.text
        assert f"BRAM36 130 of {load_board(name).bram36}" in fit.text


def test_every_named_configuration_fits_some_board():
    boards = [load_board(name) for name in named_boards()]
    for name in named_configs():
        assert any(fits(load_hwconfig(name), board).ok for board in boards), name


@pytest.mark.parametrize(
    ("option", "lut", "before"), [(1, 12_466, 12_229), (2, 12_960, 12_229)], ids=["plain", "scaled"]
)
def test_unpacking_of_weights_costs_about_what_it_takes_when_synthesised(option, lut, before):
    """LUT of `tiny-4x4` by Yosys, with and without; flip-flops 10,586, 10,659, 10,583 without."""
    plain = load_hwconfig("tiny-4x4")
    found, without = estimate(plain.with_(int4_weights=option)), estimate(plain)
    assert abs(found.lut / lut - 1) < LUT_ERROR
    assert abs((found.lut - without.lut) / (lut - before) - 1) < 0.05
    assert (found.ff, found.dsp, found.bram36) == (without.ff, without.dsp, without.bram36)


def test_a_row_unit_costs_about_what_it_takes_when_synthesised():
    """Of `tiny-4x4` with the unit: 14,296 LUT and 11,292 flip-flops by Yosys."""
    hw = load_hwconfig("tiny-4x4").with_(row_unit=1)
    area = estimate(hw)
    assert abs(area.lut / 14_296 - 1) < 0.03
    assert abs(area.ff / 11_292 - 1) < 0.03
    plain = estimate(hw.with_(row_unit=0))
    assert (area.dsp, area.bram36) == (plain.dsp, plain.bram36)
    both = hw.with_(batch=2, vector_lanes=8)  # two rows in a part: two logarithms
    lane = estimate(both).lut - estimate(both.with_(row_unit=0)).lut - (area.lut - plain.lut)
    assert lane == 4 * 300 + 440
