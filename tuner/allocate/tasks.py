# SPDX-License-Identifier: Apache-2.0
"""Allocators inside a study: the tasks of one configuration share a number of measurements.

In per-layer mode and on fixed hardware a task's search is one arm for the whole study. In shared
mode an arm is a pair (configuration, task): each configuration of the race has its own allocator,
`spend` gives its tasks the measurements of a rung, and `can_win` says whether its bounds still
allow it to beat the incumbent network. Slots are counted in trials there, at a price of 1.
"""

from __future__ import annotations

from tilewright.host.common.names import counted
from tilewright.tuner.allocate._base import Allocator
from tilewright.tuner.allocate.registry import ALLOCATORS
from tilewright.tuner.allocate.slots import Pull
from tilewright.tuner.search import TunerError


def spend(allocator: Allocator, pull: Pull, trials: int) -> int:
    """Give slots until a number of trials is spent, never more.

    The last slot is cut short. The allocator goes on where it was at the next call.
    """
    left = trials
    while left > 0:
        with ALLOCATORS.running(type(allocator)):
            arm = allocator.choose()
        if arm is None:
            break
        given = max(1, min(int(allocator.slot), left))
        slot = pull(arm, given)
        if len(slot.prices) > given:
            raise TunerError(
                f"a slot of {counted(given, 'trial')} must not make more",
                field=allocator.arms[arm].name,
                value=len(slot.prices),
            )
        with ALLOCATORS.running(type(allocator)):
            allocator.tell(arm, slot)
        left -= len(slot.prices)
    return trials - left


def can_win(allocator: Allocator, incumbent: float | None) -> bool:
    """Whether the bounds of a configuration's tasks allow a network below the incumbent."""
    least = sum(arm.count * (arm.bound or 0.0) for arm in allocator.arms)
    return incumbent is None or least < incumbent
