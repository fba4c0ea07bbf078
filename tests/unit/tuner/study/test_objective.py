# SPDX-License-Identifier: Apache-2.0
"""Objectives: values in cycles of a kind, bounds that hold, and what a study chooses by them."""

import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.search.analytic_oracle import AnalyticOracle, Silent, counters_of
from support.search.analytic_oracle import make as make_settings
from support.search.analytic_oracle import run as run_whole
from support.search.results import Found as StudyResult
from support.search.results import load_result

from tilewright.host.common.errors import StoreError
from tilewright.host.network.schedule import Schedule
from tilewright.testing.analytic import BASE, BOARD, MEMORY, RULES, TASKS, cycles_of, estimate
from tilewright.tuner.measure.energy import energy_pj, least_energy_pj
from tilewright.tuner.measure.measurement import Measurement, Request, Status
from tilewright.tuner.report.summary import share_lines
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.goals import Goal, GoalError
from tilewright.tuner.study.objective import Objective, ObjectiveName, TaskCost, area_share
from tilewright.tuner.study.options import Mode, TuneOptions
from tilewright.tuner.study.prepare import prepare_settings
from tilewright.tuner.study.results import screening_name
from tilewright.tuner.study.session import StudyError
from tilewright.tuner.study.settings import SettingsError, StudySettings
from tilewright.tuner.study.study import run_study

SMALL = BASE.with_(block_in=8, name="small")


def objective(name: ObjectiveName) -> Objective:
    return Objective(name, board=BOARD, base=BASE, rules=RULES)


def answer(cycles: int) -> Measurement:
    return Measurement(
        status=Status.OK, fidelity="twin", cycles=cycles, counters=counters_of(cycles)
    )


def test_latency_is_cycles() -> None:
    latency = objective(ObjectiveName.LATENCY)
    assert latency.value(SMALL, TASKS[0], answer(1234)) == 1234
    assert latency.bound(SMALL, TASKS[0], 77) == 77
    parts = [TaskCost(task=task, cycles=100, energy=1.0) for task in TASKS]
    assert latency.network(SMALL, parts) == 100 * (2 + 1 + 3)


def test_edp_orders_like_cycles_times_energy() -> None:
    edp, task = objective(ObjectiveName.EDP), TASKS[0]
    products = [
        cycles * energy_pj(BASE, counters_of(cycles)) / least_energy_pj(task)
        for cycles in (9_000, 20_000)
    ]
    values = [edp.value(BASE, task, answer(cycles)) for cycles in (9_000, 20_000)]
    assert values == pytest.approx(products)


def test_edp_of_a_network_is_a_product_of_sums() -> None:
    edp = objective(ObjectiveName.EDP)
    parts = [
        TaskCost(task=TASKS[0], cycles=10, energy=5.0),
        TaskCost(task=TASKS[1], cycles=7, energy=3.0),
    ]
    least = 2 * least_energy_pj(TASKS[0]) + least_energy_pj(TASKS[1])
    assert edp.network(BASE, parts) == pytest.approx((2 * 10 + 7) * (2 * 5.0 + 3.0) / least)


def test_area_weighs_cycles_by_the_share_of_the_board() -> None:
    area = objective(ObjectiveName.AREA)
    assert area.weight(BASE) == 1
    shares = [area_share(estimate(hw), BOARD) for hw in (SMALL, BASE)]
    assert area.value(SMALL, TASKS[0], answer(100)) == pytest.approx(100 * shares[0] / shares[1])
    assert area.weight(SMALL) < 1


def test_what_is_not_valid_has_no_value() -> None:
    failed = Measurement(status=Status.TIMEOUT, fidelity="twin")
    assert all(objective(name).value(BASE, TASKS[0], failed) is None for name in ObjectiveName)


