# SPDX-License-Identifier: Apache-2.0
"""Allocators, and the oracle that no division of time beats."""

import itertools

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.bench.allocate.case import Oracle
from tilewright.testing.allocator_contract import arms_of, curves, drive, make, read
from tilewright.testing.analytic import BASE, RULES, TASKS, bound, cycles_of, default_schedule
from tilewright.tuner.allocate import (
    ALLOCATORS,
    Allocator,
    Arm,
    Course,
    SearchPull,
    Slot,
    can_win,
    make_allocator,
    run_slots,
    spend,
)
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search import TUNERS, TunerError, make_tuner
from tilewright.tuner.study.task_search import task_arm


def analytic_arms() -> list[Arm]:
    return [
        task_arm(
            task,
            start=float(cycles_of(BASE, task, default_schedule(BASE, task))),
            bound=float(bound(BASE, task, None).cycles),
        )
        for task in TASKS
    ]


def analytic_pull(tuner: str, *, batch: int = 1, seen: list | None = None) -> SearchPull:
    tuners = [
        make_tuner(tuner, ScheduleSpace(task, BASE, RULES, "full"), seed=(3, number))
        for number, task in enumerate(TASKS)
    ]

    def measure(arm, points):
        if seen is not None:
            seen.append((arm, len(points)))
        return [(float(cycles_of(BASE, TASKS[arm], point)), 1.0) for point in points]

    return SearchPull(tuners, measure, batch=batch)


@pytest.mark.parametrize("tuner", ["random", "coordinate", "genetic"])
@pytest.mark.parametrize("name", ["round-robin", "ansor", "dynatune"])
def test_any_allocator_works_over_any_search_tuner(name, tuner):
    assert tuner in TUNERS
    arms = analytic_arms()
    course = run_slots(
        make_allocator(name, arms, seed=0, slot=8.0), analytic_pull(tuner), budget=96.0
    )
    start = sum(arm.count * arm.start for arm in arms)
    assert course.times[-1] == 96
    assert len(course.choices) == 12
    assert (np.diff(course.costs) <= 0).all()
    assert course.costs[-1] < 0.9 * start
    assert (np.diff(course.overheads) >= 0).all()


def test_a_course_tells_when_a_cost_was_reached():
    course = Course(
        times=np.array([1.0, 2.5, 3.0]),
        costs=np.array([np.inf, 50.0, 40.0]),
        overheads=np.array([0.1, 0.1, 0.4]),
        choices=(0, 1),
    )
    assert course.time_to(50.0) == 2.5
    assert course.time_to(45.0) == 3.0
    assert course.time_to(45.0, overhead=2.0) == pytest.approx(3.8)
    assert course.time_to(39.0) == float("inf")
    assert [course.cost_at(when) for when in (0.5, 1.0, 2.6, 9.0)] == [np.inf, np.inf, 50.0, 40.0]


def test_costs_of_a_course_are_those_of_a_recount():
    found, arms = curves(11), arms_of(curves(11))
    positions = [0] * len(found)
    allocator = make("random", found)
    course = run_slots(allocator, lambda k, length: read(found, positions, k, length), budget=200.0)
    again = [0] * len(found)
    bests = [arm.start for arm in arms]
    expected = []
    for arm in course.choices:
        for value in read(found, again, arm, 8.0).values:
            bests[arm] = min(bests[arm], value)
            expected.append(sum(a.count * b for a, b in zip(arms, bests, strict=True)))
    assert course.costs == pytest.approx(expected)


def test_a_run_ends_when_it_is_told_to_and_goes_on_from_there():
    found = curves(12)
    goal = 0.5 * (float(make("round-robin", found).network) + 15_000)
    positions = [0] * len(found)

    def pull(arm: int, length: float) -> Slot:
        return read(found, positions, arm, length)

    allocator = make("round-robin", found)
    first = run_slots(allocator, pull, budget=4000.0, until=lambda cost: cost <= goal)
    assert first.times[-1] < 4000
    assert first.costs[-1] <= goal < first.costs[first.times < first.times[-1] - 9][-1]
    assert run_slots(allocator, pull, budget=50.0).costs[0] <= first.costs[-1]
    with pytest.raises(TunerError, match="budget"):
        run_slots(allocator, pull, budget=0.0)


def test_measurements_of_a_rung_are_spent_to_the_last_and_the_next_rung_goes_on():
    found = [(np.ones(40), np.linspace(900, 100, 40))] * 2
    arms = [Arm(name="a", start=1000.0), Arm(name="b", start=1000.0)]

    def run(rungs: list[int]) -> tuple[list[int], list[int]]:
        positions = [0, 0]
        allocator = make_allocator("round-robin", arms, seed=0, slot=8.0)
        spent = [spend(allocator, lambda k, n: read(found, positions, k, n), r) for r in rungs]
        return spent, positions

    assert run([20, 13]) == ([20, 13], [17, 16])
    assert run([100, 5]) == ([80, 0], [40, 40])


