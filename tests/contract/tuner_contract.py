# SPDX-License-Identifier: Apache-2.0
"""The contract that every tuner keeps; a subclass names the tuner."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.analytic import BASE, RULES, SMALL, TASKS, cycles_of

from tilewright.tuner.search import Result, Tuner, TunerError, make_tuner
from tilewright.tuner.space import Index
from tilewright.tuner.spaces import HardwareChoice, JointSpace, ScheduleSpace

Cost = Callable[[Any], float | None]

_REPLAY = """
import json, sys
from contract.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.search import make_tuner
tuner = make_tuner(sys.argv[1], full_space(), seed=7)
json.dump([list(i) for i, _ in drive(tuner, schedule_cost, batches=[1, 5, 3, 8, 8])], sys.stdout)
"""


def full_space() -> ScheduleSpace:
    return ScheduleSpace(TASKS[0], BASE, RULES, "full")


def small_space() -> ScheduleSpace:
    return ScheduleSpace(SMALL, BASE, RULES, "vta")


def schedule_cost(schedule: Any) -> float:
    return float(cycles_of(BASE, TASKS[0], schedule))


def drive(tuner: Tuner[Any], cost: Cost, *, batches: list[int]) -> list[tuple[Index, float | None]]:
    """Ask and tell; returns what was proposed with what was told."""
    log: list[tuple[Index, float | None]] = []
    for size in batches:
        batch = tuner.ask(size)
        results = [Result(index=c.index, value=cost(c.point)) for c in batch]
        tuner.tell(results)
        log += [(r.index, r.value) for r in results]
    return log


class TunerContract:
    """Subclass and set `name`."""

    name: str

    def make(self, space: Any, *, seed: int = 7, initial: tuple[Index, ...] = ()) -> Tuner[Any]:
        return make_tuner(self.name, space, seed=seed, initial=initial)

    def test_equal_seeds_propose_the_same_in_another_process(self) -> None:
        here = drive(self.make(full_space()), schedule_cost, batches=[1, 5, 3, 8, 8])
        tests = str(Path(__file__).resolve().parents[1])
        done = subprocess.run(
            [sys.executable, "-c", _REPLAY, self.name],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PYTHONPATH": tests, "PYTHONHASHSEED": "99"},
        )
        assert [tuple(i) for i in json.loads(done.stdout)] == [i for i, _ in here]

    def test_other_seeds_propose_something_else(self) -> None:
        one = drive(self.make(full_space(), seed=1), schedule_cost, batches=[8, 8])
        two = drive(self.make(full_space(), seed=2), schedule_cost, batches=[8, 8])
        assert one != two

    @pytest.mark.parametrize("seed", range(4))
    def test_every_proposal_is_valid_and_new(self, seed: int) -> None:
        space = full_space()
        log = drive(self.make(space, seed=seed), schedule_cost, batches=[1, 7] + [8] * 12)
        indices = [index for index, _ in log]
        assert len(set(indices)) == len(indices)
        assert all(space.valid(index) for index in indices)

    def test_never_exceeds_what_is_asked_for_and_fills_it_in_a_large_space(self) -> None:
        tuner = self.make(full_space())
        for size in (1, 2, 13, 8, 8, 8, 40):
            batch = tuner.ask(size)
            assert len(batch) == size
            tuner.tell([Result(index=c.index, value=schedule_cost(c.point)) for c in batch])

    def test_exhausts_a_small_space_exactly(self) -> None:
        space = small_space()
        everything = set(space.enumerate())
        tuner = self.make(space)
        log = drive(tuner, lambda s: float(cycles_of(BASE, SMALL, s)), batches=[16] * 40)
        assert {index for index, _ in log} == everything
        assert len(log) == len(everything)
        assert tuner.exhausted
        assert tuner.ask(3) == []

    def test_finds_the_optimum_of_an_exhausted_space(self) -> None:
        space = small_space()
        tuner = self.make(space)
        drive(tuner, lambda s: float(cycles_of(BASE, SMALL, s)), batches=[16] * 40)
        best = min(cycles_of(BASE, SMALL, space.decode(i)) for i in space.enumerate())
        assert tuner.best is not None
        assert tuner.best.value == best

    def test_initial_points_come_first_without_invalid_or_repeated_ones(self) -> None:
        space = full_space()
        valid = [space.sample(self.make(space, seed=s).rng) for s in range(3)]
        huge = tuple(len(k) - 1 for k in space.knobs)
        assert not space.valid(huge)
        tuner = self.make(space, initial=(valid[0], huge, valid[1], valid[0], valid[2]))
        assert [c.index for c in tuner.ask(3)] == list(dict.fromkeys(valid))

    def test_suggestions_come_next_unless_invalid_or_known(self) -> None:
        space = full_space()
        tuner = self.make(space)
        known = tuner.ask(1)[0].index
        fresh = space.sample(self.make(space, seed=99).rng)
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
        log = drive(tuner, cost, batches=[8] * 10)
        assert len(log) == 80
        values = [value for _, value in log if value is not None]
        assert (tuner.best.value if tuner.best else None) == min(values, default=None)

    @pytest.mark.parametrize("cut", [1, 3, 6])
    def test_replayed_results_continue_like_an_uninterrupted_run(self, cut: int) -> None:
        batches = [1, 5, 3, 8, 8, 8, 8]
        whole = drive(self.make(full_space()), schedule_cost, batches=batches)
        stored = dict(whole[: sum(batches[:cut])])
        space = full_space()
        measured: list[Index] = []

        def resumed(schedule: Any) -> float | None:
            index = space.encode(schedule)
            if index not in stored:
                measured.append(index)
                return schedule_cost(schedule)
            return stored[index]

        again = drive(self.make(space), resumed, batches=batches)
        assert again == whole
        assert measured == [index for index, _ in whole[sum(batches[:cut]) :]]

    def test_searches_hardware_and_schedule_together(self) -> None:
        hardware = HardwareChoice([BASE, BASE.with_(name="wide", block_in=8, block_out=32)])
        space = JointSpace(TASKS[0], hardware, RULES, "full")
        tuner = self.make(space)
        log = drive(tuner, lambda p: float(cycles_of(p.hw, TASKS[0], p.schedule)), batches=[8] * 8)
        assert {index[0] for index, _ in log} == {0, 1}

    def test_refuses_results_that_nobody_awaits(self) -> None:
        tuner = self.make(full_space())
        batch = tuner.ask(2)
        tuner.tell([Result(index=batch[0].index, value=1.0)])
        with pytest.raises(TunerError, match="told once"):
            tuner.tell([Result(index=batch[0].index, value=1.0)])

    def test_refuses_values_that_are_not_finite(self) -> None:
        tuner = self.make(full_space())
        batch = tuner.ask(1)
        with pytest.raises(TunerError, match="finite"):
            tuner.tell([Result(index=batch[0].index, value=float("nan"))])

    def test_refuses_to_ask_for_nothing(self) -> None:
        with pytest.raises(TunerError, match="at least 1"):
            self.make(full_space()).ask(0)
