# SPDX-License-Identifier: Apache-2.0
"""A study spends its budget, resumes at any moment, and depends on nothing but its settings."""

import sqlite3
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.search.analytic_oracle import AnalyticOracle, Silent, any_order, course, make
from support.search.analytic_oracle import run as run_whole
from support.search.results import Found as StudyResult
from support.search.results import load_result

from tilewright.host.common.errors import EnvironmentFaultError, StoreError, TilewrightError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.testing.analytic import BASE, RULES, TASKS, cycles_of
from tilewright.tuner.measure.measurement import Measurement, Request, Status
from tilewright.tuner.search import TUNERS, TunerError
from tilewright.tuner.search.plain.coordinate import CoordinateTuner
from tilewright.tuner.search.space import Index
from tilewright.tuner.store import database as store_database
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.options import Mode
from tilewright.tuner.study.session import INCUMBENT_LIMIT, LIMIT_SLACK, StudyError
from tilewright.tuner.study.settings import DEFAULT_TUNER, SettingsError
from tilewright.tuner.study.study import run_study


def run(*words: Any, **changes: Any) -> StudyResult:
    return run_whole(*words, **changes)[0]


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("tuner", ["random", "coordinate", "genetic", "guided", "tilewright"])
def test_spends_exactly_its_budget_on_distinct_trials(tmp_path, mode: Mode, tuner: str) -> None:
    oracle = AnalyticOracle()
    result = run(tmp_path, oracle, mode=mode, tuner=tuner)
    assert len(result.trials) == 60
    assert len(set(oracle.measured)) == len(oracle.measured) == 60
    assert result.study.status == "complete"


@pytest.mark.parametrize("mode", list(Mode))
def test_the_first_trials_are_the_untuned_schedules_on_the_base(tmp_path, mode: Mode) -> None:
    result = run(tmp_path, mode=mode)
    first = result.trials[: len(TASKS)]
    assert {t.task for t in first} == {t.name for t in TASKS}
    untuned = Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1)
    for trial in first:
        assert (trial.origin, Schedule.from_mapping(trial.schedule)) == ("default", untuned)
        assert HwConfig.from_mapping(trial.hw) == BASE
    assert result.default_network == sum(cycles_of(BASE, t, untuned) * t.count for t in TASKS)


@settings(max_examples=10, deadline=None)
@given(
    stop=st.integers(0, 59),
    mode=st.sampled_from(list(Mode)),
    tuner=st.sampled_from(["random", "coordinate", "genetic", "guided", "tilewright"]),
    seed=st.integers(0, 5),
)
def test_an_interrupted_study_resumes_as_if_nothing_had_happened(
    tmp_path_factory, stop: int, mode: Mode, tuner: str, seed: int
) -> None:
    whole = run(tmp_path_factory.mktemp("whole"), mode=mode, tuner=tuner, seed=seed)
    folder = tmp_path_factory.mktemp("cut")
    first = AnalyticOracle(shuffle=any_order(seed), stop_after=stop)
    with pytest.raises(KeyboardInterrupt):
        run(folder, first, mode=mode, tuner=tuner, seed=seed)
    with Store(folder / "s.sqlite") as store:
        assert store.study("s").status == "interrupted"
        assert len(store.trials(store.study("s").id)) == stop
    second, listener = AnalyticOracle(), Silent()
    resumed = run(folder, second, listener=listener, mode=mode, tuner=tuner, seed=seed)
    assert course(resumed) == course(whole)
    assert not set(first.measured) & set(second.measured)
    assert len(first.measured) + len(second.measured) == 60
    assert sum(replayed for _, _, replayed in listener.trials) == stop


