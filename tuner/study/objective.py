# SPDX-License-Identifier: Apache-2.0
"""What a study minimises: `latency`, `edp` (energy-delay product), `area` (area-delay) or `front`.

Every value is in *cycles of a kind*, never below the cycles themselves where that matters: a
search, a prior and an allocator that know cycles and their bounds serve the other objectives too.

- ``latency``: cycles.
- ``edp``: cycles x energy / least energy. The least energy depends on the task alone, so this is
  the energy-delay product in another unit, and cycles are a lower bound of it. A network's is the
  sum of cycles times the sum of energies: not the sum of its tasks' products, which each search
  minimises for want of the others' results.
- ``area``: cycles x resource share / resource share of the base configuration. The share is the
  mean of LUT, FF, block RAM and DSP over the board's. On fixed hardware this is latency.
- ``front``: edp on each of some configurations, which lie between the fastest and the smallest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tilewright.host.machine.area import Area
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.workload import Workload
from tilewright.tuner.measure.energy import EnergyModel, load_energy
from tilewright.tuner.measure.measurement import Measurement, hw_key
from tilewright.tuner.schedule.rules import Rules
from tilewright.tuner.study.goals import load_goal

_AREA_POWERS: Final = (0.0, 1.0, 3.0)
"""How much area counts beside cycles in the choice of configurations for a front."""


class ObjectiveName(StrEnum):
    """The objectives that are built in (`goals.OBJECTIVES`)."""

    LATENCY = "latency"
    EDP = "edp"
    AREA = "area"
    FRONT = "front"


@dataclass(frozen=True, kw_only=True)
class TaskCost:
    """One task's share of a network: cycles and picojoules of one occurrence."""

    task: Workload  # the workload, with its count
    cycles: int
    energy: float


def area_share(area: Area, board: Board) -> float:
    """Mean share of a board's LUT, FF, block RAM and DSP that a configuration takes."""
    return (
        area.lut / board.lut
        + area.ff / board.ff
        + area.bram36 / board.bram36
        + area.dsp / board.dsp
    ) / 4


class Objective:
    """Values of trials and networks under one objective."""

    def __init__(
        self,
        name: str,
        *,
        board: Board,
        base: HwConfig,
        rules: Rules,
        energy: EnergyModel | None = None,
    ) -> None:
        self._energy: Final = energy or load_energy()
        self.name: Final = name
        self._goal: Final = load_goal(name)
        self._board: Final = board
        self._base: Final = base
        self._rules: Final = rules
        self._shares: Final[dict[str, float]] = {}

    @property
    def unit(self) -> str:
        """What a value is called."""
        return self._goal.unit

    @property
    def keeps_front(self) -> bool:
        """See `Goal.keeps_front`."""
        return self._goal.keeps_front

    def weight(self, hw: HwConfig) -> float:
        """What a cycle on a configuration counts, relative to one on the base."""
        return self._goal.value(1.0, 1.0, self._area(hw)) / self._goal.value(1.0, 1.0, 1.0)

    def weights(self) -> list[Callable[[HwConfig], float]]:
        """By each of them some configurations are chosen: more than one where a front is wanted."""

        def by_area(power: float) -> Callable[[HwConfig], float]:
            return lambda hw: self._area(hw) ** power

        return [by_area(power) for power in _AREA_POWERS] if self.keeps_front else [self.weight]

    def value(self, hw: HwConfig, task: Workload, answer: Measurement) -> float | None:
        """What a search is told of a measurement; None when it is not valid."""
        if not answer.valid or answer.cycles is None:
            return None
        energy = self._energy.energy_pj(hw, answer.counters) / self._energy.least_energy_pj(task)
        return self._goal.value(float(answer.cycles), energy, self._area(hw))

    def bound(self, hw: HwConfig, task: Workload, cycles: int) -> float:
        """No value of a task is below this, if its cycles are not below ``cycles``."""
        least = 1 + self._energy.static_cycle_pj * cycles / self._energy.least_energy_pj(task)
        return self._goal.value(float(cycles), least, self._area(hw))

    def costs(self, hw: HwConfig, parts: Sequence[TaskCost]) -> tuple[float, float, float]:
        """Cycles, energy and area of a network on one configuration."""
        cycles = sum(part.cycles * part.task.count for part in parts)
        energy = sum(part.energy * part.task.count for part in parts)
        return float(cycles), energy, self._area(hw)

    def network(self, hw: HwConfig, parts: Sequence[TaskCost]) -> float:
        """Value of a network on one configuration."""
        cycles, energy, area = self.costs(hw, parts)
        least = sum(self._energy.least_energy_pj(part.task) * part.task.count for part in parts)
        return self._goal.value(cycles, energy / least, area)

    def network_bound(self, hw: HwConfig, tasks: Sequence[Workload], cycles: int) -> float:
        """No value of the network is below this, if its cycles are not below ``cycles``."""
        least = sum(self._energy.least_energy_pj(task) * task.count for task in tasks)
        energy = 1 + self._energy.static_cycle_pj * cycles / least
        return self._goal.value(float(cycles), energy, self._area(hw))

    def _area(self, hw: HwConfig) -> float:
        """Share of the board over the base's."""
        for known in (self._base, hw):
            if hw_key(known) not in self._shares:
                share = area_share(self._rules.estimate(known), self._board)
                self._shares[hw_key(known)] = share
        return self._shares[hw_key(hw)] / self._shares[hw_key(self._base)]
