# SPDX-License-Identifier: Apache-2.0
"""A screened study searches on one oracle, confirms on another, and compares their counters."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.analytic_oracle import AnalyticOracle, Silent
from support.results import Found as StudyResult
from support.results import load_result

from tilewright.host.common.errors import StoreError
from tilewright.host.network.schedule import Schedule
from tilewright.testing.analytic import BASE, BOARD, MEMORY, RULES, TASKS, cycles_of
from tilewright.tuner.measure.measurement import Measurement, Request
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.options import Mode
from tilewright.tuner.study.results import screening_name
from tilewright.tuner.study.session import StudyError
from tilewright.tuner.study.settings import SettingsError, StudySettings
from tilewright.tuner.study.study import run_study

BUDGET = 60


def make(**changes: Any) -> StudySettings:
    values: dict[str, Any] = {
        "model": "net",
        "tasks": TASKS,
        "board": BOARD,
        "memory": MEMORY,
        "base": BASE,
        "budget": BUDGET,
        "configs": 3,
        "batch": 4,
        "tuner": "coordinate",
        "screen": "twin",
        **changes,
    }
    return StudySettings(**values)


def run(
    folder: Path,
    *,
    screen: AnalyticOracle | None = None,
    oracle: AnalyticOracle | None = None,
    listener: Silent | None = None,
    **changes: Any,
) -> tuple[StudyResult, StudyResult]:
    """The confirmed and the screened study."""
    with Store(folder / "s.sqlite") as store:
        run_study(
            "s",
            make(**changes),
            store=store,
            oracle=oracle or AnalyticOracle(identity="slow-1"),
            rules=RULES,
            listener=listener or Silent(),
            screen=screen or AnalyticOracle(identity="fast-1"),
        )
        return load_result(store, "s"), load_result(store, screening_name("s"))


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
        run_study(
            "s",
            make(),
            store=store,
            oracle=AnalyticOracle(),
            rules=RULES,
            listener=Silent(),
        )
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
