# SPDX-License-Identifier: Apache-2.0
"""The rows that a pool streams, against enumeration."""

from collections import Counter

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.host.lowering.pooling_rows import streamed_rows


@settings(max_examples=300, deadline=None)
@given(
    height=st.integers(1, 12), kernel=st.integers(1, 6), stride=st.integers(1, 5),
    pad=st.integers(0, 9), below=st.integers(0, 9), data=st.data(),
)  # fmt: skip
def test_every_output_row_gathers_each_row_that_it_sees_once_and_starts_fresh(
    height, kernel, stride, pad, below, data
):
    assume(height + pad + below >= kernel)
    outs = (height + pad + below - kernel) // stride + 1
    first = data.draw(st.integers(0, outs - 1))
    count = data.draw(st.integers(1, outs - first))
    most = data.draw(st.integers(1, 12))
    pieces = streamed_rows(
        first, count, height=height, stride=stride, pad=pad, kernel=kernel, most=most
    )
    loaded, gathered, fresh = Counter(), Counter(), Counter()
    for piece in pieces:
        rows = range(piece.span.source, piece.span.source + piece.span.size)
        assert len(rows) <= min(kernel, stride, most)
        assert all(0 <= row < height for row in rows)
        loaded.update(rows)
        for use in piece.uses:
            assert use.outs == 1
            assert use.row + use.taps <= len(rows)
            assert use.fresh == (use.out not in fresh)
            fresh[use.out] += 1
            seen = rows[use.row : use.row + use.taps]
            assert all(0 <= row - (first + use.out) * stride + pad < kernel for row in seen)
            gathered.update((use.out, row) for row in seen)
    expected = {
        (out, row)
        for out in range(count)
        for row in range(height)
        if 0 <= row - (first + out) * stride + pad < kernel
    }
    assert gathered == Counter(expected)
    assert loaded == Counter({row for _, row in expected})
    assert set(fresh) == set(range(count))


def test_a_tile_that_sees_padding_alone_loads_nothing():
    (piece,) = streamed_rows(0, 2, height=3, stride=1, pad=5, kernel=2, most=3)
    assert not piece.loads
    assert [(use.out, use.taps, use.fresh) for use in piece.uses] == [(0, 0, True), (1, 0, True)]
