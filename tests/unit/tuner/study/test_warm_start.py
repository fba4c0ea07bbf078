# SPDX-License-Identifier: Apache-2.0
"""A warm start is a frozen reference to the trials of earlier studies."""

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.search.analytic_oracle import AnalyticOracle, course, run
from support.search.results import Found as StudyResult

from tilewright.cli.compile import _schedules
from tilewright.host.common.errors import StoreError
from tilewright.host.network.schedule import Schedule
from tilewright.interface.options import CompileOptions
from tilewright.testing.analytic import BASE, MEMORY, RULES, TASKS
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.options import Mode
from tilewright.tuner.study.warm_start import (
    SUGGESTED,
    WarmStart,
    WarmStartError,
    read_warm_start,
    split_source,
)


def study(
    folder: Path, name: str, oracle: AnalyticOracle | None = None, **changes: Any
) -> StudyResult:
    return run(folder, oracle, study=name, **changes)[0]


@pytest.fixture
def source(tmp_path) -> tuple[StudyResult, str]:
    """A study on fixed hardware, and how to name its store."""
    result = study(tmp_path, "first", configs=1, budget=90, allocator="round-robin")
    return result, str(tmp_path / "s.sqlite")


def best_schedule(result: StudyResult, task: str) -> Schedule:
    best = next(t.best for t in result.tasks if t.name == task)
    assert best is not None
    return Schedule.from_mapping(best.schedule)


def test_a_source_is_read_where_nothing_can_be_written(source, monkeypatch) -> None:
    """It was opened for writing: an archived store on a read-only medium was refused."""
    where = Path(source[1])
    monkeypatch.setattr(os, "access", lambda *_: False)
    beside: list[Path] = []
    close = Store.close

    def closing(store: Store) -> None:
        beside.extend(path for path in where.parent.iterdir() if path != where)
        close(store)

    monkeypatch.setattr(Store, "close", closing)
    assert len(read_warm_start(str(where)).trials) == 90
    with _schedules(BASE, MEMORY, CompileOptions(model="m.onnx", search=0, store=str(where))):
        pass
    assert not beside


@pytest.mark.parametrize("mode", list(Mode))
def test_the_best_schedules_of_the_source_are_measured_first(source, tmp_path, mode) -> None:
    result, store = source
    warm = read_warm_start(store)
    second = study(
        tmp_path / "second", "second", configs=1, mode=mode, warm_start=warm, tuner="random",
        allocator="round-robin",
    )  # fmt: skip
    for task in TASKS:
        mine = [t for t in second.trials if t.task == task.name]
        assert [t.origin for t in mine[: 1 + SUGGESTED]] == ["default", "transfer", "transfer"]
        assert Schedule.from_mapping(mine[1].schedule) == best_schedule(result, task.name)
    assert second.best_network is not None
    assert second.best_network <= (result.best_network or 0)


def test_suggests_a_few_schedules_of_the_same_shape_the_fastest_first(source) -> None:
    result, store = source
    warm = read_warm_start(f"{store}:first")
    found = warm.schedules(replace(TASKS[2], name="other", residual=True), BASE)
    assert len(found) == SUGGESTED
    assert found[0] == (BASE, best_schedule(result, "C"))
    assert warm.schedules(replace(TASKS[2], height=9, width=9), BASE) == []


def test_schedules_of_the_same_configuration_come_before_faster_ones_elsewhere(tmp_path) -> None:
    study(tmp_path, "first", configs=3, budget=150)
    warm = read_warm_start(str(tmp_path / "s.sqlite"))
    there, _ = warm.schedules(TASKS[0], BASE)[0]
    assert there == BASE
    others = {t.config_hash for t in warm.trials} - {f"{BASE.config_hash:08x}"}
    assert others, "the race has to have measured another configuration"


def test_a_study_resumes_from_what_it_started_from_when_the_source_has_grown(tmp_path) -> None:
    study(tmp_path, "first", configs=1, budget=40)
    store = str(tmp_path / "s.sqlite")
    warm = read_warm_start(store, name="second")
    whole = study(tmp_path / "whole", "second", warm_start=warm)
    with pytest.raises(KeyboardInterrupt):
        study(tmp_path, "second", AnalyticOracle(stop_after=20), warm_start=warm)
    study(tmp_path, "third", configs=1, budget=60, seed=3)
    assert read_warm_start(store, name="second").to_mapping() != warm.to_mapping()
    again = read_warm_start(store, name="second", earlier=warm.to_mapping())
    assert again == warm
    resumed = study(tmp_path, "second", warm_start=again)
    assert [entry[:5] for entry in course(resumed)] == [entry[:5] for entry in course(whole)]


def test_the_own_trials_of_a_study_do_not_count(source, tmp_path) -> None:
    _, store = source
    with pytest.raises(WarmStartError, match="no valid measurement"):
        read_warm_start(store, name="first")


def test_a_source_that_has_changed_is_refused(source) -> None:
    _, store = source
    earlier = read_warm_start(store).to_mapping() | {"digest": "0" * 16}
    with pytest.raises(WarmStartError, match="no longer there"):
        read_warm_start(store, earlier=earlier)


def test_unknown_stores_and_studies_are_refused_by_name(source, tmp_path) -> None:
    _, store = source
    with pytest.raises(StoreError, match="nothing"):
        read_warm_start(f"{store}:nothing")
    with pytest.raises(WarmStartError, match="no such trial store"):
        read_warm_start(str(tmp_path / "missing.sqlite"))


def test_experience_holds_costs_and_failures_by_task_and_configuration(source) -> None:
    result, store = source
    warm = read_warm_start(store)
    failed = replace(
        warm.trials[-1],
        measurement=replace(warm.trials[-1].measurement, status="failed", cycles=None),
    )
    warm = WarmStart(source="x", counts={}, trials=(*warm.trials[:-1], failed))
    found = warm.experience(RULES, "full")
    assert len(found) == len(TASKS)
    costs = np.concatenate([each.costs for each in found])
    assert len(costs) == len(result.trials)
    assert np.isinf(costs).sum() == 1 + sum(not t.measurement.valid for t in result.trials[:-1])


@pytest.mark.parametrize(
    ("source", "parts"),
    [
        ("a.sqlite", ("a.sqlite", "")),
        ("runs/a.sqlite:net/screen", ("runs/a.sqlite", "net/screen")),
        ("postgresql://u:p@host:5432/db", ("postgresql://u:p@host:5432/db", "")),
        ("postgresql://u:p@host:5432/db:net", ("postgresql://u:p@host:5432/db", "net")),
    ],
)
def test_a_source_names_a_store_and_maybe_a_study(source: str, parts: tuple[str, str]) -> None:
    assert split_source(source) == parts
