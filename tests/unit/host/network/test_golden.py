# SPDX-License-Identifier: Apache-2.0
"""The integer reference against torch's float64 convolution and max pooling."""

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.host.common.errors import WorkloadError
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network import int4_tiles, requant
from tilewright.host.network.golden import accumulate, conv2d_int8, random_tensors
from tilewright.host.network.workload import Kind, Workload, conv2d, maxpool


@st.composite
def workloads(draw):
    small = st.integers(1, 3)
    kind = draw(st.sampled_from([kind for kind in Kind if kind.alone and not kind.pairs]))
    channels = draw(st.integers(1, 9))
    pool, padded = kind.pools, 0 if kind is Kind.AVGPOOL else 3
    values = {
        "n": draw(small), "height": draw(st.integers(1, 9)), "width": draw(st.integers(1, 9)),
        "channels_in": channels,
        "channels_out": draw(st.integers(1, 9)) if kind is Kind.CONV2D else channels,
        **{k: draw(small) for k in ("kernel_h", "kernel_w", "stride_h", "stride_w")},
        **{k: 1 if pool else draw(small) for k in ("dilation_h", "dilation_w")},
        **{k: draw(st.integers(0, padded)) for k in ("pad_top", "pad_bottom", "pad_left",
                                                "pad_right")},
    }  # fmt: skip
    try:
        residual = not pool and draw(st.booleans())
        return Workload(name="w", kind=kind, residual=residual, **values)
    except WorkloadError:
        assume(False)


def torch_accumulators(workload, data, weights):
    sides = (workload.pad_left, workload.pad_right, workload.pad_top, workload.pad_bottom)
    pool, kernel = workload.kind is Kind.MAXPOOL, (workload.kernel_h, workload.kernel_w)
    padded = torch.nn.functional.pad(
        torch.from_numpy(data).double(), sides, value=-128.0 if pool else 0.0
    )
    if weights is None:
        strides = (workload.stride_h, workload.stride_w)
        if pool:
            return torch.nn.functional.max_pool2d(padded, kernel, strides).numpy().astype(np.int64)
        means = torch.nn.functional.avg_pool2d(padded, kernel, strides, divisor_override=1)
        return means.numpy().astype(np.int64)
    out = torch.nn.functional.conv2d(
        padded,
        torch.from_numpy(weights).double(),
        stride=(workload.stride_h, workload.stride_w),
        dilation=(workload.dilation_h, workload.dilation_w),
        groups=workload.channels_in if workload.kind is Kind.DEPTHWISE else 1,
    )
    return out.numpy().astype(np.int64)


@settings(max_examples=80, deadline=None)
@given(workload=workloads(), seed=st.integers(0, 2**32 - 1))
def test_accumulators_equal_torch(workload, seed):
    tensors = random_tensors(workload, np.random.default_rng(seed))
    expected = torch_accumulators(workload, tensors.data, tensors.weights)
    got = accumulate(workload, tensors.data, tensors.weights)
    assert got.dtype == np.int32
    assert np.array_equal(got, expected)
    output = conv2d_int8(workload, tensors)
    assert output.shape == workload.output_shape
    assert np.array_equal(output, requant.requantise(expected, tensors.requant, tensors.residual))


def test_extreme_operands_stay_exact():
    workload = conv2d("w", 3, 2048, 2, 3, 1, 1)
    data = np.full(workload.input_shape, -128, dtype=np.int8)
    weights = np.full(workload.weight_shape, -128, dtype=np.int8)
    assert accumulate(workload, data, weights)[0, 0, 1, 1] == 2048 * 9 * 128 * 128


@pytest.mark.parametrize("residual", [False, True])
def test_random_outputs_are_spread_and_rarely_saturated(residual):
    workload = conv2d("w", 14, 64, 32, 3, 1, 1, relu=False, residual=residual)
    output = conv2d_int8(workload, random_tensors(workload, np.random.default_rng(5)))
    assert np.unique(output).size > 150
    assert np.isin(output, (-128, 127)).mean() < 0.1


@pytest.mark.parametrize(("kernel", "stride"), [(2, 2), (3, 2), (7, 1)])
def test_random_pools_keep_some_channels_and_spread_the_others(kernel, stride):
    workload = maxpool("p", 21, 64, kernel, 0, stride)
    tensors = random_tensors(workload, np.random.default_rng(5))
    maxima = accumulate(workload, tensors.data, None)[0]
    output = conv2d_int8(workload, tensors)[0]
    kept = [np.array_equal(a, b) for a, b in zip(output, maxima, strict=True)]
    assert 16 < sum(kept) < 48
    spread = output[~np.array(kept)]
    assert np.unique(spread).size > 120
    assert np.isin(spread, (-128, 127)).mean() < 0.1


def test_same_seed_gives_same_tensors():
    workload = conv2d("w", 4, 3, 5, 3, 1, 1)
    first, second = (random_tensors(workload, np.random.default_rng(3)) for _ in range(2))
    assert np.array_equal(first.data, second.data)
    assert np.array_equal(first.requant.m1, second.requant.m1)


