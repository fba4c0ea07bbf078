# SPDX-License-Identifier: Apache-2.0
"""Every selection is given the candidates that DCOC would choose from."""

from __future__ import annotations

import numpy as np
import pytest
from support.arena import made_up_table

from tilewright.tuner.arena.sampling import COUNT, compare_selections
from tilewright.tuner.search.confidence import Selection


@pytest.fixture(scope="module")
def rows():
    return list(compare_selections(made_up_table(), [0, 1]))


def test_each_seed_has_its_candidates_and_every_selection(rows):
    names = ["candidates", *map(str, Selection)]
    assert [(r["seed"], r["selection"]) for r in rows] == [(s, n) for s in (0, 1) for n in names]


def test_selections_take_a_few_of_the_candidates(rows):
    for seed in (0, 1):
        own = {r["selection"]: r["ratios"] for r in rows if r["seed"] == seed}
        candidates = own.pop("candidates")
        assert len(candidates) > 2 * COUNT
        for name, ratios in own.items():
            assert len(ratios) == COUNT
            foreign = set(ratios) - set(candidates)
            # Confidence sampling alone makes a point of its own: the mode of the kept ones.
            assert len(foreign) <= (name == Selection.CONFIDENCE)
            assert np.all(np.diff(ratios) >= 0)


def test_equal_seeds_give_equal_rows(rows):
    assert list(compare_selections(made_up_table(), [0])) == rows[: len(rows) // 2]
