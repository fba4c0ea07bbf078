# SPDX-License-Identifier: Apache-2.0
"""The networks of a study that no other one beats in latency, energy and area at once.

Cycles and energies of a network are sums over its tasks, so on one configuration the networks on
the convex hull of the front are found by weighing the two: for each weight, every task takes the
schedule with the least weighted sum. Networks inside the hull are left out.

The hypervolume of the archive is a share of a box that no result decides, so that studies of a
network, a board and a base configuration can be compared: from 0 to `BOX` times the cycles and the
energy of the untuned network on the base configuration, and to the whole board.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tilewright.tuner.search.fronts import Floats, front, hypervolume
from tilewright.tuner.store.records import StoredConfig, StoredTrial
from tilewright.tuner.study.best_network import Cost, cost_of, energy_model, stored_share
from tilewright.tuner.study.results import StudyResult

WEIGHTS: Final = tuple(step / 16 for step in range(17))
"""Shares of energy in the weighted sum."""

BOX: Final = 2
"""A network that takes more cycles or energy than so many untuned ones is no alternative."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A network of a study."""

    config: str  # label of its configuration
    config_hash: str  # identity of the configuration
    cycles: int  # of the network
    energy: float  # picojoules of the network, a relative figure (`energy`)
    area: float  # mean share of the board's resources
    schedules: Mapping[str, Mapping[str, Any]]  # task names to schedules

    def to_mapping(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "config": self.config,
            "config_hash": self.config_hash,
            "cycles": self.cycles,
            "energy_pj": self.energy,
            "area_share": self.area,
            "schedules": {name: dict(schedule) for name, schedule in self.schedules.items()},
        }


def pareto(result: StudyResult) -> list[Point]:
    """The archive of a study in shared mode, fewest cycles first; empty in per-layer mode."""
    if not result.shared:
        return []
    points: dict[tuple[int, float, float], Point] = {}
    for config in result.configs:
        for point in _networks(result, config):
            points.setdefault((point.cycles, point.energy, point.area), point)
    found = list(points.values())
    return [found[place] for place in front(_costs(found))]


def dominated_share(result: StudyResult, points: Sequence[Point]) -> float | None:
    """Hypervolume of an archive as a share of its box; None: it has no untuned network."""
    tasks = [(result.untuned.get(task.name), task.count) for task in result.tasks]
    measured = [(trial, count) for trial, count in tasks if trial is not None]
    if not points or len(measured) < len(tasks):
        return None
    model = energy_model(result)
    costs = [(cost_of(trial, 1.0, model), count) for trial, count in measured]
    reference = np.array(
        [
            BOX * sum(cost.cycles * count for cost, count in costs),
            BOX * sum(cost.energy * count for cost, count in costs),
            1.0,
        ]
    )
    return hypervolume(_costs(points), reference) / float(reference.prod())


def _costs(points: Sequence[Point]) -> Floats:
    """Cycles, energy and area, shape (points, 3)."""
    return np.array([(p.cycles, p.energy, p.area) for p in points]).reshape(-1, 3)


def _networks(result: StudyResult, config: StoredConfig) -> list[Point]:
    """Networks on the hull of a configuration's front; none when a task has no valid trial."""
    area = stored_share(config, result.settings["board"])
    counts = {task.name: task.count for task in result.tasks}
    model = energy_model(result)
    trials: dict[str, list[tuple[Cost, StoredTrial]]] = {name: [] for name in counts}
    for trial in result.front:
        if trial.config_hash == config.config_hash:
            trials[trial.task].append((cost_of(trial, area, model), trial))
    if not all(trials.values()):
        return []
    least_cycles = sum(min(c.cycles for c, _ in found) * counts[n] for n, found in trials.items())
    least_energy = sum(min(c.energy for c, _ in found) * counts[n] for n, found in trials.items())

    def best_of(found: Sequence[tuple[Cost, StoredTrial]], weight: float) -> int:
        def weighted(position: int) -> tuple[float, int]:
            cost = found[position][0]
            share = (1 - weight) * cost.cycles / least_cycles + weight * cost.energy / least_energy
            return share, cost.cycles

        return min(range(len(found)), key=weighted)

    networks = []
    for weight in WEIGHTS:
        best = {name: found[best_of(found, weight)] for name, found in trials.items()}
        networks.append(
            Point(
                config=str(config.hw["name"]),
                config_hash=config.config_hash,
                cycles=sum(cost.cycles * counts[name] for name, (cost, _) in best.items()),
                energy=sum(cost.energy * counts[name] for name, (cost, _) in best.items()),
                area=area,
                schedules={name: trial.schedule for name, (_, trial) in best.items()},
            )
        )
    return networks


def pareto_lines(points: Sequence[Point], share: float | None = None) -> list[str]:
    """The archive as text: each network against the one of the fewest cycles, and `share`."""
    if not points:
        return []
    lines = ["Pareto front of the networks in cycles, energy (relative) and area share:"]
    first = points[0]
    for point in points:
        lines.append(
            f"  {point.cycles:,} cycles, energy {point.energy / first.energy:.3f}, "
            f"area {100 * point.area:.0f} %: {point.config}"
        )
    if share is not None:
        lines.append(
            f"hypervolume {share:.4f} of the box up to {BOX} times the untuned network's cycles "
            "and energy, and to the whole board"
        )
    return lines
