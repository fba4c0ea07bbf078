# SPDX-License-Identifier: Apache-2.0
"""Every allocator by its name; its module is imported when it is made.

A new allocator is an `Allocator` subclass and one line here. One of a user's own is named by an
entry point of the group ``tilewright.allocators``, or as ``package.module:Class``.

Allocators inside a study: the tasks of one configuration share a number of measurements.

In per-layer mode and on fixed hardware a task's search is one arm for the whole study. In shared
mode an arm is a pair (configuration, task): each configuration of the race has its own allocator,
`spend` gives its tasks the measurements of a rung, and `can_win` says whether its bounds still
allow it to beat the incumbent network. Slots are counted in trials there, at a price of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from tilewright.host.common.names import counted
from tilewright.host.common.plugins import Entry, Registry
from tilewright.tuner.allocate._base import Allocator, Arm, Seed
from tilewright.tuner.allocate.slots import Pull
from tilewright.tuner.search.tuner import TunerError

_believing = partial(Entry, packages=("emcee",))

_BUILTIN: Final = {
    "sequential": Entry("fixed", "Sequential", "one task after the other (AutoTVM's way)"),
    "random": Entry("fixed", "Random", "any task, at random"),
    "round-robin": Entry("fixed", "RoundRobin", "each task in turn"),
    "linear": Entry("fixed", "Linear", "in proportion to the operations"),
    "linear-latency": Entry("fixed", "LinearLatency", "in proportion to the untuned latency"),
    "dynamic-random": Entry("fixed", "DynamicRandom", "any task that still improves, at random"),
    "dynamic-round-robin": Entry(
        "fixed", "DynamicRoundRobin", "each task that still improves in turn"
    ),
    "gain-epsilon-greedy": Entry(
        "gain_bandits", "GainEpsilonGreedy", "the task that gained most recently, mostly"
    ),
    "gain-softmax": Entry("gain_bandits", "GainSoftmax", "drawn by what each task gained recently"),
    "ansor": Entry("ansor", "AnsorGradient", "steepest estimated gradient (Ansor)"),
    "headroom": Entry("fixed", "Headroom", "most cycles above the bound, discounted"),
    "dynatune": _believing(
        "dynatune", "DynaTune",
        "UCB in milliseconds over the promise of a Bayesian belief (DynaTune)",
    ),
    "dynatune-share": _believing(
        "dynatune", "DynaTuneShare", "the same with promises as shares of the network's cost"
    ),
    "epsilon-greedy": _believing(
        "belief_bandits", "EpsilonGreedy", "the largest promise of DynaTune's belief, mostly"
    ),
    "softmax": _believing(
        "belief_bandits", "Softmax", "drawn by the promises of DynaTune's belief"
    ),
}  # fmt: skip

ALLOCATORS: Final[Registry[Allocator]] = Registry(
    "allocator",
    base=Allocator,
    group="tilewright.allocators",
    package="tilewright.tuner.allocate",
    builtin=_BUILTIN,
    error=TunerError,
)
"""Every allocator by its name on the command line."""


def make_allocator(
    name: str, arms: Sequence[Arm], *, seed: Seed, slot: float, **options: Any
) -> Allocator:
    """An allocator by name."""
    return ALLOCATORS.make(name, arms, seed=seed, slot=slot, **options)


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