def test_refuses_tensors_of_another_workload():
    workload = conv2d("w", 4, 3, 5, 3, 1, 1)
    tensors = random_tensors(workload, np.random.default_rng(0))
    for other, text in (
        (conv2d("w", 5, 3, 5, 3, 1, 1), "w.data: must be int8 of shape"),
        (conv2d("w", 4, 3, 6, 3, 1, 1), "w.weights: must be int8 of shape"),
        (conv2d("w", 4, 3, 5, 3, 1, 1, residual=True), "w.residual: a residual tensor must"),
    ):
        with pytest.raises(WorkloadError, match=text):
            conv2d_int8(other, tensors)
    pool = maxpool("w", 4, 3, 2, 0, 2)
    kept = random_tensors(pool, np.random.default_rng(0))
    for other, given_tensors in ((pool, tensors), (workload, kept)):
        with pytest.raises(WorkloadError, match=r"w\.weights: weights must be given exactly when"):
            conv2d_int8(other, given_tensors)
    with pytest.raises(WorkloadError, match=r"w\.data: must be int8"):
        conv2d_int8(workload, replace(tensors, data=tensors.data.astype(np.int16)))


# -- weight tiles of 4 bits in DRAM, plain and with scales of groups ------------------------------

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
    packed = int4_tiles.pack_int4(numbers.view(np.uint8), PLAIN)
    assert packed.size == 2 * PLAIN.int4_tile_bytes
    for at, byte in enumerate(packed.tolist()):
        assert (byte & 15, byte >> 4) == (numbers[2 * at] % 16, numbers[2 * at + 1] % 16)
    tiles = int4_tiles.unpack_int4(packed.reshape(2, -1), PLAIN)
    assert tiles.shape == (2, PLAIN.wgt_tile_bytes)
    assert np.array_equal(tiles.view(np.int8).ravel(), numbers)


@pytest.mark.parametrize("number", [-9, 8, 127])
def test_what_4_bits_do_not_hold_is_refused(number: int) -> None:
    weights = np.zeros(PLAIN.wgt_tile_bytes, dtype=np.int8)
    weights[3] = number
    assert not int4_tiles.are_packable(weights.view(np.uint8), PLAIN)
    with pytest.raises(WorkloadError, match="must be from -8 to 7") as caught:
        int4_tiles.pack_int4(weights.view(np.uint8), PLAIN, "fc.weights")
    assert caught.value.value == (min(number, 0), max(number, 0))
    assert caught.value.field == "fc.weights"


@pytest.mark.parametrize("name", ARRAYS)
@given(seed=st.integers(0, 2**32 - 1))
def test_scaled_weights_come_back(name: str, seed: int) -> None:
    hw = ARRAYS[name]
    tiles = any_tiles(hw, np.random.default_rng(seed)).view(np.uint8).ravel()
    assert int4_tiles.are_packable(tiles, hw)
    packed = int4_tiles.pack_int4(tiles, hw)
    assert packed.size == 3 * hw.int4_tile_bytes
    assert np.array_equal(int4_tiles.unpack_int4(packed.reshape(3, -1), hw).ravel(), tiles)