@pytest.mark.parametrize("error", [KeyboardInterrupt, StudyError])
def test_what_ends_a_study_does_not_wait_for_a_locked_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    """Ctrl-C went on waiting for up to 15 minutes, and a lock hid what had gone wrong."""
    monkeypatch.setattr(store_database, "BUSY_SECONDS", 0.05)
    path = tmp_path / "s.sqlite"

    class Locking(AnalyticOracle):
        def measure(self, requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
            yield from super().measure(requests[:1])
            self.other = sqlite3.connect(path, isolation_level=None)
            self.other.execute("BEGIN IMMEDIATE")
            raise error("ended")

    oracle = Locking()
    with Store(path, waiting=pytest.fail, patience_s=2.0) as store:
        with pytest.raises(error, match="ended"):
            run_study("s", make(), store=store, oracle=oracle, rules=RULES, listener=Silent())
        oracle.other.close()
        assert len(store.trials(store.study("s").id)) == 1


@pytest.mark.parametrize("mode", list(Mode))
def test_the_order_in_which_workers_finish_changes_nothing(tmp_path, mode: Mode) -> None:
    straight = run(tmp_path / "a", mode=mode)
    backwards = run(tmp_path / "b", AnalyticOracle(shuffle=lambda p: p[::-1]), mode=mode)
    assert course(straight) == course(backwards)


def test_a_study_whose_search_has_changed_since_is_refused_before_it_measures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial of today was measured first, and what was said then named no cause."""
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, AnalyticOracle(stop_after=30))
    propose = CoordinateTuner._propose

    def changed(tuner: CoordinateTuner[Any]) -> Index | None:
        return tuner.sample_new() if tuner.asked == 3 else propose(tuner)

    monkeypatch.setattr(CoordinateTuner, "_propose", changed)
    oracle = AnalyticOracle()
    with pytest.raises(StudyError, match=r"do not follow .* stored as another one.*--name"):
        run(tmp_path, oracle)
    assert not oracle.measured


def test_a_complete_study_measures_and_builds_nothing_again(tmp_path) -> None:
    before = run(tmp_path)
    oracle = AnalyticOracle()
    again = run(tmp_path, oracle)
    assert oracle.measured == []
    assert oracle.prepared == []
    assert course(again) == course(before)


def test_improves_on_the_untuned_network(tmp_path) -> None:
    result = run(tmp_path, budget=120)
    assert result.best_network is not None
    assert result.default_network is not None
    assert result.best_network < 0.8 * result.default_network


def test_shared_mode_counts_only_complete_networks_on_one_configuration(tmp_path) -> None:
    result = run(tmp_path)
    assert result.chosen is not None
    chosen = HwConfig.from_mapping(result.chosen.hw)
    total = 0
    for task in TASKS:
        best = min(
            t.measurement.cycles
            for t in result.trials
            if t.task == task.name
            and t.measurement.valid
            and t.config_hash == f"{chosen.config_hash:08x}"
        )
        total += best * task.count
    assert result.best_network == total
    others = {t.config_hash for t in result.trials} - {f"{chosen.config_hash:08x}"}
    assert others
    for other in others:
        mine = [t for t in result.trials if t.config_hash == other and t.measurement.valid]
        if {t.task for t in mine} == {t.name for t in TASKS}:
            cost = sum(
                min(t.measurement.cycles for t in mine if t.task == task.name) * task.count
                for task in TASKS
            )
            assert cost >= total


def test_a_configuration_without_a_measurement_of_some_task_is_never_chosen(tmp_path) -> None:
    def fail(request: Request) -> bool:
        return request.hw == BASE and request.workload.name == "B"

    result = run(tmp_path, AnalyticOracle(fail=fail))
    assert result.chosen is not None
    assert result.chosen.hw["name"] != BASE.name
    status = {c.hw["name"]: (c.status, c.reason) for c in result.configs}
    assert status[BASE.name] == ("incomplete", "no valid measurement of B")
    assert result.default_network is None


def test_no_complete_network_is_reported_as_such(tmp_path) -> None:
    result = run(tmp_path, AnalyticOracle(fail=lambda r: r.workload.name == "B"))
    assert result.chosen is None
    assert result.best_network is None
    assert len(result.trials) == 60


def test_a_wrong_output_never_counts(tmp_path) -> None:
    clean = run(tmp_path / "a")
    best = {t.best.schedule["tile_h"] for t in clean.tasks if t.best is not None}

    def wrong(request: Request) -> bool:
        return request.schedule.tile_h in best

    result = run(tmp_path / "b", AnalyticOracle(wrong=wrong))
    assert result.mismatches
    for trial in result.mismatches:
        assert not trial.measurement.valid
        assert trial.measurement.cycles is None
    for task in result.tasks:
        assert task.best is None or task.best.schedule["tile_h"] not in best


def test_configurations_whose_bound_cannot_win_are_not_built(tmp_path) -> None:
    oracle = AnalyticOracle()
    fast = cycles_of(BASE, TASKS[0], Schedule(tile_h=1, tile_w=1, tile_ci=1, tile_co=1))
    rules = RULES.__class__(
        **{
            **vars(RULES),
            "bound": lambda hw, w, m: (
                RULES.bound(hw, w, m)
                if hw == BASE
                else type("B", (), {"cycles": 100 * fast, "limiter": "mac"})()
            ),
        }
    )
    with Store(tmp_path / "s.sqlite") as store:
        run_study("s", make(), store=store, oracle=oracle, rules=rules, listener=Silent())
        result = load_result(store, "s")
    assert {t.config_hash for t in result.trials} == {f"{BASE.config_hash:08x}"}
    assert [c.status for c in result.configs] == ["measured", "pruned", "pruned"]
    assert len(result.trials) == 60


def test_slow_trials_are_cut_off_and_recorded_with_their_limit(tmp_path) -> None:
    class Slow(AnalyticOracle):
        def _answer(self, request: Request):
            if request.schedule.tile_h == 1 and request.schedule.tile_w > 1:
                assert request.max_cycles < 10**9
                return (
                    super()
                    ._answer(request)
                    .__class__(
                        status=Status.TIMEOUT,
                        fidelity=self.fidelity,
                        failure="late",
                        limit_cycles=request.max_cycles,
                    )
                )
            return super()._answer(request)

    result = run(tmp_path, Slow(), configs=1)
    late = [t for t in result.trials if t.measurement.status is Status.TIMEOUT]
    assert late
    for trial in late:
        earlier = [
            t.measurement.cycles
            for t in result.trials
            if t.task == trial.task and t.measurement.valid and t.sequence < trial.sequence
        ]
        # the incumbent of the moment of the proposal is one of the earlier bests
        assert trial.measurement.limit_cycles - LIMIT_SLACK >= INCUMBENT_LIMIT * min(earlier)
        assert trial.measurement.limit_cycles - LIMIT_SLACK <= INCUMBENT_LIMIT * max(earlier)


def test_measurements_of_an_earlier_study_are_charged_but_not_repeated(tmp_path) -> None:
    run(tmp_path, AnalyticOracle(), tuner="random", study="one")
    second = AnalyticOracle()
    result = run(tmp_path, second, tuner="random", study="two")
    assert second.measured == []
    assert len(result.trials) == 60
    assert all(t.measurement.cached for t in result.trials)


def test_other_rtl_means_another_study(tmp_path) -> None:
    run(tmp_path, AnalyticOracle())
    with pytest.raises(StoreError, match="oracle"):
        run(tmp_path, AnalyticOracle(identity="analytic-2"))


def test_an_improvement_is_tried_on_the_tasks_of_the_same_shape(tmp_path) -> None:
    twin = replace(TASKS[2], name="Cr", residual=True)
    result = run(tmp_path, configs=1, tasks=(TASKS[2], twin), budget=80)
    found: dict[str, dict[str, int]] = {"C": {}, "Cr": {}}
    for trial in result.trials:
        found[trial.task][str(trial.schedule)] = trial.sequence
    moved = [t for t in result.trials if t.origin == "transfer"]
    assert moved
    for trial in moved:
        other = "Cr" if trial.task == "C" else "C"
        assert found[other][str(trial.schedule)] < trial.sequence
    for task in result.tasks:  # the best of each is known to the other, too
        assert task.best is not None
        other = "Cr" if task.name == "C" else "C"
        assert str(task.best.schedule) in found[other]


def test_one_configuration_fixes_the_hardware(tmp_path) -> None:
    result = run(tmp_path, configs=1)
    assert Counter(t.config_hash for t in result.trials) == {f"{BASE.config_hash:08x}": 60}


@pytest.mark.parametrize("part", TUNERS.load(DEFAULT_TUNER).ablations)
def test_each_part_of_the_default_tuner_can_be_switched_off(tmp_path, part: str) -> None:
    whole = run(tmp_path / "a", tuner="tilewright")
    without = run(tmp_path / "b", tuner="tilewright", without=(part,))
    assert len(without.trials) == 60
    assert course(without) != course(whole)


def test_a_small_space_ends_before_the_budget(tmp_path) -> None:
    result = run(tmp_path, configs=1, tasks=(TASKS[2],), space="vta", budget=5000)
    assert len(result.trials) < 5000
    assert result.study.status == "complete"


def test_a_base_that_does_not_fit_is_refused(tmp_path) -> None:
    big = BASE.with_(name="big", block_in=64, block_out=64)
    with pytest.raises(StudyError, match=r"must fit test-board .*DSP 2048 of 220"):
        run(tmp_path, base=big)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"tasks": ()}, "layers"),
        ({"tuner": "magic"}, "tuner"),
        ({"space": "all"}, "space"),
        ({"budget": 2}, "budget"),
        ({"seed": -1}, "seed"),
        ({"configs": 0}, "configs"),
        ({"screen": "model"}, "screen"),
        ({"tuner": "tilewright", "without": ("magic",)}, "without"),
        ({"tuner": "random", "without": ("prior",)}, "without"),
        ({"tasks": (TASKS[0], TASKS[0])}, "tasks"),
    ],
)
def test_settings_that_cannot_work_are_refused(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(TilewrightError) as caught:
        make(**changes)
    assert isinstance(caught.value, SettingsError | TunerError)
    assert caught.value.field == field


def test_a_fault_of_the_machine_stores_nothing_and_the_study_goes_on_later(tmp_path) -> None:
    class Faulty(AnalyticOracle):
        def measure(self, requests):
            yield from super().measure(requests[:1])
            if len(self.measured) > 5:
                raise EnvironmentFaultError("no space left")
            yield from ((p + 1, a) for p, a in super().measure(requests[1:]))

    with pytest.raises(EnvironmentFaultError):
        run(tmp_path, Faulty())
    with Store(tmp_path / "s.sqlite") as store:
        assert store.study("s").status == "interrupted"
        assert all(t.measurement.valid for t in load_result(store, "s").trials)
    assert course(run(tmp_path)) == course(run(tmp_path, study="whole"))