@pytest.mark.parametrize("name", list(ObjectiveName))
@pytest.mark.parametrize("hw", [BASE, SMALL])
def test_bounds_hold_for_every_run_of_at_least_the_bound_in_cycles(name, hw) -> None:
    """For runs that spend at least the least energy and the static energy of their cycles."""
    what = objective(name)
    parts, bounds = [], 0
    for task in TASKS:
        cycles = int(RULES.bound(hw, task, MEMORY).cycles)
        measured = answer(cycles + 50)
        moved = {"bytes_read": 4 * int(least_energy_pj(task)) // 162, "bytes_written": 0}
        counters = {**measured.counters, **moved}
        measured = Measurement(
            status=Status.OK, fidelity="twin", cycles=cycles + 50, counters=counters
        )
        value = what.value(hw, task, measured)
        assert value is not None
        assert what.bound(hw, task, cycles) <= value
        parts.append(TaskCost(task=task, cycles=cycles + 50, energy=energy_pj(hw, counters)))
        bounds += cycles * task.count
    assert what.network_bound(hw, TASKS, bounds) <= what.network(hw, parts)


class Needy(Goal):
    def __init__(self, more: int) -> None:
        self.more = more

    def value(self, cycles: float, energy: float, area: float) -> float:
        return cycles


def fails(*_: float) -> float:
    raise KeyError("x")


VALUES = {
    "Cubic": lambda cycles, energy, area: cycles * energy * area,
    "Falling": lambda cycles, energy, area: cycles / area,
    "Negative": lambda cycles, energy, area: cycles - 2,
    "Wordy": lambda cycles, energy, area: "few",
    "Failing": fails,
    # Where `load_goal` does not look.
    "Late": lambda cycles, energy, area: cycles if cycles < 1000 else float("inf"),
}
"""What the objectives of a user are worth, by the names of their classes."""


@pytest.fixture
def mine(monkeypatch) -> None:
    module = types.ModuleType("goals_of_mine")
    module.Needy = Needy
    for name, value in VALUES.items():
        members = {"unit": "everything", "value": staticmethod(value)}
        setattr(module, name, type(name, (Goal,), members))
    monkeypatch.setitem(sys.modules, "goals_of_mine", module)


def test_an_objective_of_a_users_own_values_trials_networks_and_bounds(mine) -> None:
    own = Objective("goals_of_mine:Cubic", board=BOARD, base=BASE, rules=RULES)
    edp, area, task = objective(ObjectiveName.EDP), objective(ObjectiveName.AREA), TASKS[0]
    value = own.value(SMALL, task, answer(9000))
    known = edp.value(SMALL, task, answer(9000))
    assert value is not None
    assert known is not None
    assert value == pytest.approx(known * area.weight(SMALL))
    assert own.bound(SMALL, task, 9000) == pytest.approx(
        edp.bound(SMALL, task, 9000) * area.weight(SMALL)
    )
    assert own.unit == "everything"
    assert own.weight(SMALL) == pytest.approx(area.weight(SMALL))


@pytest.mark.parametrize(
    ("name", "wrong"),
    [
        ("Falling", "must not fall when cycles, energy or area grow"),
        ("Negative", "must be positive and finite"),
        ("Gone", "no such class"),
        ("Wordy", "must be positive and finite"),
        ("Failing", "failed with KeyError: 'x'"),
        ("Needy", "failed with TypeError"),
    ],
)
def test_an_objective_that_cannot_be_minimised_is_refused(mine, name, wrong) -> None:
    with pytest.raises(GoalError, match=wrong):
        Objective(f"goals_of_mine:{name}", board=BOARD, base=BASE, rules=RULES)


def test_each_value_of_a_users_objective_is_checked(mine) -> None:
    own = Objective("goals_of_mine:Late", board=BOARD, base=BASE, rules=RULES)
    with pytest.raises(GoalError, match="must be positive and finite"):
        own.value(SMALL, TASKS[0], answer(9000))


def test_an_unknown_objective_suggests_the_nearest() -> None:
    with pytest.raises(GoalError, match="did you mean latency"):
        Objective("latancy", board=BOARD, base=BASE, rules=RULES)


# -- settings of a study put together from names --------------------------------------------------


def test_layers_that_are_not_named_count_as_left_out() -> None:
    whole = prepare_settings(TuneOptions("resnet18"))
    some = prepare_settings(TuneOptions("resnet18", layers=["C10"]))
    macs = sum(task.macs * task.count for task in whole.tasks)
    assert [task.name for task in some.tasks] == ["C10"]
    (task,) = some.tasks
    assert some.cpu_macs == whole.cpu_macs + macs - task.macs * task.count
    text, warning = share_lines(some.to_mapping())
    layers = sum(task.count for task in whole.tasks) - task.count
    assert f"{layers} layers that --layers does not name" in text
    assert "the cycles are not those of the network" in warning
    assert not share_lines(whole.to_mapping())[1]


# -- confirmation ---------------------------------------------------------------------------------

BUDGET = 60


def make(**changes: Any) -> StudySettings:
    return make_settings(**{"screen": "twin", **changes})


def run(
    folder: Path,
    *,
    oracle: AnalyticOracle | None = None,
    screen: AnalyticOracle | None = None,
    **changes: Any,
) -> tuple[StudyResult, StudyResult]:
    """The confirmed and the screened study."""
    oracle = oracle or AnalyticOracle(identity="slow-1")
    screen = screen or AnalyticOracle(identity="fast-1")
    found, _ = run_whole(folder, oracle, screening=screen, screen="twin", **changes)
    with Store(folder / "s.sqlite") as store:
        return found, load_result(store, screening_name("s"))


class Counting(AnalyticOracle):
    """Measures one thing differently."""

    def __init__(self, odd: Schedule | None, **options: Any) -> None:
        super().__init__(**options)
        self._odd = odd

    def _answer(self, request: Request) -> Measurement:
        answer = super()._answer(request)
        if request.schedule != self._odd or answer.cycles is None:
            return answer
        counters = {**answer.counters, "cycles": answer.cycles + 1}
        return replace(answer, cycles=answer.cycles + 1, counters=counters)


@pytest.mark.parametrize("mode", list(Mode))
def test_the_budget_is_spent_on_the_screen_and_the_best_is_confirmed(tmp_path, mode: Mode) -> None:
    screen, oracle = AnalyticOracle(identity="fast-1"), AnalyticOracle(identity="slow-1")
    confirmed, screened = run(tmp_path, screen=screen, oracle=oracle, mode=mode)
    assert len(screen.measured) == len(screened.trials) == BUDGET
    assert set(oracle.measured) <= set(screen.measured)
    assert len(oracle.measured) == len(confirmed.trials) <= 2 * len(TASKS)
    assert confirmed.best_network == screened.best_network
    assert confirmed.default_network == screened.default_network
    untuned = Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1)
    assert confirmed.default_network == sum(cycles_of(BASE, t, untuned) * t.count for t in TASKS)
    assert confirmed.study.settings["screen"]["study"] == screened.study.name


