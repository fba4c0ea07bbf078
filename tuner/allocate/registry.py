# SPDX-License-Identifier: Apache-2.0
"""Every allocator by its name; its module is imported when it is made.

A new allocator is an `Allocator` subclass and one line here.
"""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilewright.tuner.allocate._base import Allocator, Arm, Seed
from tilewright.tuner.search import TunerError


@dataclass(frozen=True, kw_only=True)
class AllocatorSpec:
    """What is known of an allocator before it is imported.

    Attributes:
        module: in `tilewright.tuner.allocate`.
        kind: name of the class in it.
        summary: one line for the command line and the docs.
        packages: importable packages that it needs from the extra ``search``.
        foresight: it knows the curves in advance: a yardstick, not a method.
    """

    module: str
    kind: str
    summary: str
    packages: tuple[str, ...] = ()
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
    try:
        return ALLOCATORS[name]
    except KeyError as error:
        raise TunerError(
            "no allocator of that name",
            field="allocator",
            value=name,
            remedy=f"use one of {', '.join(ALLOCATORS)}",
        ) from error


def allocator_class(name: str) -> type[Allocator]:
    """The class of an allocator.

    Raises:
        TunerError: there is none of that name, or a package that it needs is not installed.
    """
    spec = allocator_spec(name)
    for package in spec.packages:
        if importlib.util.find_spec(package) is None:
            raise TunerError(
                f"allocator {name} needs the package {package}",
                field="allocator",
                value=name,
                remedy="pip install 'tilewright[search]'",
            )
    module = importlib.import_module(f"tilewright.tuner.allocate.{spec.module}")
    kind: type[Allocator] = getattr(module, spec.kind)
    return kind


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
