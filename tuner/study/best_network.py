# SPDX-License-Identifier: Apache-2.0
"""Configuration and schedules that a study's objective chooses, from its rows in the store alone.

`results.load_result` chooses by cycles. Scales that are equal for all candidates are left out, so
values here are not those of `objective.Objective`, but their order is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.tuner.measure.energy import energy_pj
from tilewright.tuner.store.records import StoredConfig, StoredTrial
from tilewright.tuner.study.objective import ObjectiveName
from tilewright.tuner.study.results import StudyResult, TaskResult


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cycles, energy and area of a trial or of a network.

    Attributes:
        cycles: measured.
        energy: picojoules, a relative figure (`energy`).
        area: mean share of the board's resources.
    """

    cycles: int
    energy: float
    area: float

    def value(self, objective: ObjectiveName) -> float:
        """What the objective minimises, up to a factor."""
        if objective is ObjectiveName.EDP:
            return self.cycles * self.energy
        return self.cycles * (self.area if objective is ObjectiveName.AREA else 1.0)


def hw_of(trial: StoredTrial) -> HwConfig:
    """The configuration of a stored trial."""
    return HwConfig(**trial.hw)


def stored_share(config: StoredConfig, board: Mapping[str, Any]) -> float:
    """Mean share of a board's LUT, FF, block RAM and DSP that a stored configuration takes."""
    shares = [config.area[name] / board[name] for name in ("lut", "ff", "bram36", "dsp")]
    return float(sum(shares) / len(shares))


def cost_of(trial: StoredTrial, area: float) -> Cost:
    """Cost of a valid trial on a configuration of that area."""
    measured = trial.measurement
    energy = energy_pj(hw_of(trial), measured.counters)
    return Cost(cycles=measured.cycles or 0, energy=energy, area=area)


def chosen_by_objective(result: StudyResult) -> StudyResult:
    """A study's result with configuration and schedules chosen by its objective."""
    objective = ObjectiveName(result.settings.get("objective", "latency"))
    if objective is ObjectiveName.LATENCY:
        return result
    board = result.settings["board"]
    areas = {config.config_hash: stored_share(config, board) for config in result.configs}
    counts = result.counts
    if not result.shared:
        return _with_best(result, _best(result.front, areas, objective))
    found: list[tuple[float, int, StoredConfig, dict[str, StoredTrial]]] = []
    for number, config in enumerate(result.configs):
        mine = [t for t in result.front if t.config_hash == config.config_hash]
        best = _best(mine, areas, objective)
        if len(best) == len(counts):
            area = areas[config.config_hash]
            costs = {name: cost_of(trial, area) for name, trial in best.items()}
            network = Cost(
                cycles=sum(cost.cycles * counts[name] for name, cost in costs.items()),
                energy=sum(cost.energy * counts[name] for name, cost in costs.items()),
                area=area,
            )
            found.append((network.value(objective), number, config, best))
    if not found:
        return result
    _, _, config, best = min(found, key=lambda entry: entry[:2])
    return replace(_with_best(result, best), chosen=config)


def _best(
    trials: Sequence[StoredTrial], areas: Mapping[str, float], objective: ObjectiveName
) -> dict[str, StoredTrial]:
    """The best trial of each task among those of the front.

    Every objective grows with cycles and with energy, so no other trial can be the best.
    """
    best: dict[str, tuple[float, StoredTrial]] = {}
    for trial in trials:
        value = cost_of(trial, areas[trial.config_hash]).value(objective)
        if trial.task not in best or value < best[trial.task][0]:
            best[trial.task] = (value, trial)
    return {name: trial for name, (_, trial) in best.items()}


def _with_best(result: StudyResult, best: Mapping[str, StoredTrial]) -> StudyResult:
    """The result with other best trials, and what follows from them."""
    bounds = {config.config_hash: config.bounds for config in result.configs}

    def with_best(task: TaskResult) -> TaskResult:
        trial = best.get(task.name)
        bound = None if trial is None else bounds.get(trial.config_hash, {}).get(task.name)
        return replace(task, best=trial, bound=bound)

    tasks = tuple(with_best(task) for task in result.tasks)
    return replace(
        result,
        tasks=tasks,
        best_network=_total([(task.best_cycles, task.count) for task in tasks]),
        bound_network=_total([(task.bound, task.count) for task in tasks]),
    )


def _total(parts: Sequence[tuple[int | None, int]]) -> int | None:
    if any(cycles is None for cycles, _ in parts):
        return None
    return sum((cycles or 0) * count for cycles, count in parts)
