# SPDX-License-Identifier: Apache-2.0
"""The command of a report makes the settings of its study again."""

import shlex
import sqlite3
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import optuna
import pytest
from support.command_line import call
from support.search.trials import SETTINGS, add, measured, request

from tilewright.host.common.errors import StoreError
from tilewright.host.machine.board import load_board, load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import Workload
from tilewright.host.network.zoo import load_network
from tilewright.tuner.measure.measurement import Measurement, Status
from tilewright.tuner.report import optuna_study
from tilewright.tuner.report.optuna_study import export_to_optuna
from tilewright.tuner.report.page import repeat
from tilewright.tuner.report.result_json import report_path
from tilewright.tuner.store.records import StoredStudy
from tilewright.tuner.store.store import Store
from tilewright.tuner.store.summary import TrialSummary
from tilewright.tuner.study.objective import ObjectiveName
from tilewright.tuner.study.options import Mode, TuneOptions
from tilewright.tuner.study.prepare import prepare_settings
from tilewright.tuner.study.results import StudyResult
from tilewright.tuner.study.settings import StudySettings

PLAIN = StudySettings(
    model="resnet18",
    tasks=load_network("resnet18").workloads,
    cpu_operators=load_network("resnet18").cpu_operators,
    board=load_board("pynq-z2"),
    memory=load_board("pynq-z2").memory,
    base=load_hwconfig("pynq-16x16"),
    screen="twin",
)


def result_of(settings: StudySettings, fidelity: str = "rtl") -> StudyResult:
    """A study that has its settings alone; one that screens stands beside its search."""

    def study(name: str, measured_on: str, screening: StudyResult | None) -> StudyResult:
        stored = {**settings.to_mapping(), "fidelity": measured_on}
        if screening is not None:
            stored["budget"] = 3  # of the confirmation
        return StudyResult(
            study=StoredStudy(
                id=1, name=name, settings=stored, versions={}, status="complete", created="2026"
            ),
            tasks=(), configs=(), front=(), failures=(), mismatches=(), chosen=None,
            summary=TrialSummary(
                trials={}, valid={}, statuses={}, cached=0, last={}, improvements=()
            ),
            default_network=None, best_network=None, bound_network=None, screening=screening,
        )  # fmt: skip

    search = study("s/screen", "twin", None) if settings.screen == "twin" else None
    return study("s", fidelity, search)


def of_layers(tasks: Sequence[Workload]) -> dict[str, Any]:
    """Settings that differ when some layers are named."""
    found = prepare_settings(TuneOptions(PLAIN.model, layers=[task.name for task in tasks]))
    names = ("tasks", "cpu_operators", "cpu_macs")
    return {name: getattr(found, name) for name in names}


@pytest.mark.parametrize(
    ("changes", "fidelity"),
    [
        ({}, "rtl"),
        (of_layers(PLAIN.tasks[2:5]), "rtl"),
        ({"configs": 1, "base": load_hwconfig("tiny-4x4")}, "rtl"),
        ({"memory": load_memory("ideal"), "seed": 7, "budget": 99}, "timing"),
        ({"screen": "none"}, "twin"),
        ({"screen": "none"}, "dpi"),
        ({"mode": Mode.PER_LAYER, "space": "vta", "tuner": "random", "configs": 2}, "rtl"),
        ({"energy": "tilewright.tuner.measure.energy:CounterEnergy"}, "rtl"),
        ({"objective": ObjectiveName.EDP, "without": ("prior", "descent")}, "rtl"),
    ],
)
def test_the_command_makes_the_same_settings(monkeypatch, changes, fidelity) -> None:
    found = {}
    monkeypatch.setattr(
        "tilewright.cli.tune.run_tune",
        lambda settings, options, _: found.update(settings=settings, options=options),
    )
    wanted = replace(PLAIN, **changes)
    again = repeat(result_of(wanted, fidelity))
    assert again.remarks == ()
    words = shlex.split(again.command.replace("\\\n", ""))  # as a shell reads it
    assert words[:1] == ["tilewright"]
    answer = call(*words[1:])
    assert answer.exit_code == 0, answer.output
    assert found["settings"].to_mapping() == wanted.to_mapping()
    assert (found["options"].name, found["options"].fidelity) == ("s", fidelity)


