# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.area import (
    BRAM36_SHAPES,
    DSP_PER_LANE,
    LogicModel,
    Scratchpad,
    dsp_count,
    estimate,
    fits,
    scratchpads,
)
from tilewright.host.board import load_board, named_boards
from tilewright.host.errors import ConfigError
from tilewright.host.hwconfig import PARAMETERS, HwConfig, load_hwconfig, named_configs


def memory(width, depth, write_bits=None, banks=1):
    return Scratchpad(
        name="M", banks=banks, width=width, depth=depth, write_bits=write_bits or width
    )


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
    for name in ("inp", "wgt", "acc", "out", "uop", "res", "param"):
        values[f"{name}_bytes"] = pow2(10, 20)
    try:
        return HwConfig(**values)
    except ConfigError:
        return HwConfig()


def test_pynq_16x16_uses_the_block_rams_that_the_design_states():
    memories = {m.name: m.bram36 for m in scratchpads(load_hwconfig("pynq-16x16"))}
    assert memories == {
        "INP": 8, "WGT": 64, "ACC": 32, "OUT": 8, "RES": 8, "UOP": 8, "PARAM": 4,
    }  # fmt: skip
    assert estimate(load_hwconfig("pynq-16x16")).bram36 == 132


@pytest.mark.parametrize(
    ("width", "depth", "blocks"),
    [
        (72, 512, 1), (73, 512, 2), (72, 513, 2), (36, 1024, 1), (18, 2048, 1), (9, 4096, 1),
        (64, 512, 1), (64, 1024, 2), (64, 4096, 8), (128, 2048, 8), (1, 32768, 1), (1, 32769, 2),
        (512, 512, 8), (512, 1024, 15),
    ],
)  # fmt: skip
def test_block_rams_of_known_aspect_ratios(width, depth, blocks):
    assert memory(width, depth).bram36 == blocks


@settings(deadline=None)
@given(st.integers(1, 2048), st.integers(65, 65536))
def test_block_rams_hold_the_bits_and_no_single_shape_is_better(width, depth):
    m = memory(width, depth)
    if m.in_lutram:
        return
    assert m.bram36 * 36864 >= width * depth
    for w, d in BRAM36_SHAPES:
        assert m.bram36 <= -(-width // w) * -(-depth // d)


@settings(deadline=None)
@given(st.sampled_from([8, 16, 32, 64, 128]), st.integers(0, 5), st.integers(9, 14))
def test_columns_never_need_fewer_blocks_than_a_memory_written_whole(column, doublings, log_depth):
    width, depth = column << doublings, 1 << log_depth
    split = memory(width, depth, write_bits=column)
    assert split.bram36 >= memory(width, depth).bram36 or split.in_lutram


@pytest.mark.parametrize("depth", [1, 32, 64])
def test_shallow_memories_go_to_lut_ram(depth):
    m = memory(512, depth)
    assert m.bram36 == 0
    assert m.lutram_luts * 64 >= 512 * depth


def test_small_columns_go_to_lut_ram_and_larger_ones_do_not():
    assert memory(8, 128).bram36 == 0
    assert memory(8, 129).bram36 == 1
    assert memory(8, 129).lutram_luts == 0


def test_banks_multiply():
    assert memory(64, 512, banks=4).bram36 == 4 * memory(64, 512).bram36


@settings(deadline=None)
@given(legal_configs())
def test_memories_hold_exactly_the_bytes_of_the_configuration(hw):
    for m in scratchpads(hw):
        assert 8 * getattr(hw, f"{m.name.lower()}_bytes") == m.banks * m.width * m.depth, m


@settings(deadline=None)
@given(legal_configs())
def test_dsps_are_multipliers_of_the_array_and_of_the_lanes(hw):
    array = hw.batch * hw.block_in * hw.block_out
    assert dsp_count(hw.with_(mac_packed=0)) == array + DSP_PER_LANE * hw.vector_lanes
    assert dsp_count(hw.with_(mac_packed=1)) == array / 2 + DSP_PER_LANE * hw.vector_lanes


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


def test_logic_model_is_linear_in_its_coefficients():
    hw = HwConfig()
    base, more = estimate(hw), estimate(hw, LogicModel(lut_fixed=8000.0))
    assert more.lut - base.lut == 1000
    assert (more.ff, more.bram36, more.dsp) == (base.ff, base.bram36, base.dsp)


def test_plain_16x16_does_not_fit_the_zynq_7020_for_want_of_dsps():
    fit = fits(HwConfig(mac_packed=0), load_board("pynq-z2"))
    assert not fit.ok
    assert "DSP 336 exceeds 220 by 116" in fit.text
    assert "LUT" not in fit.text


def test_pynq_16x16_fits_every_board_and_says_what_it_uses():
    for name in named_boards():
        fit = fits(load_hwconfig("pynq-16x16"), load_board(name))
        assert fit.ok, fit.text
        assert f"BRAM36 132 of {load_board(name).bram36}" in fit.text


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
