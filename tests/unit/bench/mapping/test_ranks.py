# SPDX-License-Identifier: Apache-2.0
"""An order that says nothing has no correlation, which a document can hold."""

from __future__ import annotations

import pytest

from tilewright.bench.mapping.ranks import rank_correlation


@pytest.mark.parametrize("sides", [([1, 2], [1, 2]), ([5, 5, 5], [1, 2, 3]), ([], [])])
def test_too_few_pairs_and_a_constant_side_have_none(sides) -> None:
    assert rank_correlation(*sides) is None


def test_it_is_spearmans() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 90]) == 1
    assert rank_correlation([1, 2, 3, 3], [9, 7, 3, 1]) == pytest.approx(-0.9487)
