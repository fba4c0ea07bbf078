# SPDX-License-Identifier: Apache-2.0
"""The networks of a study that no other one beats in latency, energy and area at once.

Cycles and energies of a network are sums over its tasks. So on one configuration the front of the
networks is the front of all sums of one schedule for each task, taken in task by task.

The hypervolume of the archive is a share of a box that no result decides, so that studies of a
network, a board and a base configuration can be compared: from 0 to `BOX` times the cycles and the
energy of the untuned network on the base configuration, and to the whole board.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from tilewright.tuner.search.fronts import Floats, Ints, front, hypervolume
from tilewright.tuner.store.records import StoredConfig, StoredTrial
from tilewright.tuner.study.best_network import Cost, cost_of, energy_model, stored_share
from tilewright.tuner.study.results import StudyResult

MOST_SUMS: Final = 2048
"""Sums on the front of some tasks that the next task is added to; of more, evenly spread ones."""

MOST: Final = 256
"""Networks of an archive; of more, evenly spread ones."""

SHOWN: Final = 12
"""Networks that a terminal is told of."""

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
    found = [point for config in result.configs for point in _networks(result, config)]
    places = front(_costs(found))
    return [found[place] for place in places[_spread(len(places), MOST)]]


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
    """The front of a configuration's networks; none when a task has no valid trial."""
    area = stored_share(config, result.settings["board"])
    model = energy_model(result)
    trials: dict[str, list[tuple[Cost, StoredTrial]]] = {task.name: [] for task in result.tasks}
    for trial in result.front:
        if trial.config_hash == config.config_hash:
            trials[trial.task].append((cost_of(trial, area, model), trial))
    if not all(trials.values()):
        return []
    sums, chosen = np.zeros((1, 2)), np.zeros((1, 0), dtype=np.int64)
    for task in result.tasks:
        own = np.array([(cost.cycles, cost.energy) for cost, _ in trials[task.name]]) * task.count
        every = (sums[:, None] + own).reshape(-1, 2)
        places = front(every)
        places = places[_spread(len(places), MOST_SUMS)]
        before, last = np.divmod(places, len(own))
        sums, chosen = every[places], np.column_stack([chosen[before], last])
    return [
        Point(
            config=str(config.hw["name"]),
            config_hash=config.config_hash,
            cycles=int(cycles),
            energy=float(energy),
            area=area,
            schedules={
                name: found[place][1].schedule
                for (name, found), place in zip(trials.items(), row, strict=True)
            },
        )
        for (cycles, energy), row in zip(sums, chosen, strict=True)
    ]


def _spread(count: int, most: int) -> Ints:
    """Positions of at most so many of a sequence, its ends among them."""
    places: Ints = np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)
    return places


def pareto_lines(points: Sequence[Point], share: float | None = None) -> list[str]:
    """The archive as text: each network against the one of the fewest cycles, and `share`."""
    if not points:
        return []
    lines = ["Pareto front of the networks in cycles, energy (relative) and area share:"]
    first, shown = points[0], _spread(len(points), SHOWN)
    for point in (points[place] for place in shown):
        lines.append(
            f"  {point.cycles:,} cycles, energy {point.energy / first.energy:.3f}, "
            f"area {100 * point.area:.0f} %: {point.config}"
        )
    if left := len(points) - len(shown):
        lines.append(f"  and {left:,} between them, which the report lists")
    if share is not None:
        lines.append(
            f"hypervolume {share:.4f} of the box up to {BOX} times the untuned network's cycles "
            "and energy, and to the whole board"
        )
    return lines
