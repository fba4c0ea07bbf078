# SPDX-License-Identifier: Apache-2.0
"""The result of a study as plain values: what the printed summary says, for `--json`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from tilewright.tuner.exhaustive.prove import Proof
from tilewright.tuner.study.results import StudyResult, TaskResult


def report_path(study: str, runs: Path) -> Path:
    """The report of a study in its folder; a terminal may show the name.

    Slashes in the name are folders, so that no two studies share a file.
    """
    shown = "".join(c if c.isprintable() else "_" for c in study)
    *folders, name = (part if part.strip(".") else "_" for part in shown.split("/"))
    return runs.joinpath(*folders, f"{name}.html")


_PROOF: Final = ("cycles", "bound", "within", "points", "excluded", "run", "seconds")
"""What is told of a proof as it is stored; what it proves depends on the best that was measured."""


def task_rows(result: StudyResult) -> list[dict[str, Any]]:
    """A row for each layer; cycles are None where no measurement is valid."""
    return [
        {
            "name": task.name,
            "count": task.count,
            "default_cycles": task.default_cycles,
            "best_cycles": task.best_cycles,
            "bound_cycles": task.bound,
            "gap": task.gap,
            "proof": None if task.proof is None else _proof_row(task, task.proof),
            "config_hash": None if task.best is None else task.best.config_hash,
            "schedule": None if task.best is None else dict(task.best.schedule),
            "runs": None
            if task.best is None or task.best.measurement.runs is None
            else asdict(task.best.measurement.runs),
        }
        for task in result.tasks
    ]


def _proof_row(task: TaskResult, proof: Proof) -> dict[str, Any]:
    return {name: getattr(proof, name) for name in _PROOF} | {"proven": task.within(proof.within)}


def conditions_of(result: StudyResult) -> dict[str, Any]:
    """What the study was."""
    settings = result.settings
    return {
        "study": result.study.name,
        "model": settings["model"],
        "board": settings["board"]["name"],
        "memory": settings["memory"]["name"],
        "mode": settings["mode"],
        "tuner": settings["tuner"],
        "allocator": settings.get("allocator"),
        "objective": settings.get("objective", "latency"),
        "space": settings["space"],
        "fidelity": settings["fidelity"],
        "seed": settings["seed"],
        "within": result.tolerance,
        "asynchronous": settings.get("asynchronous", 0),
    }


def summary_of(result: StudyResult) -> dict[str, Any]:
    """The network: cycles by default, found, and the bound."""
    chosen = result.chosen
    return {
        "status": result.study.status,
        "trials": result.summary.count,
        "config": None if chosen is None else dict(chosen.hw),
        "default_cycles": result.default_network,
        "best_cycles": result.best_network,
        "bound_cycles": result.bound_network,
        "unproven": [task.name for task in result.unproven],
        "saved_measurements": result.saved,
    }
