# SPDX-License-Identifier: Apache-2.0
"""Adapters: a library sees the cost of the repaired point, and what was not its idea."""

import numpy as np

from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.search.black_box import REPEATS, BlackBoxTuner, repair
from tilewright.tuner.search.space import Index


class Script(BlackBoxTuner[object, int]):
    """A library that asks for a list of points, then for the last one for ever."""

    def __init__(self, space, asks, **options) -> None:
        super().__init__(space, seed=0, **options)
        self.asks, self.asked_for = list(asks), 0
        self.told: list[tuple[int, float | None]] = []
        self.added: list[tuple[Index, float | None]] = []

    def _library_ask(self) -> tuple[int, Index]:
        number, self.asked_for = self.asked_for, self.asked_for + 1
        return number, self.asks[min(number, len(self.asks) - 1)]

    def _library_tell(self, token: int, value: float | None) -> None:
        self.told.append((token, value))

    def _library_add(self, index: Index, value: float | None) -> None:
        self.added.append((index, value))


def samples(count: int) -> list[Index]:
    space, rng = full_space(), np.random.default_rng(4)
    return list(dict.fromkeys(space.sample(rng) for _ in range(4 * count)))[:count]


def test_the_library_is_told_what_its_points_cost():
    points = samples(3)
    tuner = Script(full_space(), points)
    log = drive(tuner, schedule_cost, batches=[2, 1])
    assert [index for index, _ in log] == points
    assert tuner.told == [(n, value) for n, (_, value) in enumerate(log)]
    assert tuner.added == []


def test_an_invalid_point_is_measured_where_it_is_repaired_to():
    space = full_space()
    huge = tuple(len(knob) - 1 for knob in space.knobs)
    assert not space.valid(huge)
    near = repair(space, huge)
    tuner = Script(space, [huge])
    ((index, value),) = drive(tuner, schedule_cost, batches=[1])
    assert index == near
    assert tuner.told == [(0, value)]


def test_a_known_point_is_answered_from_memory():
    points = samples(2)
    tuner = Script(full_space(), [points[0], points[0], points[1]])
    log = drive(tuner, schedule_cost, batches=[1, 1])
    assert [index for index, _ in log] == points
    assert tuner.told == [(0, log[0][1]), (1, log[0][1]), (2, log[1][1])]


def test_a_library_that_repeats_itself_is_told_of_random_points():
    (point,) = samples(1)
    tuner = Script(full_space(), [point])
    log = drive(tuner, schedule_cost, batches=[1, 1])
    assert tuner.told == [(n, log[0][1]) for n in range(REPEATS + 1)]
    assert tuner.added == [log[1]]


def test_initial_points_and_failures_reach_the_library():
    first, second = samples(2)
    tuner = Script(full_space(), [second], initial=(first,))
    drive(tuner, lambda _: None, batches=[1, 1])
    assert tuner.added == [(first, None)]
    assert tuner.told == [(0, None)]


def test_repair_keeps_valid_points_and_shrinks_the_others():
    space, rng = full_space(), np.random.default_rng(5)
    for _ in range(100):
        index = tuple(int(rng.integers(len(knob))) for knob in space.knobs)
        repaired = repair(space, index)
        assert repaired is not None
        assert space.valid(repaired)
        assert (repaired == index) == space.valid(index)
        for knob, (before, after) in enumerate(zip(index, repaired, strict=True)):
            assert after <= before if space.knobs[knob].ordered else after == before


def test_repair_gives_up_where_nothing_is_valid():
    class Nowhere(type(full_space())):
        def _refusal(self, index: Index) -> str:
            return "never"

    space = Nowhere(full_space().workload, full_space().hw, full_space()._rules, "full")
    assert repair(space, tuple(len(knob) - 1 for knob in space.knobs)) is None
