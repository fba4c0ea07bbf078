# SPDX-License-Identifier: Apache-2.0
"""The integer reference against torch's float64 convolution and max pooling."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.host.common.errors import WorkloadError
from tilewright.host.network.golden import accumulate, conv2d_int8, random_tensors
from tilewright.host.network.requant import requantise
from tilewright.host.network.workload import Kind, Workload, conv2d, maxpool


@st.composite
def workloads(draw):
    small = st.integers(1, 3)
    computed = [kind for kind in Kind if kind.alone and not kind.multiplies]
    kind = draw(st.sampled_from(computed))
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
    assert np.array_equal(output, requantise(expected, tensors.requant, tensors.residual))


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
