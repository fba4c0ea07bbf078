# SPDX-License-Identifier: Apache-2.0
"""AutoTVM: plans of a learned model, annealing, epsilon-greedy, transfer."""

import subprocess
import sys

import numpy as np
import pytest

from tilewright.testing.analytic import BASE, RULES, TASKS, cycles_of
from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search import Result, TunerError, make_tuner
from tilewright.tuner.search.experience import Experience
from tilewright.tuner.search.model_based.autotvm import SimulatedAnnealing
from tilewright.tuner.search.model_based.planned_search import RANDOM_SHARE, Leaders, RandomShare

pytest.importorskip("xgboost")

REPLAY = """
import sys
sys.path.insert(0, sys.argv[1])
from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.search import make_tuner
print(drive(make_tuner("autotvm", full_space(), seed=5, plan=8), schedule_cost, batches=[8] * 5))
"""


def test_equal_seeds_plan_the_same_in_another_process(request):
    tests = str(request.config.rootpath / "tests")
    done = subprocess.run(
        [sys.executable, "-c", REPLAY, tests], capture_output=True, text=True, check=True
    )
    tuner = make_tuner("autotvm", full_space(), seed=5, plan=8)
    assert done.stdout.strip() == str(drive(tuner, schedule_cost, batches=[8] * 5))


def test_beats_random_search_once_it_plans():
    def best(name: str, seed: int, **options) -> float:
        tuner = make_tuner(name, full_space(), seed=seed, **options)
        drive(tuner, schedule_cost, batches=[8] * 10)
        return tuner.best.value

    wins = [best("autotvm", s, plan=16) < best("random", s) for s in range(5)]
    assert np.mean(wins) >= 0.8


def test_draws_at_random_until_a_plan_is_measured_and_in_the_last_part_of_each():
    def proposals(name: str, **options):
        return drive(make_tuner(name, full_space(), seed=3, **options), schedule_cost, batches=[40])

    # Larger plans hold larger random tails: 5 % of 40 is 2.
    tuner = make_tuner("autotvm", full_space(), seed=3, plan=40)
    first = [v for _, v in drive(tuner, schedule_cost, batches=[40])]
    second = [v for _, v in drive(tuner, schedule_cost, batches=[40])]
    assert np.median(second[:38]) < min(np.median(first), np.median(second[38:]))
    assert proposals("autotvm", plan=40) == proposals("autotvm", plan=400)


def noted(propose, tuner, own):
    """A proposal that is also written down; None leaves the point to chance."""

    def again():
        own.append(propose(tuner))
        return own[-1]

    return again


@pytest.mark.parametrize(("plan", "tails"), [(16, [0, 1, 1, 1, 1, 0]), (64, [3, 3, 3, 3, 4, 3])])
def test_a_twentieth_of_all_plans_is_random_however_small_a_plan_is(plan, tails, monkeypatch):
    share = RandomShare(RANDOM_SHARE)
    assert [share.of(plan) for _ in tails] == tails
    tuner = make_tuner("autotvm", full_space(), seed=3, plan=plan)
    drive(tuner, schedule_cost, batches=[plan])
    found = []
    for _ in tails[:3]:
        own = []
        monkeypatch.setattr(tuner, "_propose", noted(type(tuner)._propose, tuner, own))
        drive(tuner, schedule_cost, batches=[plan])
        found.append(own.count(None))
    assert found == tails[:3]


def test_experience_of_another_layer_makes_the_first_measurements_better():
    def experience(seed: int) -> Experience:
        space = ScheduleSpace(TASKS[2], BASE, RULES, "full")
        tuner = make_tuner("random", space, seed=seed)
        log = drive(tuner, lambda s: float(cycles_of(BASE, TASKS[2], s)), batches=[60])
        return Experience.of("C", space, [Result(index=i, value=v) for i, v in log])

    def first_median(seed: int, past) -> float:
        tuner = make_tuner("autotvm", full_space(), seed=seed, plan=16, experience=past)
        return float(np.median([v for _, v in drive(tuner, schedule_cost, batches=[15])]))

    wins = [first_median(s, [experience(s)]) < first_median(s, []) for s in range(6)]
    assert np.mean(wins) >= 5 / 6


def test_refuses_an_empty_plan():
    with pytest.raises(TunerError, match="at least 1"):
        make_tuner("autotvm", full_space(), seed=0, plan=0)


def test_annealing_climbs_and_stands_on_valid_points_alone():
    space = full_space()
    offered = []

    class Recorder(Leaders):
        def offer(self, points, scores):
            offered.append((list(points), scores))
            return super().offer(points, scores)

    def score(points):
        return np.array([-abs(p[1] - 5) - abs(p[2] - 9) for p in points], dtype=np.float32)

    leaders = Recorder(8, lambda _: True)
    SimulatedAnnealing(space, np.random.default_rng(0)).maximise(score, leaders)
    assert all(space.valid(p) for points, _ in offered for p in points)
    assert score(leaders.ranked()).tolist() == [0.0] * 8
    assert score(offered[0][0]).mean() < -4


def test_leaders_are_the_best_wanted_points_without_repetition():
    leaders = Leaders(2, lambda p: p != (9,))
    scores = np.array([1.0, 5.0, 3.0, 9.0], dtype=np.float32)
    assert leaders.offer([(1,), (5,), (3,), (9,)], scores)
    assert leaders.ranked() == [(5,), (3,)]
    assert not leaders.offer([(5,), (2,)], np.array([5.0, 2.0], dtype=np.float32))
    assert leaders.offer([(4,)], np.array([4.0], dtype=np.float32))
    assert leaders.ranked() == [(5,), (4,)]
