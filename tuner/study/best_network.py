# SPDX-License-Identifier: Apache-2.0
"""Configuration and schedules that a study's objective chooses, from its rows in the store alone.

`results.load_result` chooses by cycles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.workload import Workload
from tilewright.tuner.measure.energy import DEFAULT_ENERGY, EnergyModel, load_energy
from tilewright.tuner.store.records import StoredConfig, StoredTrial
from tilewright.tuner.study.goals import Goal, load_goal
from tilewright.tuner.study.objective import ObjectiveName
from tilewright.tuner.study.results import StudyResult, TaskResult


@dataclass(frozen=True, kw_only=True)
class Cost:
    """Cycles, energy and area of a trial or of a network."""

    cycles: int  # measured
    energy: float  # picojoules, a relative figure (`energy`)
    area: float  # mean share of the board's resources

    def value(self, goal: Goal, *, least_energy: float, base_area: float) -> float:
        """What the goal minimises."""
        return goal.value(float(self.cycles), self.energy / least_energy, self.area / base_area)


def energy_model(result: StudyResult) -> EnergyModel:
    """The energy model of a study."""
    return load_energy(result.settings.get("energy", DEFAULT_ENERGY))


def hw_of(trial: StoredTrial) -> HwConfig:
    """The configuration of a stored trial."""
    return HwConfig.from_mapping(trial.hw, origin=f"trial {trial.sequence}: hw")


def stored_share(config: StoredConfig, board: Mapping[str, Any]) -> float:
    """Mean share of a board's LUT, FF, block RAM and DSP that a stored configuration takes."""
    shares = [config.area[name] / board[name] for name in ("lut", "ff", "bram36", "dsp")]
    return float(sum(shares) / len(shares))


def cost_of(trial: StoredTrial, area: float, model: EnergyModel | None = None) -> Cost:
    """Cost of a valid trial on a configuration of that area, by the study's energy model."""
    measured = trial.measurement
    energy = (model or load_energy()).energy_pj(hw_of(trial), measured.counters)
    return Cost(cycles=measured.cycles or 0, energy=energy, area=area)


def chosen_by_objective(result: StudyResult) -> StudyResult:
    """A study's result with configuration and schedules chosen by its objective."""
    objective = result.settings.get("objective", ObjectiveName.LATENCY)
    if objective == ObjectiveName.LATENCY:
        return result
    goal, model = load_goal(objective), energy_model(result)
    board = result.settings["board"]
    areas = {config.config_hash: stored_share(config, board) for config in result.configs}
    counts = result.counts
    base_area = areas.get(f"{HwConfig(**result.settings['base']).config_hash:08x}", 1.0)
    least = {
        task["name"]: model.least_energy_pj(Workload.from_mapping(task))
        for task in result.settings["tasks"]
    }

    def value_of(trial: StoredTrial) -> float:
        cost = cost_of(trial, areas[trial.config_hash], model)
        return cost.value(goal, least_energy=least[trial.task], base_area=base_area)

    if not result.shared:
        return _with_best(result, _best(result.front, value_of))
    found: list[tuple[float, int, StoredConfig, dict[str, StoredTrial]]] = []
    for number, config in enumerate(result.configs):
        mine = [t for t in result.front if t.config_hash == config.config_hash]
        best = _best(mine, value_of)
        if len(best) == len(counts):
            area = areas[config.config_hash]
            costs = {name: cost_of(trial, area, model) for name, trial in best.items()}
            network = Cost(
                cycles=sum(cost.cycles * counts[name] for name, cost in costs.items()),
                energy=sum(cost.energy * counts[name] for name, cost in costs.items()),
                area=area,
            )
            whole = sum(least[name] * counts[name] for name in counts)
            value = network.value(goal, least_energy=whole, base_area=base_area)
            found.append((value, number, config, best))
    if not found:
        return result
    _, _, config, best = min(found, key=lambda entry: entry[:2])
    return replace(_with_best(result, best), chosen=config)


def _best(
    trials: Sequence[StoredTrial], value_of: Callable[[StoredTrial], float]
) -> dict[str, StoredTrial]:
    """The best trial of each task among those of the front.

    No objective falls with cycles or with energy (`Goal.value`), so no other trial is better.
    """
    best: dict[str, tuple[float, StoredTrial]] = {}
    for trial in trials:
        value = value_of(trial)
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