def test_a_beat_of_scales_lies_before_its_groups() -> None:
    hw = ARRAYS["two beats of scales"]
    groups = any_tiles(hw, np.random.default_rng(5), count=1)
    groups[:] = 7 * (1 + np.arange(len(groups)) % 16)[:, None]  # scales from 1 to 16
    beats = int4_tiles.pack_int4(groups.view(np.uint8).ravel(), hw).reshape(-1, hw.axi_bytes)
    assert len(beats) == len(groups) + 2
    for number, group in enumerate(groups):
        chunk, place = divmod(number, 2 * hw.axi_bytes)
        scales = beats[chunk * (2 * hw.axi_bytes + 1)]
        scale = (int(scales[place // 2]) >> 4 * (place % 2) & 15) + 1
        first = int(beats[chunk * (2 * hw.axi_bytes + 1) + 1 + place][0] & 15)
        assert scale * ((first ^ 8) - 8) == group[0]


def test_a_group_that_no_scale_fits_is_refused_with_its_weights() -> None:
    hw = ARRAYS["a beat of scales"]
    tiles = any_tiles(hw, np.random.default_rng(2))
    tiles[17] = 5
    tiles[17, 3:5] = 101, 100
    assert not int4_tiles.are_packable(tiles.view(np.uint8).ravel(), hw)
    with pytest.raises(WorkloadError, match="times a scale from 1 to 16") as caught:
        int4_tiles.pack_int4(tiles.view(np.uint8).ravel(), hw)
    assert caught.value.value == tiles[17].tolist()


@pytest.mark.parametrize("name", ARRAYS)
def test_groups_are_beats_of_a_tile(name: str) -> None:
    hw = ARRAYS[name]
    outputs, inputs = int4_tiles.group_shape(hw)
    assert outputs * inputs == 2 * hw.axi_bytes
    numbers = np.ones((hw.block_out, hw.block_in), dtype=np.int8)
    numbers[:outputs, :inputs] = 7 * 13  # one group with a scale of its own
    packed = int4_tiles.pack_int4(numbers.view(np.uint8).ravel(), hw)
    assert packed[0] & 15 == 13 - 1
    assert not packed[0] >> 4
    assert not packed[1 : hw.axi_bytes].any()


# -- requantisation against exact rational arithmetic ---------------------------------------------

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT8 = st.integers(-128, 127)


def one_channel(**changes: int) -> requant.RequantParams:
    values = {"bias": 0, "m1": 1, "m2": 0, "shift": 0, "zero_point": 0, **changes}
    clip = {name: values.pop(name) for name in ("clip_min", "clip_max") if name in values}
    return requant.RequantParams(**{name: np.array([v]) for name, v in values.items()}, **clip)


@settings(max_examples=400, deadline=None)
@given(
    acc=INT32, bias=INT32, m1=INT16, m2=INT16, residual=INT8, shift=st.integers(0, 47),
    zero_point=INT8, bounds=st.tuples(INT8, INT8),
)  # fmt: skip
def test_equals_rational_arithmetic_with_one_rounding(
    *, acc, bias, m1, m2, residual, shift, zero_point, bounds
):
    low, high = min(bounds), max(bounds)
    params = one_channel(
        bias=bias, m1=m1, m2=m2, shift=shift, zero_point=zero_point, clip_min=low, clip_max=high
    )
    exact = Fraction((acc + bias) * m1 + residual * m2 * 256, 2**shift)
    expected = min(max(round(exact) + zero_point, low), high)  # Fraction rounds half to even
    got = requant.requantise(
        np.full((1, 1, 1, 1), acc, dtype=np.int32),
        params,
        np.full((1, 1, 1, 1), residual, dtype=np.int8),
    )
    assert got.dtype == np.int8
    assert int(got[0, 0, 0, 0]) == expected


@given(numerator=st.integers(-200, 200), shift=st.integers(1, 3))
def test_ties_round_to_even(numerator, shift):
    params = one_channel(m1=1, shift=shift)
    got = requant.requantise(np.full((1, 1, 1, 1), numerator, dtype=np.int32), params)
    assert int(got[0, 0, 0, 0]) == round(Fraction(numerator, 2**shift))


@given(scale=st.floats(0.0, requant.MULTIPLIER_MAX, allow_subnormal=True))
def test_snapped_scale_is_the_nearest_of_its_shift(scale):
    m, _, shift = map(int, requant.snap_scales(scale, 0.0))
    assert 0 <= m <= requant.MULTIPLIER_MAX
    assert 0 <= shift <= 47
    assert abs(Fraction(m, 2**shift) - Fraction(scale)) <= Fraction(1, 2 ** (shift + 1))
    if m < 2**14 and m:
        # Fewer than 15 bits only where the range of shifts ends.
        assert (
            shift in {0, 47} or round(Fraction(scale) * 2 ** (shift + 1)) > requant.MULTIPLIER_MAX
        )


@given(first=st.floats(1e-9, 1000.0), second=st.floats(1e-9, 1000.0))
def test_joint_snapping_keeps_both_scales_as_precise_as_one_shift_allows(first, second):
    m1, m2, shift = map(int, requant.snap_scales(first, second))
    assert max(m1, m2) >= 2**14 or shift == 47
    for m, scale, places in ((m1, first, shift), (m2, second, shift - 8)):
        half_a_step = Fraction(1, 2) / Fraction(2) ** places
        assert abs(m / Fraction(2) ** places - Fraction(scale)) <= half_a_step


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf"), 32767.6, 1e30])
def test_refuses_a_scale_without_a_multiplier(scale):
    with pytest.raises(WorkloadError, match="scale: must be a finite number"):
        requant.snap_scales(scale, 0.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [("bias", 2**31), ("m1", 2**15), ("m2", -(2**15) - 1), ("shift", 48), ("zero_point", 128)],
)
def test_refuses_a_parameter_that_does_not_fit(field, value):
    with pytest.raises(WorkloadError, match=f"{field}: must be from"):
        one_channel(**{field: value})


def test_refuses_parameters_of_different_length():
    with pytest.raises(WorkloadError, match="m1: must be a one-dimensional array"):
        requant.RequantParams(
            bias=np.zeros(2, int), m1=np.zeros(3, int), m2=np.zeros(2, int),
            shift=np.zeros(2, int), zero_point=np.zeros(2, int),
        )  # fmt: skip


def test_refuses_reversed_clip_bounds():
    with pytest.raises(WorkloadError, match="clip bounds"):
        one_channel(clip_min=3, clip_max=2)


def test_refuses_shapes_that_do_not_match():
    with pytest.raises(WorkloadError, match="acc: must be NCHW with 1 channels"):
        requant.requantise(np.zeros((1, 2, 1, 1), dtype=np.int32), one_channel())
    with pytest.raises(WorkloadError, match="residual: must have the accumulator's shape"):
        requant.requantise(
            np.zeros((1, 1, 2, 2), dtype=np.int32), one_channel(), np.zeros((1, 1, 2, 1), np.int8)
        )
