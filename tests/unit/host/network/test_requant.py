# SPDX-License-Identifier: Apache-2.0
"""Requantisation against exact rational arithmetic."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.common.errors import WorkloadError
from tilewright.host.network.requant import (
    MULTIPLIER_MAX,
    RequantParams,
    clip_bounds,
    requantise,
    snap_scales,
)
from tilewright.host.network.workload import conv2d

INT16 = st.integers(-(2**15), 2**15 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)
INT8 = st.integers(-128, 127)


def one_channel(**changes: int) -> RequantParams:
    values = {"bias": 0, "m1": 1, "m2": 0, "shift": 0, "zero_point": 0, **changes}
    clip = {name: values.pop(name) for name in ("clip_min", "clip_max") if name in values}
    return RequantParams(**{name: np.array([v]) for name, v in values.items()}, **clip)


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
    got = requantise(
        np.full((1, 1, 1, 1), acc, dtype=np.int32),
        params,
        np.full((1, 1, 1, 1), residual, dtype=np.int8),
    )
    assert got.dtype == np.int8
    assert int(got[0, 0, 0, 0]) == expected


@given(numerator=st.integers(-200, 200), shift=st.integers(1, 3))
def test_ties_round_to_even(numerator, shift):
    params = one_channel(m1=1, shift=shift)
    got = requantise(np.full((1, 1, 1, 1), numerator, dtype=np.int32), params)
    assert int(got[0, 0, 0, 0]) == round(Fraction(numerator, 2**shift))


def test_parameters_apply_to_their_own_channel():
    params = RequantParams(
        bias=np.array([0, 10]),
        m1=np.array([1, 2]),
        m2=np.array([0, 0]),
        shift=np.array([0, 1]),
        zero_point=np.array([5, 0]),
    )
    acc = np.array([[[[1, 2]], [[3, 4]]]], dtype=np.int32)
    assert requantise(acc, params).tolist() == [[[[6, 7]], [[13, 14]]]]


@given(scale=st.floats(0.0, MULTIPLIER_MAX, allow_subnormal=True))
def test_snapped_scale_is_the_nearest_of_its_shift(scale):
    m, _, shift = snap_scales(scale, 0.0)
    assert 0 <= m <= MULTIPLIER_MAX
    assert 0 <= shift <= 47
    assert abs(Fraction(m, 2**shift) - Fraction(scale)) <= Fraction(1, 2 ** (shift + 1))
    if m < 2**14 and m:
        # Fewer than 15 bits only where the range of shifts ends.
        assert shift in {0, 47} or round(Fraction(scale) * 2 ** (shift + 1)) > MULTIPLIER_MAX


@given(first=st.floats(1e-9, 1000.0), second=st.floats(1e-9, 1000.0))
def test_joint_snapping_keeps_both_scales_as_precise_as_one_shift_allows(first, second):
    m1, m2, shift = snap_scales(first, second)
    assert max(m1, m2) >= 2**14 or shift == 47
    for m, scale, places in ((m1, first, shift), (m2, second, shift - 8)):
        half_a_step = Fraction(1, 2) / Fraction(2) ** places
        assert abs(m / Fraction(2) ** places - Fraction(scale)) <= half_a_step


def test_a_residual_leaves_the_accumulator_enough_bits():
    """A typical residual block: 12 bits where a plain common shift would leave 4."""
    m1, m2, _ = snap_scales(0.001, 0.9)
    assert m1 >= 2**11
    assert m2 >= 2**13


@pytest.mark.parametrize("scale", [-1.0, float("nan"), float("inf"), 32767.6, 1e30])
def test_refuses_a_scale_without_a_multiplier(scale):
    with pytest.raises(WorkloadError, match="scale: must be a finite number"):
        snap_scales(scale, 0.0)


@pytest.mark.parametrize(
    ("field", "value"),
    [("bias", 2**31), ("m1", 2**15), ("m2", -(2**15) - 1), ("shift", 48), ("zero_point", 128)],
)
def test_refuses_a_parameter_that_does_not_fit(field, value):
    with pytest.raises(WorkloadError, match=f"{field}: must be from"):
        one_channel(**{field: value})


def test_refuses_parameters_of_different_length():
    with pytest.raises(WorkloadError, match="m1: must be a one-dimensional array"):
        RequantParams(
            bias=np.zeros(2, int), m1=np.zeros(3, int), m2=np.zeros(2, int),
            shift=np.zeros(2, int), zero_point=np.zeros(2, int),
        )  # fmt: skip


def test_refuses_reversed_clip_bounds():
    with pytest.raises(WorkloadError, match="clip bounds"):
        one_channel(clip_min=3, clip_max=2)


def test_refuses_shapes_that_do_not_match():
    with pytest.raises(WorkloadError, match="acc: must be NCHW with 1 channels"):
        requantise(np.zeros((1, 2, 1, 1), dtype=np.int32), one_channel())
    with pytest.raises(WorkloadError, match="residual: must have the accumulator's shape"):
        requantise(
            np.zeros((1, 1, 2, 2), dtype=np.int32), one_channel(), np.zeros((1, 1, 2, 1), np.int8)
        )


def test_relu_raises_the_lower_bound():
    assert clip_bounds(conv2d("a", 4, 4, 4, 1, 0, 1, relu=True)) == (0, 127)
    assert clip_bounds(conv2d("a", 4, 4, 4, 1, 0, 1, relu=False)) == (-128, 127)
