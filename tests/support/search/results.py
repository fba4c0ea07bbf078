# SPDX-License-Identifier: Apache-2.0
"""Results of studies with all their trials, and what follows from these one by one.

The product lets the database count; the functions here are the independent model of that.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

from tilewright.tuner.store.store import Store, StoredTrial
from tilewright.tuner.study import results
from tilewright.tuner.study.results import StudyResult


@dataclass(frozen=True, kw_only=True)
class Found(StudyResult):
    """A result beside the trials that it was worked out from."""

    trials: tuple[StoredTrial, ...] = ()


def load_result(store: Store, name: str) -> Found:
    return _with_trials(store, results.load_result(store, name))


def _with_trials(store: Store, result: StudyResult) -> Found:
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    if result.screening is not None:
        values["screening"] = _with_trials(store, result.screening)
    return Found(**values, trials=tuple(store.trials(result.study.id)))


def task_curve(trials: Sequence[StoredTrial], task: str) -> list[tuple[int, int]]:
    curve: list[tuple[int, int]] = []
    for trial in trials:
        cycles = trial.measurement.cycles
        if trial.task != task or not trial.measurement.valid or cycles is None:
            continue
        if not curve or cycles < curve[-1][1]:
            curve.append((trial.sequence + 1, cycles))
    return curve


def network_curve(
    trials: Sequence[StoredTrial], counts: Mapping[str, int], *, shared: bool
) -> list[tuple[int, int]]:
    best: dict[str, dict[str, int]] = {}
    curve: list[tuple[int, int]] = []
    for trial in trials:
        cycles = trial.measurement.cycles
        if not trial.measurement.valid or cycles is None:
            continue
        arm = best.setdefault(trial.config_hash if shared else "", {})
        arm[trial.task] = min(cycles, arm.get(trial.task, cycles))
        if len(arm) == len(counts):
            total = sum(arm[task] * count for task, count in counts.items())
            if not curve or total < curve[-1][1]:
                curve.append((trial.sequence + 1, total))
    return curve
