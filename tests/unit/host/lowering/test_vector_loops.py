# SPDX-License-Identifier: Apache-2.0
"""Loop nests as instructions of two loops: every visit once, few instructions."""

from collections import Counter
from itertools import product

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.lowering.vector_loops import ITERATIONS_MAX, VectorLoop, passes

AXES = st.lists(
    st.builds(VectorLoop, st.integers(1, 4), st.integers(0, 9), st.integers(0, 9)), max_size=5
).map(tuple)


def visits(axes, acc, res):
    return Counter(
        (
            acc + sum(a.acc * i for a, i in zip(axes, at, strict=True)),
            res + sum(a.res * i for a, i in zip(axes, at, strict=True)),
        )
        for at in product(*(range(axis.trips) for axis in axes))
    )


@settings(deadline=None)
@given(AXES, st.integers(0, 50), st.integers(0, 50))
def test_the_passes_visit_what_the_nest_visits(axes, acc, res):
    found = passes(axes, acc, res)
    total = Counter()
    for part in found:
        total += visits((part.outer, part.inner), part.acc, part.res)
        last = max(a for a, _ in visits((part.outer, part.inner), part.acc, part.res))
        assert part.acc + part.acc_span == last + 1
    assert total == visits(axes, acc, res)


@settings(deadline=None)
@given(AXES)
def test_no_choice_of_two_axes_takes_fewer_instructions(axes):
    trips = sorted((axis.trips for axis in axes), reverse=True)
    unrolled = 1
    for count in trips[2:]:
        unrolled *= count
    assert len(passes(axes, 0, 0)) <= unrolled


def test_axes_that_continue_each_other_are_one_loop():
    columns, rows, planes = VectorLoop(5, 1, 2), VectorLoop(3, 5, 10), VectorLoop(2, 15, 30)
    (whole,) = passes((columns, rows, planes), 0, 0)
    assert (whole.inner, whole.outer.trips) == (VectorLoop(30, 1, 2), 1)
    gap = VectorLoop(3, 5, 11)
    assert {part.inner.trips for part in passes((columns, gap), 0, 0)} == {5}


def test_a_joined_loop_stays_within_the_counter():
    half = ITERATIONS_MAX // 2 + 1
    (whole,) = passes((VectorLoop(half, 1, 1), VectorLoop(2, half, half)), 0, 0)
    assert (whole.inner.trips, whole.outer.trips) == (half, 2)
