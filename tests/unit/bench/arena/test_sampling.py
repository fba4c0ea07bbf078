# SPDX-License-Identifier: Apache-2.0
"""Every selection is given the candidates that DCOC would choose from."""

import numpy as np
import pytest
from support.arena import made_up_table

from tilewright.bench.arena.plots import SAMPLING_POINTS, sampling_course
from tilewright.bench.arena.replay import TableSpace, initial_points
from tilewright.bench.arena.sampling import (
    COUNT,
    TracedDcoc,
    compare_selections,
    trace_sampling,
)
from tilewright.tuner.search import Result
from tilewright.tuner.search.learning.confidence import Selection
from tilewright.tuner.search.learning.dcoc import DcocTuner


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


@pytest.fixture(scope="module")
def course():
    return list(trace_sampling(made_up_table(), 0, 64))


def test_a_run_shows_each_plan_before_and_after_the_sampling(course):
    trials = [row["trial"] for row in course]
    assert trials == sorted(trials)
    assert trials[0] == 16  # the first points are random
    assert trials[-1] <= 64 - 1
    for row in course:
        assert len(row["before"]) > 2 * COUNT
        assert 0 < len(row["after"]) <= COUNT
        assert len(set(row["after"]) - set(row["before"])) <= 1  # the mode of the kept ones
        assert min(row["before"]) >= 1.0


def test_what_is_traced_is_what_dcoc_measures():
    """Looking on changes nothing: equal seeds measure equal points."""
    table = made_up_table()
    space = TableSpace(table.task.space, table.legal)

    def measured(kind):
        tuner = kind(space, seed=3, initial=initial_points(space, table.task.id, 3))
        found = []
        for _ in range(5):
            batch = tuner.ask(COUNT)
            found += [c.index for c in batch]
            tuner.tell([Result(index=c.index, value=table.measure(c.index)) for c in batch])
        return found

    assert measured(TracedDcoc) == measured(DcocTuner)


def test_the_course_is_drawn_with_two_charts_per_task(course):
    other = [{**row, "task": "other", "layer": "O"} for row in course]
    charts = sampling_course([*course, *other])
    assert [title.partition(":")[0] for title, _ in charts] == ["T", "T", "O", "O"]
    before, after = charts[0][1].series
    assert list(before.y) == [len(row["before"]) for row in course]
    assert list(after.y) == [len(row["after"]) for row in course]
    cloud = charts[1][1].series[0]
    assert len(cloud.x) == sum(min(SAMPLING_POINTS, len(row["before"])) for row in course)
    assert max(cloud.y) == max(max(row["before"]) for row in course)