def test_a_study_on_a_users_rtl_tells_its_digest() -> None:
    again = repeat(result_of(replace(PLAIN, rtl="0123456789ab")))
    assert "--rtl mine/tilewright.f" in again.command
    assert "0123456789ab" in again.remarks[0]


@pytest.mark.parametrize("screen", ["none", "twin"])
def test_a_study_on_boards_names_their_pool_and_bitstreams(monkeypatch, screen: str) -> None:
    """The command was refused: fidelity board goes with a pool of boards."""
    found = {}
    monkeypatch.setattr(
        "tilewright.cli.tune.run_tune",
        lambda settings, options, _: found.update(settings=settings, options=options),
    )
    wanted = replace(PLAIN, screen=screen, configs=1, base=load_hwconfig("tiny-4x4"))
    again = repeat(result_of(wanted, "board"))
    assert ["pool.yaml" in remark for remark in again.remarks] == [True]
    answer = call(*shlex.split(again.command.replace("\\\n", ""))[1:])
    assert answer.exit_code == 0, answer.output
    assert found["settings"].to_mapping() == wanted.to_mapping()
    assert (found["options"].fidelity, str(found["options"].boards)) == ("board", "pool.yaml")
    built = replace(wanted, built=(PLAIN.base,), bitstreams={"0": "1"})
    again = repeat(result_of(built, "board"))
    assert "--bitstreams bitstreams" in again.command
    assert len(again.remarks) == 2


def test_a_study_that_was_stopped_is_repeated_as_a_whole_and_says_so() -> None:
    """The name of what was confirmed by then was given to the whole."""
    whole = result_of(PLAIN)
    assert whole.screening is not None
    stopped = replace(
        whole,
        study=replace(whole.study, name="s/at-0"),
        screening=replace(whole.screening, study=replace(whole.screening.study, status="stopped")),
    )
    again = repeat(stopped)
    assert again.command.endswith("--name s")
    assert again.remarks == (
        "The study has 0 measurements of a budget of 240; the command makes them all.",
    )


def test_what_has_no_name_is_a_file_that_a_remark_tells_of() -> None:
    odd = replace(
        PLAIN,
        model="mine",
        board=replace(PLAIN.board, dsp=100),
        memory=replace(PLAIN.memory, read_latency=99),
        base=replace(PLAIN.base, vector_lanes=8),
    )
    again = repeat(result_of(odd))
    assert "tilewright tune path/to/mine --board pynq-z2.yaml" in again.command
    assert "--base pynq-16x16.yaml" in again.command
    assert "--memory pynq-z2.yaml" in again.command
    assert len(again.remarks) == 4


# -- A study's trials are a storage that Optuna reads ---------------------------------------------


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
    optuna.create_study(storage=f"sqlite:///{tmp_path / 'theirs.sqlite'}").add_trials(ours.trials)
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


# -- files of reports: no two studies share one, and none lies outside its folder -----------------

RUNS = Path("runs")


def test_names_that_differ_in_a_slash_have_files_of_their_own() -> None:
    names = ("a/b", "a_b", "x/screen", "x_screen")
    assert len({report_path(name, RUNS) for name in names}) == len(names)
    assert report_path("a/b", RUNS) == RUNS / "a" / "b.html"


@pytest.mark.parametrize("name", ["/etc/x", "../../x", "a/../../x", "..", ".", "/"])
def test_no_name_leaves_the_folder(name: str) -> None:
    assert ".." not in report_path(name, RUNS).parts
    assert report_path(name, RUNS).is_relative_to(RUNS)


def test_control_characters_are_not_in_the_name_of_a_file() -> None:
    assert report_path("a\x1b[2Jb", RUNS) == RUNS / "a_[2Jb.html"
