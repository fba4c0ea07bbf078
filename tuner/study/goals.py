# SPDX-License-Identifier: Apache-2.0
"""What a study can minimise: functions of cycles, energy and area, ours and a user's own.

One of a user's own is a `Goal` named by an entry point of the group
``tilewright.objectives``, or as ``package.module:Class``.
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from typing import ClassVar, Final

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.plugins import Entry, Registry, is_ours, is_positive

_SAMPLE: Final = (1.0, 1.5, 40.0)
"""Values at which a goal is checked, of each of its arguments."""


class GoalError(TilewrightError):
    """An objective does not exist or cannot be minimised."""


class Goal(ABC):
    """A number to minimise, made of three that a study knows of each trial and network.

    Attributes:
        unit: what a value is called in reports.
        keeps_front: whether a race of configurations ends none whose network no other one beats in
            cycles, energy and area at once; else the better half by the value goes on.

    Example:
        >>> import tilewright as tw
        >>> class Hasty(tw.Goal):
        ...     unit = "cycles^2 x energy"
        ...     def value(self, cycles, energy, area):
        ...         return cycles**2 * energy
        >>> Hasty().value(10.0, 2.0, 1.0)
        200.0
    """

    unit: ClassVar[str] = "units"
    keeps_front: ClassVar[bool] = False

    @abstractmethod
    def value(self, cycles: float, energy: float, area: float) -> float:
        """What is minimised: positive, and never less when an argument grows.

        That is what lets a study leave out trials that are worse in all three, and turn a lower
        bound of the cycles into one of the value.

        Args:
            cycles: of the run, or of the network: the sum over its layers.
            energy: over the least energy that the work can take, 1 or more; relative.
            area: the configuration's share of the board over that of the base configuration.
        """


class Latency(Goal):
    """Cycles."""

    unit: ClassVar[str] = "cycles"

    def value(self, cycles: float, energy: float, area: float) -> float:
        """See `Goal.value`."""
        del energy, area
        return cycles


class EnergyDelay(Goal):
    """Cycles times energy."""

    unit: ClassVar[str] = "cycles x energy"

    def value(self, cycles: float, energy: float, area: float) -> float:
        """See `Goal.value`."""
        del area
        return cycles * energy


class Front(EnergyDelay):
    """Many networks: configurations from fast to small, and on each one cycles times energy."""

    keeps_front = True


class AreaDelay(Goal):
    """Cycles times area."""

    unit: ClassVar[str] = "cycles x area"

    def value(self, cycles: float, energy: float, area: float) -> float:
        """See `Goal.value`."""
        del energy
        return cycles * area


OBJECTIVES: Final[Registry[Goal]] = Registry(
    "objective",
    base=Goal,
    group="tilewright.objectives",
    package="tilewright.tuner.study",
    builtin={
        "latency": Entry("goals", "Latency", "cycles"),
        "edp": Entry("goals", "EnergyDelay", "cycles times energy"),
        "area": Entry("goals", "AreaDelay", "cycles times area"),
        "front": Entry("goals", "Front", "the Pareto front of cycles, energy and area"),
    },
    error=GoalError,
)
"""Every objective by its name on the command line."""


class _ForeignGoal(Goal):
    """A user's own goal: each value is checked, and what fails in it is told as its error."""

    def __init__(self, goal: Goal, name: str) -> None:
        self._goal: Final = goal
        self._name: Final = name
        self.unit = goal.unit  # type: ignore[misc]  # of this goal
        self.keeps_front = goal.keeps_front  # type: ignore[misc]  # as above

    def value(self, cycles: float, energy: float, area: float) -> float:
        """See `Goal.value`."""
        with OBJECTIVES.running(type(self._goal)):
            found = self._goal.value(cycles, energy, area)
        if not is_positive(found):
            at = (cycles, energy, area)
            raise GoalError(
                f"must be positive and finite, at cycles, energy, area {at} too",
                field=f"objective {self._name}",
                value=found,
                remedy="return such a number",
            )
        return float(found)


def load_goal(name: str) -> Goal:
    """The goal of a name, checked at a few points."""
    goal = OBJECTIVES.make(name)
    if not is_ours(type(goal)):
        goal = _ForeignGoal(goal, name)
    points = list(itertools.product(_SAMPLE, repeat=3))
    values = {point: goal.value(*point) for point in points}
    for low, high in itertools.product(points, repeat=2):
        smaller = all(a <= b for a, b in zip(low, high, strict=True))
        if smaller and values[low] > values[high]:
            raise GoalError(
                f"must not fall when cycles, energy or area grow (from {low} to {high})",
                field=f"objective {name}",
                value=f"{values[low]} to {values[high]}",
                remedy="let value grow with each of its arguments, or leave it equal",
            )
    return goal
