# SPDX-License-Identifier: Apache-2.0
"""Allocators, objectives and time limits inside whole studies, on the analytic accelerator."""

import copy
import sys
import types
from collections.abc import Mapping
from itertools import product, starmap
from typing import Any

import pytest
from support.randomness import often
from support.search.analytic_oracle import BUDGET, AnalyticOracle, course, make, run
from support.search.results import load_result

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.workload import Workload
from tilewright.tuner.allocate import ALLOCATORS, Allocator
from tilewright.tuner.measure.energy import EnergyModel
from tilewright.tuner.report.pareto import pareto
from tilewright.tuner.search import Tuner, TunerError
from tilewright.tuner.store.store import Store
from tilewright.tuner.study import session as session_module
from tilewright.tuner.study.best_network import chosen_by_objective
from tilewright.tuner.study.objective import ObjectiveName
from tilewright.tuner.study.options import Mode
from tilewright.tuner.study.results import screening_name
from tilewright.tuner.study.session import StudyError


@pytest.mark.parametrize(
    ("allocator", "mode"), often("allocators", starmap(pytest.param, product(ALLOCATORS, Mode)), 2)
)
def test_every_allocator_spends_the_budget_and_takes_the_same_course_after_a_kill(
    tmp_path, allocator: str, mode: Mode
) -> None:
    whole, _ = run(tmp_path / "whole", allocator=allocator, mode=mode)
    assert len(whole.trials) == BUDGET
    assert whole.best_network is not None
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path / "cut", AnalyticOracle(stop_after=31), allocator=allocator, mode=mode)
    resumed, _ = run(tmp_path / "cut", allocator=allocator, mode=mode)
    assert course(resumed) == course(whole)


@pytest.mark.parametrize("mode", list(Mode))
def test_no_two_parts_of_a_study_draw_the_same_numbers(tmp_path, monkeypatch, mode) -> None:
    """The allocator of a configuration drew what the tuner of the first task drew."""
    drawn: list[int] = []
    for kind in (Tuner, Allocator):
        begin = kind.__init__

        def noted(self, *arguments: Any, begin=begin, **options: Any) -> None:
            begin(self, *arguments, **options)
            drawn.append(int(copy.deepcopy(self.rng).integers(2**63)))

        monkeypatch.setattr(kind, "__init__", noted)
    run(tmp_path, allocator="random", tuner="random", mode=mode)
    assert len(drawn) > 3
    assert len(set(drawn)) == len(drawn)


def test_allocators_differ_in_what_they_measure(tmp_path) -> None:
    courses = {
        name: str(course(run(tmp_path / name, allocator=name, configs=1)[0]))
        for name in ("sequential", "round-robin", "headroom")
    }
    assert len(set(courses.values())) == 3


def test_an_unknown_allocator_is_refused() -> None:
    with pytest.raises(TunerError, match="allocator"):
        make(allocator="hindsight")


@pytest.mark.parametrize("objective", list(ObjectiveName))
def test_each_objective_chooses_the_least_of_its_own_values(tmp_path, objective) -> None:
    result, _ = run(tmp_path, objective=objective, configs=4, budget=120)
    chosen = chosen_by_objective(result)
    assert chosen.best_network is not None
    if objective is ObjectiveName.LATENCY:
        assert chosen is result
    for task in chosen.tasks:
        assert task.best is not None
        assert chosen.chosen is not None
        assert task.best.config_hash == chosen.chosen.config_hash


class PerInstruction(EnergyModel):
    """A user's: all energy goes into tile products."""

    def energy_pj(self, hw: HwConfig, counters: Mapping[str, int]) -> float:
        return 7.0 * counters["macs_tiles"]

    def least_energy_pj(self, task: Workload) -> float:
        return 1.0


def test_an_energy_model_of_a_users_own_values_stores_and_reports(tmp_path, monkeypatch) -> None:
    module = types.ModuleType("energy_of_mine")
    module.PerInstruction = PerInstruction
    monkeypatch.setitem(sys.modules, "energy_of_mine", module)
    changes = {"objective": ObjectiveName.EDP, "configs": 1, "budget": 40}
    result, _ = run(tmp_path, energy="energy_of_mine:PerInstruction", **changes)
    assert result.settings["energy"] == "energy_of_mine:PerInstruction"
    chosen = chosen_by_objective(result)
    for task in chosen.tasks:
        assert task.best is not None
        mine = [t for t in result.trials if t.task == task.name and t.measurement.valid]
        products = {
            t.sequence: t.measurement.cycles * t.measurement.counters["macs_tiles"] for t in mine
        }
        assert products[task.best.sequence] == min(products.values())
    point = pareto(result)[0]
    tiles = sum(t.count * t.best.measurement.counters["macs_tiles"] for t in chosen.tasks if t.best)
    assert point.energy == 7.0 * tiles


# -- time limits ------------------------------------------------------------------------------


class Clock:
    """A clock that advances by one at every look."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1.0
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    ticking = Clock()
    monkeypatch.setattr(session_module.time, "monotonic", ticking)
    return ticking


@pytest.mark.parametrize("mode", list(Mode))
def test_a_study_that_ran_out_of_time_goes_on_as_if_it_had_not(tmp_path, clock, mode) -> None:
    whole, _ = run(tmp_path / "whole", mode=mode)
    cut, _ = run(tmp_path / "cut", mode=mode, seconds=5)
    assert cut.study.status == "stopped"
    assert 0 < len(cut.trials) < BUDGET
    assert course(cut) == course(whole)[: len(cut.trials)]
    resumed, _ = run(tmp_path / "cut", mode=mode)
    assert resumed.study.status == "complete"
    assert course(resumed) == course(whole)


def test_stored_trials_are_replayed_whatever_the_time(tmp_path, clock) -> None:
    cut, _ = run(tmp_path, seconds=5)
    oracle = AnalyticOracle()
    again, _ = run(tmp_path, oracle, seconds=0)
    assert course(again) == course(cut)
    assert not oracle.measured


def test_a_stopped_screening_is_confirmed_in_a_study_of_its_own(tmp_path, clock) -> None:
    cut, name = run(tmp_path, screen="twin", seconds=5)
    with Store(tmp_path / "s.sqlite") as store:
        screened = load_result(store, screening_name("s"))
    assert name == f"s/at-{len(screened.trials)}"
    assert cut.best_network == screened.best_network
    whole, name = run(tmp_path, screen="twin")
    assert name == "s"
    straight, _ = run(tmp_path / "straight", screen="twin")
    assert course(whole) == course(straight)


def test_a_screening_without_time_has_nothing_to_confirm(tmp_path, clock) -> None:
    with pytest.raises(StudyError, match="raise the budget or the seconds"):
        run(tmp_path, screen="twin", seconds=0)
