# SPDX-License-Identifier: Apache-2.0
"""The command of a report makes the settings of its study again."""

import shlex
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from tilewright.cli import app
from tilewright.host.machine.board import load_board, load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import Workload
from tilewright.host.network.zoo import load_network
from tilewright.tuner.report.page import repeat
from tilewright.tuner.store.records import StoredStudy
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
    answer = CliRunner().invoke(app, words[1:])
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
    words = shlex.split(again.command.replace("\\\n", ""))
    answer = CliRunner().invoke(app, words[1:])
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
    assert "tilewright tune mine.onnx --board pynq-z2.yaml" in again.command
    assert "--base pynq-16x16.yaml" in again.command
    assert "--memory pynq-z2.yaml" in again.command
    assert len(again.remarks) == 4
