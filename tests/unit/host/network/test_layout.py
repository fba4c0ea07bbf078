# SPDX-License-Identifier: Apache-2.0
"""Tile layouts against their element-wise definition."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.common.errors import WorkloadError
from tilewright.host.machine.isa import PARAM_FIELDS, unpack_fields
from tilewright.host.network import layout
from tilewright.host.network.golden import accumulate, random_tensors
from tilewright.host.network.workload import conv2d

SHAPES = st.tuples(*[st.integers(1, 7)] * 4)
BLOCKS = st.sampled_from([1, 2, 4, 8])


def random_int8(shape, seed=0):
    return np.random.default_rng(seed).integers(-128, 128, shape, dtype=np.int8)


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, batch=BLOCKS, block=BLOCKS, extra=st.integers(0, 2))
def test_activations_lie_where_the_layout_says(shape, batch, block, extra):
    data = random_int8(shape)
    n, channels, height, width = shape
    blocks = layout.blocks_of(channels, block) + extra
    packed = layout.pack_activations(data, batch=batch, block=block, channel_blocks=blocks)
    assert packed.size == layout.blocks_of(n, batch) * batch * blocks * block * height * width
    remaining = packed.view(np.int8).copy()
    for i, c, y, x in itertools.product(*map(range, shape)):
        tile = (((i // batch) * blocks + c // block) * height + y) * width + x
        at = (tile * batch + i % batch) * block + c % block
        assert remaining[at] == data[i, c, y, x]
        remaining[at] = 0
    assert not remaining.any()  # everything else is padding


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, batch=BLOCKS, block=BLOCKS)
def test_activations_round_trip(shape, batch, block):
    data = random_int8(shape)
    packed = layout.pack_activations(data, batch=batch, block=block)
    assert np.array_equal(layout.unpack_activations(packed, shape, batch=batch, block=block), data)


@settings(max_examples=60, deadline=None)
@given(shape=SHAPES, block_in=BLOCKS, block_out=BLOCKS)
def test_weights_lie_where_the_layout_says(shape, block_in, block_out):
    weights = random_int8(shape)
    _, inputs, kernel_h, kernel_w = shape
    remaining = (
        layout.pack_weights(weights, block_in=block_in, block_out=block_out).view(np.int8).copy()
    )
    for o, i, y, x in itertools.product(*map(range, shape)):
        tile = (
            (o // block_out) * layout.blocks_of(inputs, block_in) + i // block_in
        ) * kernel_h + y
        at = ((tile * kernel_w + x) * block_out + o % block_out) * block_in + i % block_in
        assert remaining[at] == weights[o, i, y, x]
        remaining[at] = 0
    assert not remaining.any()


@settings(max_examples=60, deadline=None)
@given(channels=st.integers(1, 20), block_in=BLOCKS, block_out=BLOCKS)
def test_depthwise_tiles_connect_each_channel_to_itself(channels, block_in, block_out):
    weights = random_int8((channels, 1, 2, 3))
    packed = layout.pack_depthwise_weights(weights, block_in=block_in, block_out=block_out)
    rows, columns = layout.blocks_of(channels, block_out), max(1, block_out // block_in)
    size = min(block_in, block_out)
    diagonals = packed.view(np.int8).reshape(rows, columns, 2, 3, size)
    tiles = np.zeros((rows, columns, 2, 3, block_out, block_in), dtype=np.int8)
    for row, column, lane in itertools.product(range(rows), range(columns), range(size)):
        # As a LOAD with `diagonal` places it; the phase goes on with the row of the LOAD.
        phase = (row * columns + column) % (max(block_in, block_out) // size)
        below, beside = (phase, 0) if block_out > block_in else (0, phase)
        at = (row, column, ..., below * size + lane, beside * size + lane)
        tiles[at] = diagonals[row, column, ..., lane]
    dense = np.zeros((rows * block_out, rows * block_out + block_in, 2, 3), dtype=np.int8)
    for row, column in itertools.product(range(rows), range(columns)):
        first_in = (row * block_out // block_in + column) * block_in
        out = slice(row * block_out, (row + 1) * block_out)
        inside = slice(first_in, first_in + block_in)
        dense[out, inside] = tiles[row, column].transpose(2, 3, 0, 1)
    expected = np.zeros_like(dense)
    for channel in range(channels):
        expected[channel, channel] = weights[channel, 0]
    assert np.array_equal(dense, expected)


def test_params_follow_the_isa_and_padded_channels_are_zero():
    workload = conv2d("w", 4, 3, 5, 3, 1, 1, residual=True)
    params = random_tensors(workload, np.random.default_rng(1)).requant
    packed = layout.pack_params(params, block_out=4)
    assert packed.size == 8 * 16
    for channel in range(8):
        word = int.from_bytes(packed[16 * channel : 16 * channel + 16].tobytes(), "little")
        assert word >> 80 == 0
        values = unpack_fields(PARAM_FIELDS, word)
        for name in ("bias", "m1", "m2", "shift", "zero_point"):
            expected = int(getattr(params, name)[channel]) if channel < 5 else 0
            assert values[name] == expected, (channel, name)


@settings(max_examples=60, deadline=None)
@given(
    kernel_w=st.integers(1, 4), stride_w=st.integers(1, 3), dilation_w=st.integers(1, 2),
    pad_left=st.integers(0, 3), pad_right=st.integers(0, 3), channels=st.integers(1, 4),
)  # fmt: skip
def test_folding_kernel_columns_keeps_the_convolution(
    *, kernel_w, stride_w, dilation_w, pad_left, pad_right, channels
):
    workload = replace(
        conv2d("w", 9, channels, 5, 3, 1, 2), kernel_w=kernel_w, stride_w=stride_w,
        dilation_w=dilation_w, pad_left=pad_left, pad_right=pad_right,
    )  # fmt: skip
    tensors = random_tensors(workload, np.random.default_rng(2))
    folded = replace(
        workload, width=workload.out_width, channels_in=kernel_w * channels, kernel_w=1,
        stride_w=1, dilation_w=1, pad_left=0, pad_right=0,
    )  # fmt: skip
    data = layout.fold_activations(
        tensors.data, kernel_w=kernel_w, stride_w=stride_w, dilation_w=dilation_w,
        pad_left=pad_left, out_width=workload.out_width,
    )  # fmt: skip
    got = accumulate(folded, data, layout.fold_weights(tensors.weights))
    assert np.array_equal(got, accumulate(workload, tensors.data, tensors.weights))


def test_refuses_malformed_tensors():
    with pytest.raises(WorkloadError, match="data: must be NCHW"):
        layout.pack_activations(random_int8((2, 3, 4)), batch=1, block=4)
    with pytest.raises(WorkloadError, match="channel_blocks: must be at least 2"):
        layout.pack_activations(random_int8((1, 5, 1, 1)), batch=1, block=4, channel_blocks=1)
    with pytest.raises(WorkloadError, match="weights: must be OIHW"):
        layout.pack_weights(random_int8((2, 3, 4)), block_in=4, block_out=4)
    with pytest.raises(WorkloadError, match=r"weights: must be \(C, 1, KH, KW"):
        layout.pack_depthwise_weights(random_int8((4, 2, 3, 3)), block_in=4, block_out=4)
    with pytest.raises(WorkloadError, match="packed: must hold at least 16 bytes"):
        layout.unpack_activations(np.zeros(15, np.uint8), (1, 3, 2, 2), batch=1, block=4)