def test_the_confirmed_study_is_the_latest_of_the_store(tmp_path) -> None:
    run(tmp_path)
    with Store(tmp_path / "s.sqlite") as store:
        assert [study.name for study in store.studies()] == ["s/screen", "s"]
        assert {study.status for study in store.studies()} == {"complete"}


def test_every_configuration_keeps_what_became_of_it(tmp_path) -> None:
    confirmed, screened = run(tmp_path)
    assert confirmed.chosen is not None
    assert screened.chosen is not None
    assert confirmed.chosen.config_hash == screened.chosen.config_hash
    assert [c.config_hash for c in confirmed.configs] == [c.config_hash for c in screened.configs]
    measured = {t.config_hash for t in confirmed.trials}
    assert {c.config_hash for c in confirmed.configs if c.status == "measured"} == measured


def test_a_counter_that_differs_ends_the_study_and_is_named(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(
        "tilewright.tuner.study.confirmation.first_difference_of", lambda *_: "instruction 7 (LOAD)"
    )
    untuned = Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1)
    with pytest.raises(StudyError, match=r"must count alike, .*instruction 7 \(LOAD\)"):
        run(tmp_path, oracle=Counting(untuned, identity="slow-1"))
    with Store(tmp_path / "s.sqlite") as store:
        assert store.study("s").status == "interrupted"
        assert store.trials(store.study("s").id), "what was measured is kept"


def test_a_wrong_output_is_reported_by_the_confirmed_study(tmp_path) -> None:
    confirmed, _ = run(tmp_path, oracle=AnalyticOracle(identity="slow-1", wrong=lambda _: True))
    assert len(confirmed.mismatches) == len(confirmed.trials)
    assert confirmed.best_network is None


@pytest.mark.parametrize("stop", [0, 25, BUDGET])
def test_resumes_after_a_stop_in_the_screening(tmp_path, stop: int) -> None:
    whole, _ = run(tmp_path / "whole")
    if stop < BUDGET:
        with pytest.raises(KeyboardInterrupt):
            run(tmp_path / "cut", screen=AnalyticOracle(identity="fast-1", stop_after=stop))
    screen = AnalyticOracle(identity="fast-1")
    resumed, _ = run(tmp_path / "cut", screen=screen)
    assert len(screen.measured) == (BUDGET - stop if stop < BUDGET else BUDGET)
    assert resumed.best_network == whole.best_network


def test_resumes_after_a_stop_in_the_confirmation(tmp_path) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, oracle=AnalyticOracle(identity="slow-1", stop_after=2))
    screen, oracle = AnalyticOracle(identity="fast-1"), AnalyticOracle(identity="slow-1")
    confirmed, _ = run(tmp_path, screen=screen, oracle=oracle)
    assert screen.measured == []
    assert len(oracle.measured) == len(confirmed.trials) - 2


def test_a_network_that_does_not_run_is_not_confirmed(tmp_path) -> None:
    screen = AnalyticOracle(identity="fast-1", fail=lambda r: r.workload.name == "B")
    with pytest.raises(StudyError, match="nothing to confirm"):
        run(tmp_path, screen=screen)


def test_a_screen_and_the_settings_must_agree(tmp_path) -> None:
    with Store(tmp_path / "s.sqlite") as store, pytest.raises(StudyError, match="screened"):
        run_study("s", make(), store=store, oracle=AnalyticOracle(), rules=RULES, listener=Silent())
    with pytest.raises(SettingsError, match="twin"):
        make(screen="model")


def test_a_name_that_is_taken_is_refused_before_the_search(tmp_path) -> None:
    run(tmp_path)
    with Store(tmp_path / "s.sqlite") as store:
        fast = AnalyticOracle(identity="fast-2")
        with pytest.raises(StoreError, match="other settings: oracle"):
            run_study(
                "s", make(), store=store, oracle=AnalyticOracle(identity="slow-2"), rules=RULES,
                listener=Silent(), screen=fast,
            )  # fmt: skip
        assert not fast.measured
