# SPDX-License-Identifier: Apache-2.0
"""Axes: ticks at round values inside of the axis, labels that differ, places in order."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tilewright.tuner.report.drawing.scales import Axis, compact, spanning

ENDS = st.tuples(st.floats(1e-3, 1e9, allow_nan=False), st.floats(1.001, 1e6, allow_nan=False)).map(
    lambda pair: (pair[0], pair[0] * pair[1])
)


@given(ENDS, st.booleans(), st.integers(2, 10))
@example((631687.0, 400000632262.0), False, 2)
def test_ticks_lie_inside_and_their_labels_differ(ends, log, count) -> None:
    axis = Axis(title="t", low=ends[0], high=ends[1], log=log)
    labels = axis.labels(count)
    assert 2 - log <= len(labels) <= 3 * count
    assert all(axis.low - 1e-6 * axis.high <= tick <= axis.high * (1 + 1e-6) for tick, _ in labels)
    assert len({text for _, text in labels}) == len(labels)


@given(ENDS, st.booleans())
def test_an_axis_goes_from_end_to_end(ends, log) -> None:
    axis = Axis(title="t", low=ends[0], high=ends[1], log=log)
    assert axis.place(ends[0], 10, 90) == pytest.approx(10)
    assert axis.place(ends[1], 10, 90) == pytest.approx(90)


@pytest.mark.parametrize("values", [[], [3.0], [5.0, 5.0], [0.0, 0.0], [-2.0, 4.0]])
@pytest.mark.parametrize("log", [False, True])
def test_an_axis_holds_its_values(values, log) -> None:
    axis = spanning("t", values, log=log)
    assert axis.low < axis.high
    assert all(axis.low <= value <= axis.high for value in values if not log or value > 0)
    assert axis.labels(5)


def test_numbers_are_short_and_exact_enough() -> None:
    assert compact(7_662_811, 100_000) == "7.7M"
    assert compact(4_000_000, 50_000) == "4.00M"
    assert compact(200_000, 200_000) == "200k"
    assert compact(0.985, 0.005) == "0.985"
    assert compact(0, 5) == "0"
