# SPDX-License-Identifier: Apache-2.0
"""The contract that every tuner keeps; a subclass names the tuner.

Tests that only look at what a tuner proposed share one drive of it, its *course*: the drive is made
once a class, and once more wherever a test is about making it again.
"""

from __future__ import annotations

import functools
import pickle
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pytest

from tilewright.host.network.workload import conv2d
from tilewright.testing.analytic import BASE, RULES, TASKS, cycles_of
from tilewright.testing.elsewhere import elsewhere
from tilewright.testing.randomness import generator
from tilewright.tuner.schedule.spaces import HardwareChoice, JointSpace, ScheduleSpace
from tilewright.tuner.search import Result, Tuner, TunerError, make_tuner
from tilewright.tuner.search.space import Index, Knob, Space

Cost = Callable[[Any], float | None]
Log = list[tuple[Index, float | None]]
"""What was proposed, with what was told."""

COURSE = (1, 2, 13, 8, 8, 24)
"""Sizes of the asks of a course: single, odd, a batch, more than a batch."""

LENGTH = 20
"""Trials of a course that is told out of order."""

SEED = 7

SMALL_BASE = BASE.with_(name="small", inp_bytes=8192)
SMALL = conv2d("S", 4, 32, 32, 3, 1, 1)


class SinglePoint(Space[Index]):
    """Nothing to choose."""

    def __init__(self) -> None:
        super().__init__([Knob(name="a", values=(1,)), Knob(name="b", values=(2,))])

    def decode(self, index: Index) -> Index:
        return index

    def encode(self, point: Index) -> Index:
        return point

    def _refusal(self, index: Index) -> str:
        del index
        return ""


def full_space() -> ScheduleSpace:
    return ScheduleSpace(TASKS[0], BASE, RULES, "full")


def small_space() -> ScheduleSpace:
    return ScheduleSpace(SMALL, SMALL_BASE, RULES, "vta")


def schedule_cost(schedule: Any) -> float:
    return float(cycles_of(BASE, TASKS[0], schedule))


def small_cost(schedule: Any) -> float:
    return float(cycles_of(SMALL_BASE, SMALL, schedule))


def drive(tuner: Tuner[Any], cost: Cost, *, batches: Sequence[int]) -> Log:
    """Ask and tell; returns what was proposed with what was told."""
    log: Log = []
    for size in batches:
        batch = tuner.ask(size)
        assert len(batch) <= size
        results = [Result(index=c.index, value=cost(c.point)) for c in batch]
        tuner.tell(results)
        log += [(r.index, r.value) for r in results]
    return log


def drive_course(name: str, options: Mapping[str, Any], *, seed: int = SEED) -> Log:
    return drive(
        make_tuner(name, full_space(), seed=seed, **options), schedule_cost, batches=COURSE
    )


def assert_valid_and_new(log: Log) -> None:
    space, indices = full_space(), [index for index, _ in log]
    assert len(set(indices)) == len(indices)
    assert all(space.valid(index) for index in indices)


@functools.cache
def small_truth() -> dict[Index, float]:
    """Every valid point of the small space with its cost."""
    space = small_space()
    return {index: small_cost(space.decode(index)) for index in space.enumerate()}


