# SPDX-License-Identifier: Apache-2.0
"""A study's trials are a storage that Optuna reads."""

import sqlite3
from dataclasses import replace

import optuna
import pytest
from support.trials import SETTINGS, add, measured, request

from tilewright.host.common.errors import StoreError
from tilewright.tuner.measure.measurement import Measurement, Status
from tilewright.tuner.report import optuna_study
from tilewright.tuner.report.optuna_study import export_to_optuna
from tilewright.tuner.store.store import Store


@pytest.fixture
def trials(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        study = store.open_study("mine", SETTINGS, {}).id
        for number, cycles in enumerate((700, 500, 600)):
            add(store, study, number, request(number + 1), measured(cycles))
        failed = Measurement(
            status=Status.FAILED, fidelity="test", failure="no room", limit_cycles=9
        )
        add(store, study, 3, request(4), failed)
        yield store.trials(study)


def test_a_study_is_written_and_optuna_finds_its_best_trial(trials, tmp_path) -> None:
    path = tmp_path / "a folder" / "optuna.sqlite"
    assert export_to_optuna("mine", trials, path) == ["mine/S"]
    study = optuna.load_study(study_name="mine/S", storage=f"sqlite:///{path}")
    assert [t.state.name for t in study.trials] == ["COMPLETE"] * 3 + ["FAIL"]
    assert (study.best_value, study.best_params["tile_h"]) == (500.0, 2)
    assert study.best_params["loop_order"] == trials[1].schedule["loop_order"]
    assert study.trials[3].user_attrs["failure"] == "no room"
    assert all(t.datetime_start <= t.datetime_complete for t in study.trials)
    assert not list(path.parent.glob(".optuna-*"))


def test_the_trials_are_those_that_optuna_itself_would_have_written(trials, tmp_path) -> None:
    export_to_optuna("mine", trials, tmp_path / "ours.sqlite")
    ours = optuna.load_study(study_name="mine/S", storage=f"sqlite:///{tmp_path / 'ours.sqlite'}")
    copy = optuna.create_study(storage=f"sqlite:///{tmp_path / 'theirs.sqlite'}")
    copy.add_trials(ours.trials)
    contents = []
    for name in ("ours", "theirs"):
        with sqlite3.connect(tmp_path / f"{name}.sqlite") as base:
            tables = ("trials", "trial_values", "trial_params", "trial_user_attributes")
            rows = [base.execute(f"select * from {table}").fetchall() for table in tables]
            contents.append([sorted(row[1:] for row in each) for each in rows])
    assert contents[0] == contents[1]


def test_many_trials_of_several_layers_are_numbered_on(trials, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(optuna_study, "_ROWS", 3)
    many = [replace(trial, task=task) for task in ("A", "B") for trial in trials]
    export_to_optuna("mine", many, tmp_path / "o.sqlite")
    for task in ("A", "B"):
        study = optuna.load_study(
            study_name=f"mine/{task}", storage=f"sqlite:///{tmp_path / 'o.sqlite'}"
        )
        assert [trial.number for trial in study.trials] == [0, 1, 2, 3]
        assert study.best_value == 500


def test_a_file_that_exists_is_left_alone_and_an_empty_study_is_told(trials, tmp_path) -> None:
    path = tmp_path / "there"
    path.write_text("mine")
    with pytest.raises(StoreError, match="exists already"):
        export_to_optuna("mine", trials, path)
    assert path.read_text() == "mine"
    with pytest.raises(StoreError, match="no trials yet"):
        export_to_optuna("mine", [], tmp_path / "new")
