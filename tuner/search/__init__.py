# SPDX-License-Identifier: Apache-2.0
"""Tuners: one algorithm a file behind the `Tuner` contract of `_base`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from tilewright.tuner.search._base import Candidate, Result, Tuner, TunerError
from tilewright.tuner.search.coordinate import CoordinateTuner
from tilewright.tuner.search.genetic import GeneticTuner
from tilewright.tuner.search.guided import GuidedTuner
from tilewright.tuner.search.random import RandomTuner
from tilewright.tuner.space import Index, Space

TUNERS: Final[Mapping[str, type[Tuner[Any]]]] = {
    "random": RandomTuner,
    "coordinate": CoordinateTuner,
    "genetic": GeneticTuner,
    "guided": GuidedTuner,
}
"""Every tuner by its name on the command line."""


def make_tuner(
    name: str,
    space: Space[Any],
    *,
    seed: int | tuple[int, ...],
    initial: tuple[Index, ...] = (),
    prior: Callable[[Any], float] | None = None,
) -> Tuner[Any]:
    """A tuner by name.

    Args:
        name: a key of `TUNERS`.
        space: where it searches.
        seed: entropy of its generator.
        initial: points that it proposes first.
        prior: predicted cost of a point; only a tuner that uses one gets it.

    Raises:
        TunerError: there is none of that name.
    """
    try:
        kind = TUNERS[name]
    except KeyError as error:
        raise TunerError(
            "no tuner of that name",
            field="tuner",
            value=name,
            remedy=f"use one of {', '.join(TUNERS)}",
        ) from error
    if kind is GuidedTuner:
        return GuidedTuner(space, seed=seed, initial=initial, prior=prior)
    return kind(space, seed=seed, initial=initial)


__all__ = ["TUNERS", "Candidate", "Result", "Tuner", "TunerError", "make_tuner"]
