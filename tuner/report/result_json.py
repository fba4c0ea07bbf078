# SPDX-License-Identifier: Apache-2.0
"""The result of a study as JSON: what the printed summary says, and the Pareto archive."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tilewright.host.common.errors import StoreError
from tilewright.host.common.whole_file import write_whole
from tilewright.tuner.report.pareto import Point
from tilewright.tuner.study.results import StudyResult


def result_mapping(result: StudyResult, archive: Sequence[Point]) -> dict[str, Any]:
    """Plain values: network, tasks, conditions, archive.

    Args:
        result: of the study.
        archive: networks that no other one beats.
    """
    settings = result.settings
    chosen = result.chosen
    return {
        "study": result.study.name,
        "status": result.study.status,
        "model": settings["model"],
        "board": settings["board"]["name"],
        "memory": settings["memory"]["name"],
        "mode": settings["mode"],
        "tuner": settings["tuner"],
        "allocator": settings.get("allocator"),
        "objective": settings.get("objective", "latency"),
        "fidelity": settings["fidelity"],
        "seed": settings["seed"],
        "trials": result.summary.count,
        "config": None if chosen is None else dict(chosen.hw),
        "default_cycles": result.default_network,
        "best_cycles": result.best_network,
        "bound_cycles": result.bound_network,
        "tasks": [
            {
                "name": task.name,
                "count": task.count,
                "default_cycles": task.default_cycles,
                "best_cycles": task.best_cycles,
                "bound_cycles": task.bound,
                "config_hash": None if task.best is None else task.best.config_hash,
                "schedule": None if task.best is None else dict(task.best.schedule),
            }
            for task in result.tasks
        ],
        "pareto": [point.to_mapping() for point in archive],
    }


def write_json(result: StudyResult, archive: Sequence[Point], path: Path) -> Path:
    """Write the result.

    Raises:
        StoreError: the file cannot be written.
    """
    text = json.dumps(result_mapping(result, archive), indent=1, sort_keys=True) + "\n"
    try:
        write_whole(path, text)
    except OSError as error:
        raise StoreError(
            f"the result cannot be written ({error.strerror})",
            field=str(path),
            remedy="name a writable file with --json",
        ) from error
    return path
