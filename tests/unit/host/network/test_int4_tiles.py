# SPDX-License-Identifier: Apache-2.0
"""Weight tiles of 4 bits in DRAM, plain and with scales of groups."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.host.common.errors import WorkloadError
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.int4_tiles import (
    are_packable,
    group_shape,
    pack_int4,
    scales_of,
    unpack_int4,
)

TINY = load_hwconfig("tiny-4x4")
PLAIN = TINY.with_(int4_weights=1)
ARRAYS = {
    "one group of four outputs": TINY.with_(int4_weights=2),
    "a beat of scales": HwConfig(int4_weights=2),
    "two beats of scales": load_hwconfig("pynq-16x32").with_(int4_weights=2),
    "eight beats of scales": HwConfig(int4_weights=2, axi_data_bits=32, block_out=32),
    "half a beat": HwConfig(int4_weights=2, axi_data_bits=128),
}


def any_tiles(hw: HwConfig, rng: np.random.Generator, count: int = 3) -> np.ndarray:
    """Numbers of whole tiles, groups of 4-bit numbers times scales."""
    groups = count * hw.wgt_tile_bytes // (2 * hw.axi_bytes)
    numbers = rng.integers(-8, 8, (groups, 2 * hw.axi_bytes))
    return (numbers * rng.integers(1, 17, (groups, 1))).astype(np.int8)


@given(seed=st.integers(0, 2**32 - 1))
def test_plain_weights_lie_two_in_a_byte_and_come_back(seed: int) -> None:
    numbers = np.random.default_rng(seed).integers(-8, 8, 2 * PLAIN.wgt_tile_bytes).astype(np.int8)
    packed = pack_int4(numbers.view(np.uint8), PLAIN)
    assert packed.size == 2 * PLAIN.int4_tile_bytes
    for at, byte in enumerate(packed.tolist()):
        assert (byte & 15, byte >> 4) == (numbers[2 * at] % 16, numbers[2 * at + 1] % 16)
    tiles = unpack_int4(packed.reshape(2, -1), PLAIN)
    assert tiles.shape == (2, PLAIN.wgt_tile_bytes)
    assert np.array_equal(tiles.view(np.int8).ravel(), numbers)


@pytest.mark.parametrize("number", [-9, 8, 127])
def test_what_4_bits_do_not_hold_is_refused(number: int) -> None:
    weights = np.zeros(PLAIN.wgt_tile_bytes, dtype=np.int8)
    weights[3] = number
    assert not are_packable(weights.view(np.uint8), PLAIN)
    with pytest.raises(WorkloadError, match="must be from -8 to 7") as caught:
        pack_int4(weights.view(np.uint8), PLAIN, "fc.weights")
    assert caught.value.value == (min(number, 0), max(number, 0))
    assert caught.value.field == "fc.weights"


@pytest.mark.parametrize("name", ARRAYS)
@given(seed=st.integers(0, 2**32 - 1))
def test_scaled_weights_come_back(name: str, seed: int) -> None:
    hw = ARRAYS[name]
    tiles = any_tiles(hw, np.random.default_rng(seed)).view(np.uint8).ravel()
    assert are_packable(tiles, hw)
    packed = pack_int4(tiles, hw)
    assert packed.size == 3 * hw.int4_tile_bytes
    assert np.array_equal(unpack_int4(packed.reshape(3, -1), hw).ravel(), tiles)


@pytest.mark.parametrize("name", ARRAYS)
def test_no_tiles_are_no_weights(name: str) -> None:
    hw = ARRAYS[name]
    none = np.zeros((0, hw.int4_tile_bytes), dtype=np.uint8)
    assert unpack_int4(none, hw).shape == (0, hw.wgt_tile_bytes)


def test_a_beat_of_scales_lies_before_its_groups() -> None:
    hw = ARRAYS["two beats of scales"]
    groups = any_tiles(hw, np.random.default_rng(5), count=1)
    groups[:] = 7 * (1 + np.arange(len(groups)) % 16)[:, None]  # scales from 1 to 16
    beats = pack_int4(groups.view(np.uint8).ravel(), hw).reshape(-1, hw.axi_bytes)
    assert len(beats) == len(groups) + 2
    for number, group in enumerate(groups):
        chunk, place = divmod(number, 2 * hw.axi_bytes)
        scales = beats[chunk * (2 * hw.axi_bytes + 1)]
        scale = (int(scales[place // 2]) >> 4 * (place % 2) & 15) + 1
        first = int(beats[chunk * (2 * hw.axi_bytes + 1) + 1 + place][0] & 15)
        assert scale * ((first ^ 8) - 8) == group[0]


def test_a_group_takes_its_least_scale() -> None:
    groups = np.array([[0, 0], [7, -8], [8, 2], [-128, 112], [9, 1], [16, 8]], dtype=np.int8)
    assert scales_of(groups).tolist() == [1, 1, 2, 16, 0, 4]


def test_a_group_that_no_scale_fits_is_refused_with_its_weights() -> None:
    hw = ARRAYS["a beat of scales"]
    tiles = any_tiles(hw, np.random.default_rng(2))
    tiles[17] = 5
    tiles[17, 3:5] = 101, 100
    assert not are_packable(tiles.view(np.uint8).ravel(), hw)
    with pytest.raises(WorkloadError, match="times a scale from 1 to 16") as caught:
        pack_int4(tiles.view(np.uint8).ravel(), hw)
    assert caught.value.value == tiles[17].tolist()


@pytest.mark.parametrize("name", ARRAYS)
def test_groups_are_beats_of_a_tile(name: str) -> None:
    hw = ARRAYS[name]
    outputs, inputs = group_shape(hw)
    assert outputs * inputs == 2 * hw.axi_bytes
    numbers = np.ones((hw.block_out, hw.block_in), dtype=np.int8)
    numbers[:outputs, :inputs] = 7 * 13  # one group with a scale of its own
    packed = pack_int4(numbers.view(np.uint8).ravel(), hw)
    assert packed[0] & 15 == 13 - 1
    assert not packed[0] >> 4
    assert not packed[1 : hw.axi_bytes].any()
