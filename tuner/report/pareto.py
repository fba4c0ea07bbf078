# SPDX-License-Identifier: Apache-2.0
"""The networks of a study that no other one beats in latency, energy and area at once.

Cycles and energies of a network are sums over its tasks, so on one configuration the networks on
the convex hull of the front are found by weighing the two: for each weight, every task takes the
schedule with the least weighted sum. Networks inside the hull are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilewright.tuner.store.records import StoredConfig, StoredTrial
from tilewright.tuner.study.best_network import Cost, cost_of, energy_model, stored_share
from tilewright.tuner.study.results import StudyResult

WEIGHTS: Final = tuple(step / 16 for step in range(17))
"""Shares of energy in the weighted sum."""


@dataclass(frozen=True, kw_only=True)
class Point:
    """A network of a study."""

    config: str  # label of its configuration
    config_hash: str  # identity of the configuration
    cycles: int  # of the network
    energy: float  # picojoules of the network, a relative figure (`energy`)
    area: float  # mean share of the board's resources
    schedules: Mapping[str, Mapping[str, Any]]  # task names to schedules

    def beats(self, other: Point) -> bool:
        """Whether it is nowhere worse and somewhere better."""
        mine = (self.cycles, self.energy, self.area)
        theirs = (other.cycles, other.energy, other.area)
        return mine != theirs and all(a <= b for a, b in zip(mine, theirs, strict=True))

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
    kept = [p for p in points.values() if not any(q.beats(p) for q in points.values())]
    return sorted(kept, key=lambda p: (p.cycles, p.energy, p.area))


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


def pareto_lines(points: Sequence[Point]) -> list[str]:
    """The archive as text: each network against the one of the fewest cycles."""
    if not points:
        return []
    lines = ["Pareto front of the networks in cycles, energy (relative) and area share:"]
    first = points[0]
    for point in points:
        lines.append(
            f"  {point.cycles:,} cycles, energy {point.energy / first.energy:.3f}, "
            f"area {100 * point.area:.0f} %: {point.config}"
        )
    return lines
