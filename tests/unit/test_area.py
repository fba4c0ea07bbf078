# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.area import (
    DSP_LOAD,
    DSP_PER_LANE,
    FETCH_BYTES,
    FF_ERROR,
    LOGIC_MODEL,
    LUT_ERROR,
    LogicModel,
    dsp_count,
    estimate,
    fits,
    lut_memory,
    scratchpads,
)
from tilewright.host.board import load_board, named_boards
from tilewright.host.errors import ConfigError
from tilewright.host.hwconfig import PARAMETERS, HwConfig, load_hwconfig, named_configs
from tilewright.sim.synthesis_results import fit, load_results


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
        "INP": 8, "WGT": 64, "ACC": 32, "OUT": 7.5, "RES": 8, "UOP": 6, "PARAM": 4, "FETCH": 1,
    }  # fmt: skip
    assert estimate(load_hwconfig("pynq-16x16")).bram36 == 131


def test_dsp_and_block_ram_equal_every_recorded_synthesis(results):
    for row in results.rows:
        area, costs = estimate(row.hw), [m.cost for m in scratchpads(row.hw)]
        found = (sum(c.ramb36 for c in costs), sum(c.ramb18 for c in costs), area.dsp)
        assert found == (row.ramb36, row.ramb18, row.dsp), row.hw.name
        assert area.bram36 == row.area.bram36, row.hw.name


def test_luts_as_memory_equal_every_recorded_synthesis_but_for_shift_registers(results):
    for row in results.rows:
        assert 0 <= row.lutram - lut_memory(row.hw) <= 32, row.hw.name


def test_luts_and_flip_flops_are_within_the_stated_error_of_every_recorded_synthesis(results):
    for row in results.rows:
        area = estimate(row.hw)
        assert area.lut == pytest.approx(row.lut, rel=LUT_ERROR), row.hw.name
        assert area.ff == pytest.approx(row.ff, rel=FF_ERROR), row.hw.name


def test_the_coefficients_are_those_of_the_fit_to_the_recorded_syntheses(results):
    assert fit(results.rows) == LOGIC_MODEL


def test_a_narrow_tile_has_a_bank_for_each_tile_of_a_beat():
    inp = next(m for m in scratchpads(load_hwconfig("tiny-4x4")) if m.name == "INP")
    assert (inp.banks, inp.width, inp.depth, inp.write_bits) == (2, 32, 512, 32)


@settings(deadline=None)
@given(legal_configs())
def test_memories_hold_exactly_the_bytes_of_the_configuration(hw):
    for m in scratchpads(hw):
        size = FETCH_BYTES if m.name == "FETCH" else getattr(hw, f"{m.name.lower()}_bytes")
        assert 8 * size == m.banks * m.width * m.depth, m


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


def test_packing_frees_dsps_and_costs_logic():
    plain, packed = (estimate(HwConfig(mac_packed=p)) for p in (0, 1))
    assert plain.dsp - packed.dsp == 128
    assert packed.lut > plain.lut


def test_columns_in_luts_free_dsps_and_cost_logic():
    base = HwConfig()
    moved = estimate(base.with_(mac_lut_columns=3))
    assert estimate(base).dsp - moved.dsp == 16  # 13 columns still need 7 multipliers a row
    assert moved.lut > estimate(base).lut
    assert dsp_count(base.with_(mac_lut_columns=16)) == DSP_PER_LANE * base.vector_lanes + DSP_LOAD


def test_logic_model_is_linear_in_its_coefficients():
    hw = HwConfig()
    base, more = estimate(hw, LogicModel()), estimate(hw, LogicModel(lut_fixed=1000.0))
    assert more.lut - base.lut == 1000
    assert (more.ff, more.bram36, more.dsp) == (base.ff, base.bram36, base.dsp)


def test_plain_16x16_does_not_fit_the_zynq_7020_for_want_of_dsps():
    fit = fits(HwConfig(mac_packed=0), load_board("pynq-z2"))
    assert not fit.ok
    assert "DSP 338 exceeds 220 by 118" in fit.text
    assert "LUT" not in fit.text


def test_pynq_16x16_fits_every_board_and_says_what_it_uses():
    for name in named_boards():
        fit = fits(load_hwconfig("pynq-16x16"), load_board(name))
        assert fit.ok, fit.text
        assert f"BRAM36 131 of {load_board(name).bram36}" in fit.text


def test_bus_and_burst_must_suit_the_port():
    board = load_board("pynq-z1")
    wide = fits(HwConfig(axi_data_bits=128), board)
    assert not wide.ok
    assert "axi_data_bits 128 exceeds the port's 64" in wide.text
    assert "axi_burst_beats 32" in fits(HwConfig(axi_burst_beats=32), board).text


def test_every_named_configuration_fits_some_board():
    boards = [load_board(name) for name in named_boards()]
    for name in named_configs():
        assert any(fits(load_hwconfig(name), board).ok for board in boards), name
