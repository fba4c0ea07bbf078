# SPDX-License-Identifier: Apache-2.0
"""Every allocator by its name; its module is imported when it is made.

A new allocator is an `Allocator` subclass and one line here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from tilewright.tuner.allocate._base import Allocator, Arm, Seed
from tilewright.tuner.search.algorithms import AlgorithmSpec, find, load

AllocatorSpec = AlgorithmSpec
"""What is known of an allocator before it is imported."""

ALLOCATORS: Final[Mapping[str, AllocatorSpec]] = {
    "sequential": AllocatorSpec(
        module="fixed", kind="Sequential", summary="one task after the other (AutoTVM's way)"
    ),
    "random": AllocatorSpec(module="fixed", kind="Random", summary="any task, at random"),
    "round-robin": AllocatorSpec(module="fixed", kind="RoundRobin", summary="each task in turn"),
    "linear": AllocatorSpec(
        module="fixed", kind="Linear", summary="in proportion to the operations"
    ),
    "linear-latency": AllocatorSpec(
        module="fixed", kind="LinearLatency", summary="in proportion to the untuned latency"
    ),
    "dynamic-random": AllocatorSpec(
        module="dynamic", kind="DynamicRandom", summary="any task that still improves, at random"
    ),
    "dynamic-round-robin": AllocatorSpec(
        module="dynamic", kind="DynamicRoundRobin", summary="each task that still improves in turn"
    ),
    "gain-epsilon-greedy": AllocatorSpec(
        module="gain_bandits",
        kind="GainEpsilonGreedy",
        summary="the task that gained most lately, mostly",
    ),
    "gain-softmax": AllocatorSpec(
        module="gain_bandits", kind="GainSoftmax", summary="drawn by what each task gained lately"
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
        summary="UCB in milliseconds over the promise of a Bayesian belief (DynaTune)",
        packages=("emcee",),
    ),
    "dynatune-share": AllocatorSpec(
        module="dynatune",
        kind="DynaTuneShare",
        summary="the same with promises as shares of the network's cost",
        packages=("emcee",),
    ),
    "epsilon-greedy": AllocatorSpec(
        module="belief_bandits",
        kind="EpsilonGreedy",
        summary="the largest promise of DynaTune's belief, mostly",
        packages=("emcee",),
    ),
    "softmax": AllocatorSpec(
        module="belief_bandits",
        kind="Softmax",
        summary="drawn by the promises of DynaTune's belief",
        packages=("emcee",),
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