def test_a_slot_must_not_make_more_trials_than_it_was_given():
    allocator = make_allocator("random", [Arm(name="a", start=1000.0)], seed=0, slot=8.0)
    with pytest.raises(TunerError, match="5 trials"):
        spend(allocator, lambda k, n: Slot(prices=(1.0,) * 6, values=(9.0,) * 6), 5)


def test_a_configuration_races_on_while_its_bounds_can_beat_the_incumbent():
    arms = [Arm(name="a", bound=100.0, count=3), Arm(name="b", bound=50.0)]
    allocator = make_allocator("round-robin", arms, seed=0, slot=8.0)
    assert can_win(allocator, None)
    assert can_win(allocator, 351.0)
    assert not can_win(allocator, 350.0)


def test_sequential_finishes_a_task_before_the_next():
    found = curves(1)
    allocator = make_allocator("sequential", arms_of(found), seed=0, slot=8.0, trials=30)
    chosen = drive(allocator, found, slots=40)
    assert list(dict.fromkeys(chosen)) == [0, 1, 2, 3, 4]
    first_round = chosen[: sum(t.trials >= 30 for t in allocator.tracks) and chosen.index(4) + 1]
    assert first_round == sorted(first_round)
    assert all(track.trials >= 30 for track in allocator.tracks)


def test_gain_epsilon_greedy_follows_the_gain_and_epsilon_decides_how_often():
    found = [(np.ones(400), np.full(400, 900.0)), (np.ones(400), np.linspace(800, 1, 400))]
    arms = [Arm(name="flat", start=900.0), Arm(name="falling", start=900.0)]

    def share(epsilon: float) -> float:
        allocator = make_allocator("gain-epsilon-greedy", arms, seed=0, slot=4.0, epsilon=epsilon)
        return float(np.mean(drive(allocator, found, slots=80)))

    assert share(0.0) == 79 / 80
    assert 0.3 < share(1.0) < 0.7


def test_the_gradient_of_ansor_is_that_of_its_paper():
    arms = [
        Arm(name="a", count=2, start=1000.0, work=4000.0, group="conv"),
        Arm(name="b", count=1, start=1000.0, work=8000.0, group="conv"),
    ]
    allocator = make_allocator("ansor", arms, seed=0, slot=1.0, epsilon=0.0)
    for arm, value in ((0, 800.0), (1, 400.0), (None, 700.0), (None, 650.0)):
        chosen = allocator.choose()
        if arm is not None:
            assert chosen == arm
        allocator.tell(chosen, Slot(prices=(1.0,), values=(value if chosen == 0 else 400.0,)))
    a, b = allocator.tracks
    # a: 3 slots, 1000 -> 650; similar b does 8000 / 400 = 20 operations a cycle.
    assert (a.slots, a.best, b.slots, b.best) == (3, 650.0, 1, 400.0)
    hoped = min(-650 / 3, 2 * 4000 / 20 - 650)
    assert allocator._gradient(0) == pytest.approx(0.2 * 2 * (650 - 1000) / 3 + 0.8 * 2 * hoped)
    hoped = min(-400 / 1, 2 * 8000 / (4000 / 650) - 400)
    assert allocator._gradient(1) == pytest.approx(0.2 * (400 - 1000) / 1 + 0.8 * hoped)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("sequential", {"trials": 0}),
        ("dynamic-random", {"patience": 0}),
        ("epsilon-greedy", {"epsilon": 1.5}),
        ("softmax", {"temperature": 0.0}),
        ("ansor", {"alpha": 2.0}),
        ("ansor", {"window": 0}),
        ("sequential", {"patience": 0}),
        ("gain-epsilon-greedy", {"epsilon": -0.1}),
        ("gain-softmax", {"temperature": 0.0}),
        ("dynatune", {"prior": "none"}),
        ("dynatune", {"patience": 0}),
        ("dynatune", {"reward": "joy"}),
        ("dynatune", {"peak": "seem"}),
        ("dynatune", {"exploration": -1.0}),
    ],
)
def test_options_out_of_range_are_refused(name, options):
    with pytest.raises(TunerError, match=next(iter(options))):
        make_allocator(name, arms_of(curves(0)), seed=0, slot=1.0, **options)


@pytest.mark.parametrize(
    "slot",
    [
        {"prices": (1.0,), "values": ()},
        {"prices": (0.0,), "values": (1.0,)},
        {"prices": (1.0,), "values": (float("nan"),)},
        {"prices": (), "values": ()},
    ],
)
def test_a_slot_that_makes_no_sense_is_refused(slot):
    with pytest.raises(TunerError):
        Slot(**slot)


class Astray(Allocator):
    chosen: object = None

    def _choose(self, available):
        return self.chosen


