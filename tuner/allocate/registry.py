# SPDX-License-Identifier: Apache-2.0
"""Every allocator by its name; its module is imported when it is made.

A new allocator is an `Allocator` subclass and one line here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilewright.tuner.allocate._base import Allocator, Arm, Seed
from tilewright.tuner.search.algorithms import AlgorithmSpec, find, load


@dataclass(frozen=True, kw_only=True)
class AllocatorSpec(AlgorithmSpec):
    """What is known of an allocator before it is imported.

    Attributes:
        foresight: it knows the curves in advance: a yardstick, not a method.
    """

    foresight: bool = False


ALLOCATORS: Final[Mapping[str, AllocatorSpec]] = {
    "sequential": AllocatorSpec(
        module="fixed", kind="Sequential", summary="one task after the other (AutoTVM's way)"
    ),
    "random": AllocatorSpec(module="fixed", kind="Random", summary="any task, at random"),
    "round-robin": AllocatorSpec(module="fixed", kind="RoundRobin", summary="each task in turn"),
    "linear": AllocatorSpec(
        module="fixed", kind="Linear", summary="in proportion to the untuned latency"
    ),
    "dynamic-random": AllocatorSpec(
        module="dynamic", kind="DynamicRandom", summary="any task that still improves, at random"
    ),
    "dynamic-round-robin": AllocatorSpec(
        module="dynamic", kind="DynamicRoundRobin", summary="each task that still improves in turn"
    ),
    "epsilon-greedy": AllocatorSpec(
        module="bandits", kind="EpsilonGreedy", summary="the task that gained most lately, mostly"
    ),
    "softmax": AllocatorSpec(
        module="bandits", kind="Softmax", summary="drawn by what each task gained lately"
    ),
    "ansor": AllocatorSpec(
        module="ansor", kind="AnsorGradient", summary="steepest estimated gradient (Ansor)"
    ),
    "headroom": AllocatorSpec(
        module="headroom", kind="Headroom", summary="most cycles above the bound, discounted"
    ),
    "dynatune": AllocatorSpec(
        module="dynatune",
        kind="DynaTune",
        summary="UCB over the expected improvement of a Bayesian belief (DynaTune)",
        packages=("emcee",),
    ),
    "hindsight": AllocatorSpec(
        module="hindsight",
        kind="Hindsight",
        summary="steepest true gain, the curves being known in advance",
        foresight=True,
    ),
}
"""Every allocator by its name on the command line."""


def allocator_spec(name: str) -> AllocatorSpec:
    """What is known of an allocator.

    Raises:
        TunerError: there is none of that name.
    """
    return find(ALLOCATORS, "allocator", name)


def allocator_class(name: str) -> type[Allocator]:
    """The class of an allocator.

    Raises:
        TunerError: there is none of that name, or a package that it needs is not installed.
    """
    return load(allocator_spec(name), "tilewright.tuner.allocate", "allocator", name)


def make_allocator(
    name: str, arms: Sequence[Arm], *, seed: Seed, slot: float, **options: Any
) -> Allocator:
    """An allocator by name.

    Args:
        name: a key of `ALLOCATORS`.
        arms: the tasks.
        seed: entropy of its generator.
        slot: length of a slot, in the unit of its prices.
        options: further arguments of the allocator's class.

    Raises:
        TunerError: there is none of that name, or a package that it needs is not installed.
    """
    return allocator_class(name)(arms, seed=seed, slot=slot, **options)
