# SPDX-License-Identifier: Apache-2.0
"""Whole studies on the analytic accelerator."""

from pathlib import Path
from typing import Any

from support.analytic_oracle import AnalyticOracle, Silent
from support.results import Found as StudyResult
from support.results import load_result

from tilewright.testing.analytic import BASE, BOARD, MEMORY, RULES, TASKS
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.settings import StudySettings
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
        **changes,
    }
    return StudySettings(**values)


def run(
    folder: Path,
    oracle: AnalyticOracle | None = None,
    *,
    seconds: float | None = None,
    listener: Silent | None = None,
    **changes: Any,
) -> tuple[StudyResult, str]:
    """The result, and the name of the study that holds it."""
    settings = make(**changes)
    with Store(folder / "s.sqlite") as store:
        study = run_study(
            "s",
            settings,
            store=store,
            oracle=oracle or AnalyticOracle(),
            rules=RULES,
            listener=listener or Silent(),
            screen=AnalyticOracle(identity="fast") if settings.screen == "twin" else None,
            seconds=seconds,
        )
        return load_result(store, study.name), study.name


def course(result: StudyResult) -> list[tuple[Any, ...]]:
    return [
        (t.sequence, t.task, t.origin, t.config_hash, str(t.schedule), t.measurement.cycles)
        for t in result.trials
    ]