@pytest.mark.parametrize("chosen", [None, 99, -1, "0"])
def test_an_arm_that_is_not_available_is_never_chosen(chosen):
    allocator = Astray(analytic_arms(), seed=0, slot=1)
    allocator.chosen = chosen
    with pytest.raises(TunerError, match="must choose one of the available arms"):
        spend(allocator, analytic_pull("random"), 50)


def test_an_arm_with_a_cost_that_is_not_positive_is_refused():
    with pytest.raises(TunerError, match=r"a\.start"):
        Arm(name="a", start=0.0)


# -- The oracle over recorded searches is the exact optimum of every division of time
def searches(rng: np.random.Generator, arms: int, trials: int) -> tuple[list, list]:
    """Starts and curves with plateaus, falls of every size, and equal prices now and then."""
    starts, found = [], []
    for _ in range(arms):
        length = int(rng.integers(0, trials + 1))
        start = float(rng.integers(50, 400))
        falls = rng.integers(0, 60, length) * (rng.random(length) < 0.6)
        prices = np.cumsum(np.where(rng.random(length) < 0.5, 1.0, rng.random(length) + 0.01))
        starts.append(start)
        found.append((prices, np.maximum(1.0, start - np.cumsum(falls))))
    return starts, found


def every_division(starts, found):
    """Price and cost of every choice of a length of each search."""
    options = [
        [(0.0, start), *zip(prices.tolist(), costs.tolist(), strict=True)]
        for start, (prices, costs) in zip(starts, found, strict=True)
    ]
    for choice in itertools.product(*options):
        yield sum(price for price, _ in choice), sum(cost for _, cost in choice)


@pytest.mark.parametrize("repeat", range(25))
def test_it_agrees_with_trying_every_division(repeat):
    del repeat
    rng = fresh_rng()
    starts, found = searches(rng, int(rng.integers(1, 5)), 7)
    prices, costs = np.array(list(every_division(starts, found))).T
    oracle = Oracle(starts, found)
    assert oracle.least == costs.min()
    for budget in (0.0, *rng.uniform(0, prices.max() + 1, 6), *rng.choice(prices, 3)):
        best = oracle.best(float(budget))
        assert best.cost == costs[prices <= budget * (1 + 1e-9)].min()
        assert best.price <= budget * (1 + 1e-9)
        assert chosen(starts, found, best.trials) == (pytest.approx(best.price), best.cost)
    for goal in (*rng.uniform(costs.min(), costs.max() + 1, 6), *rng.choice(costs, 3)):
        first = oracle.cheapest(float(goal))
        assert first.price == pytest.approx(prices[costs <= goal].min())
        assert first.cost <= goal
        assert chosen(starts, found, first.trials) == (pytest.approx(first.price), first.cost)
    assert oracle.cheapest(costs.min() - 1) is None


def chosen(starts, found, trials):
    """Price and cost of a division by trials."""
    parts = [
        (found[k][0][n - 1], found[k][1][n - 1]) if n else (0.0, starts[k])
        for k, n in enumerate(trials)
    ]
    return sum(price for price, _ in parts), sum(cost for _, cost in parts)


def test_it_beats_the_steepest_chord_where_that_is_no_optimum():
    """What the heuristic before it lost: the steepest fall is not part of the best division."""
    found = [
        (np.array([3.0]), np.array([60.0])),  # 40 for 3: the steepest
        (np.array([2.0]), np.array([75.0])),  # 25 for 2
        (np.array([2.0]), np.array([75.0])),
    ]
    oracle = Oracle([100.0] * 3, found)
    assert oracle.best(4.0).cost == 250.0
    assert oracle.best(4.0).trials == (0, 1, 1)


@pytest.mark.parametrize("name", list(ALLOCATORS))
def test_no_allocator_is_ever_below_it(name):
    recorded = curves(13)
    arms = arms_of(recorded)
    positions = [0] * len(recorded)
    allocator = make(name, recorded)
    course = run_slots(
        allocator, lambda k, length: read(recorded, positions, k, length), budget=300.0
    )
    oracle = Oracle(
        [arm.count * arm.start for arm in arms],
        [
            (np.cumsum(prices), arm.count * np.minimum(arm.start, np.minimum.accumulate(values)))
            for arm, (prices, values) in zip(arms, recorded, strict=True)
        ],
    )
    for n in range(0, len(course.times), 40):
        assert oracle.best(course.times[n]).cost <= course.costs[n] * (1 + 1e-9)
        assert oracle.cheapest(course.costs[n]).price <= course.times[n] * (1 + 1e-9)


def test_what_makes_no_sense_is_refused():
    with pytest.raises(TunerError, match="starts"):
        Oracle([1.0], [])
    with pytest.raises(TunerError, match="curves"):
        Oracle([1.0], [(np.ones(2), np.ones(3))])
    with pytest.raises(TunerError, match="budget"):
        Oracle([1.0], [(np.ones(1), np.ones(1))]).best(-1.0)