class TunerContract:
    """Subclass and set `name`.

    Attributes:
        options: settings, as JSON has them, under which a course holds a few plans of the tuner at
            little cost: smaller plans for one that is random before its first, fewer walkers for
            one whose plans are long. Settings that users get are worth a test of their own.
    """

    name: str  # of the tuner: as on the command line, or ``package.module:Class``
    options: ClassVar[Mapping[str, Any]] = {}

    def make(self, space: Any, *, seed: int = SEED, initial: tuple[Index, ...] = ()) -> Tuner[Any]:
        return make_tuner(self.name, space, seed=seed, initial=initial, **self.options)

    @pytest.fixture(scope="class")
    @classmethod
    def course(cls) -> Log:
        return drive_course(cls.name, cls.options)

    @pytest.fixture(scope="class")
    @classmethod
    def exhausted(cls) -> tuple[Tuner[Any], Log]:
        tuner = make_tuner(cls.name, small_space(), seed=SEED, **cls.options)
        return tuner, drive(tuner, small_cost, batches=[16] * (len(small_truth()) // 16 + 2))

    def test_equal_seeds_propose_the_same_in_another_process(self, course: Log) -> None:
        again = elsewhere(__name__, "drive_course", self.name, self.options)
        assert [(tuple(index), value) for index, value in again] == course

    def test_other_seeds_propose_something_else(self, course: Log) -> None:
        other = drive(self.make(full_space(), seed=8), schedule_cost, batches=COURSE[:3])
        assert other != course[: len(other)]

    def test_every_proposal_is_valid_and_new(self, course: Log) -> None:
        assert_valid_and_new(course)

    def test_every_proposal_of_a_fresh_seed_is_valid_and_new(self) -> None:
        seed = int(generator(self.name).integers(2**31))
        assert_valid_and_new(drive_course(self.name, self.options, seed=seed))

    def test_never_exceeds_what_is_asked_for_and_fills_it_in_a_large_space(
        self, course: Log
    ) -> None:
        assert len(course) == sum(COURSE)

    def test_exhausts_a_small_space_exactly(self, exhausted: tuple[Tuner[Any], Log]) -> None:
        tuner, log = exhausted
        assert len(small_truth()) < small_space().raw_size
        assert dict(log) == small_truth()
        assert len(log) == len(small_truth())
        assert tuner.exhausted
        assert tuner.ask(3) == []

    def test_finds_the_optimum_of_an_exhausted_space(
        self, exhausted: tuple[Tuner[Any], Log]
    ) -> None:
        best = exhausted[0].best
        assert best is not None
        assert best.value == min(small_truth().values())

    def test_initial_points_come_first_without_invalid_or_repeated_ones(self) -> None:
        space = full_space()
        drawn = [space.sample(np.random.default_rng(s)) for s in range(3)]
        valid = [index for index in drawn if index is not None]
        huge = tuple(len(k) - 1 for k in space.knobs)
        assert not space.valid(huge)
        tuner = self.make(space, initial=(valid[0], huge, valid[1], valid[0], valid[2]))
        assert [c.index for c in tuner.ask(3)] == list(dict.fromkeys(valid))

    def test_suggestions_come_next_unless_invalid_or_known(self) -> None:
        space = full_space()
        tuner = self.make(space)
        known = tuner.ask(1)[0].index
        fresh = space.sample(np.random.default_rng(99))
        assert fresh is not None
        assert not tuner.suggest(known)
        assert not tuner.suggest(tuple(len(k) - 1 for k in space.knobs))
        assert tuner.suggest(fresh)
        assert not tuner.suggest(fresh)
        assert tuner.ask(1)[0].index == fresh

    @pytest.mark.parametrize("survivors", [0, 5])
    def test_survives_failed_trials(self, survivors: int) -> None:
        def cost(schedule: Any) -> float | None:
            lucky = schedule.tile_w % 7 < survivors
            return schedule_cost(schedule) if lucky else None

        tuner = self.make(full_space())
        log = drive(tuner, cost, batches=[8] * 6)
        assert len(log) == 48
        values = [value for _, value in log if value is not None]
        assert (tuner.best.value if tuner.best else None) == min(values, default=None)

    def test_learns_from_trials_in_the_order_in_which_they_end(self) -> None:
        """One more is asked for whenever one of those on their way has ended."""

        def course() -> Log:
            tuner, rng = self.make(full_space()), np.random.default_rng(11)
            log: Log = []
            running = tuner.ask(4)
            while running:
                ended = running.pop(int(rng.integers(len(running))))
                value = schedule_cost(ended.point) if len(log) % 9 else None
                tuner.tell([Result(index=ended.index, value=value)])
                log.append((ended.index, value))
                if len(log) + len(running) < LENGTH:
                    running += tuner.ask(1)
            return log

        log = course()
        assert len(log) == LENGTH
        assert_valid_and_new(log)
        assert course() == log

    def test_replayed_results_continue_like_an_uninterrupted_run(self, course: Log) -> None:
        cut = int(generator(f"cut {self.name}").integers(1, len(COURSE)))
        done = sum(COURSE[:cut])
        stored = dict(course[:done])
        space = full_space()
        measured: list[Index] = []

        def resumed(schedule: Any) -> float | None:
            index = space.encode(schedule)
            if index not in stored:
                measured.append(index)
                return schedule_cost(schedule)
            return stored[index]

        assert drive(self.make(space), resumed, batches=COURSE) == course, f"cut {cut}"
        assert measured == [index for index, _ in course[done:]]

    def test_a_pickle_goes_on_as_the_tuner_does(self, course: Log) -> None:
        tuner = self.make(full_space())
        done = drive(tuner, schedule_cost, batches=COURSE[:4])
        copy = pickle.loads(pickle.dumps(tuner))
        more = drive(copy, schedule_cost, batches=COURSE[4:5])
        assert done + more == course[: len(done + more)]

    def test_searches_hardware_and_schedule_together(self) -> None:
        hardware = HardwareChoice([BASE, BASE.with_(name="wide", block_in=8, block_out=32)])
        space = JointSpace(TASKS[0], hardware, RULES, "full")
        tuner = self.make(space)
        log = drive(tuner, lambda p: float(cycles_of(p.hw, TASKS[0], p.schedule)), batches=[8] * 5)
        assert len(log) == 40
        assert {index[0] for index, _ in log} == {0, 1}

    def test_refuses_results_that_nobody_awaits(self) -> None:
        tuner = self.make(full_space())
        batch = tuner.ask(2)
        tuner.tell([Result(index=batch[0].index, value=1.0)])
        with pytest.raises(TunerError, match="told once"):
            tuner.tell([Result(index=batch[0].index, value=1.0)])

    @pytest.mark.parametrize("value", [float("nan"), float("inf"), "1", 1j])
    def test_refuses_values_that_are_not_finite(self, value: Any) -> None:
        tuner = self.make(full_space())
        batch = tuner.ask(1)
        with pytest.raises(TunerError, match="finite"):
            tuner.tell([Result(index=batch[0].index, value=value)])

    @pytest.mark.parametrize("noise", [float("nan"), -1.0])
    def test_refuses_noise_that_is_none(self, noise: float) -> None:
        tuner = self.make(full_space())
        batch = tuner.ask(1)
        with pytest.raises(TunerError, match="noise"):
            tuner.tell([Result(index=batch[0].index, value=1.0, noise=noise)])

    def test_takes_costs_of_any_sign_or_says_that_it_does_not(self) -> None:
        tuner = self.make(full_space())
        if tuner.positive:
            [candidate] = tuner.ask(1)
            for value in (0.0, -1.0):
                with pytest.raises(TunerError, match="above 0"):
                    tuner.tell([Result(index=candidate.index, value=value)])
            tuner.tell([Result(index=candidate.index, value=1.0)])
        else:
            log = drive(tuner, lambda s: schedule_cost(s) - 1e6, batches=COURSE[:4])
            assert min(value or 0.0 for _, value in log) < 0
            assert len(log) == sum(COURSE[:4])

    def test_a_space_of_a_single_point_has_that_one(self) -> None:
        tuner = self.make(SinglePoint())
        assert [c.index for c in tuner.ask(4)] == [(0, 0)]
        tuner.tell([Result(index=(0, 0), value=1.0)])
        assert tuner.ask(1) == []
        assert tuner.exhausted

    @pytest.mark.parametrize("count", [0, 1.5, "2"])
    def test_refuses_to_ask_for_nothing(self, count: Any) -> None:
        with pytest.raises(TunerError, match="at least 1"):
            self.make(full_space()).ask(count)
