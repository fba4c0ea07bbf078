# SPDX-License-Identifier: Apache-2.0
"""Replay against a table: what is charged, what is seen, and when a run ends."""

import dataclasses

import numpy as np
import pytest
from support.search.arena_records import made_up_table

from tilewright.bench.arena.records import record_of
from tilewright.bench.arena.replay import (
    INITIAL,
    PAST_POINTS,
    TableSpace,
    Trial,
    experience_of,
    initial_points,
    noise_of,
    prior_of,
    replay,
)
from tilewright.bench.arena.tables import Table
from tilewright.host.common.errors import TilewrightError
from tilewright.tuner.search.space import SpaceError


@pytest.fixture(scope="module")
def table():
    return made_up_table()


def trial(table, tuner="genetic", **more):
    return Trial(task=table.task.id, tuner=tuner, **{"seed": 3, "budget": 48, **more})


def outcome(run):
    """A run without its times."""
    return [(e.trial, e.cycles, e.flat, e.measured_cycles, e.invalid) for e in run.events]


def test_equal_seeds_give_equal_runs_and_other_seeds_do_not(table):
    one, again = replay(table, trial(table)), replay(table, trial(table))
    assert outcome(one) == outcome(again)
    assert outcome(one) != outcome(replay(table, trial(table, seed=4)))


def test_masked_runs_never_pay_for_an_illegal_point_and_published_ones_do(table):
    assert replay(table, trial(table, budget=64)).events[-1].invalid == 0
    published = replay(table, trial(table, "random", arm="as-published", budget=200))
    share = published.events[-1].invalid / published.trials
    assert 0.4 < share < 0.8  # of the points 60 % are illegal


def test_the_state_at_a_budget_is_that_of_a_run_that_ends_there(table):
    whole = record_of(replay(table, trial(table, budget=64)), table, "x")
    for budget in (16, 32):
        part = record_of(replay(table, trial(table, budget=budget)), table, "x")
        state = whole["states"][str(budget)]
        for name in ("cycles", "trials", "measured_cycles"):
            assert state[name] == part[name]


def test_experience_is_the_same_random_points_of_another_task_for_everybody(table):
    one, again = experience_of(table, 3), experience_of(table, 3)
    assert (one.features == again.features).all()
    assert (one.costs == again.costs).all()
    assert len(one.costs) <= PAST_POINTS
    assert np.isin(one.costs, table.cycles[table.legal]).all()
    assert len(experience_of(table, 4).costs) > 1
    pytest.importorskip("xgboost")
    plain = replay(table, trial(table, "autotvm", budget=24))
    told = replay(table, trial(table, "autotvm", budget=24, past=("other",)), [table])
    assert outcome(told) != outcome(plain)


def test_a_run_ends_at_the_exact_optimum_unless_measurements_are_noisy():
    table = made_up_table("schedule", legal=0.05)
    points = int(table.legal.sum())
    run = replay(table, trial(table, "random", budget=10 * points))
    assert run.events[-1].cycles == table.optimum
    assert run.trials == run.events[-1].trial <= points
    assert replay(table, trial(table, "random", noise=0.01, budget=10 * points)).trials == points


def test_noise_is_the_points_own_and_has_the_stated_size(table):
    noisy = trial(table, noise=0.03)
    factors = np.log([noise_of(noisy, flat) for flat in range(2000)])
    assert factors.std() == pytest.approx(0.03, rel=0.1)
    assert noise_of(noisy, 5) == noise_of(dataclasses.replace(noisy, tuner="random"), 5)
    assert noise_of(noisy, 5) != noise_of(dataclasses.replace(noisy, seed=4), 5)
    assert noise_of(trial(table), 5) == 1.0


def test_a_table_space_is_the_inner_space_with_the_tables_legality(table):
    space = TableSpace(table.task.space, table.legal)
    indices = list(space.enumerate())
    assert len(indices) == int(table.legal.sum())
    assert all(space.valid(i) and not space.refusal(i) for i in indices[:50])
    assert space.encode(space.decode(indices[7])) == indices[7]
    assert space.refusal(tuple(int(i) for i in np.argwhere(~table.legal)[0]))


def test_initial_points_are_distinct_and_valid(table):
    points = initial_points(TableSpace(table.task.space, table.legal), table.task.id, 1)
    assert len(set(points)) == INITIAL
    assert all(table.legal[p] for p in points)


def test_a_random_search_takes_as_long_as_the_exact_median_says():
    table = made_up_table("schedule", legal=0.3, seed=2)
    space = TableSpace(table.task.space, table.legal)
    good = {i for i in space.enumerate() if table.cycles[i] <= 3 * table.optimum}
    everything = list(space.enumerate())
    rng = np.random.default_rng(0)
    needed = []
    for _ in range(2000):
        order = rng.permutation(len(everything))
        needed.append(1 + next(n for n, i in enumerate(order) if everything[i] in good))
    assert table.random_median(3) == pytest.approx(np.median(needed), rel=0.15)


def test_median_of_one_good_point_is_the_middle(table):
    assert table.within(1.0) == 1
    assert table.random_median(1.0) == -(-int(table.legal.sum()) // 2)


def test_a_table_without_a_legal_point_is_refused(table):
    with pytest.raises(SpaceError, match="no legal point"):
        Table(task=table.task, cycles=np.full_like(table.cycles, -1))


def test_record_counts_trials_to_targets_and_regret_by_hand(table):
    run = replay(table, trial(table, budget=64))
    record = record_of(run, table, "label")
    hits = [e.trial for e in run.events if e.cycles <= 1.05 * table.optimum]
    assert record["trials_to_5pct"] == (hits[0] if hits else None)
    at_32 = [e.cycles for e in run.events if e.trial <= 32][-1]
    assert np.exp(record["regret"]["32"]) == pytest.approx(at_32 / table.optimum)
    assert list(record["regret"]) == ["16", "32", "64"]
    assert record["tuner"] == "label"
    assert not record["grey"]


def test_a_run_without_a_legal_measurement_counts_as_the_worst_point():
    table = made_up_table("schedule", legal=0.0)
    run = replay(table, trial(table, "random", arm="as-published", budget=16))
    record = record_of(run, table, "random")
    assert run.events == ()
    assert record["invalid"] == record["trials"] == 16
    assert np.exp(record["regret"]["16"]) == pytest.approx(table.cycles.max() / table.optimum)


@pytest.mark.parametrize("track", ["per-layer", "schedule"])
def test_the_prior_predicts_points_of_the_track(track):
    table = made_up_table(track)
    prior = prior_of(table.task)
    space = table.task.space
    index = space.sample(np.random.default_rng(0))
    assert index is not None
    assert prior(space.decode(index)) > 0


def test_an_unknown_tuner_is_refused(table):
    with pytest.raises(TilewrightError, match="no tuner"):
        replay(table, trial(table, "nobody"))
