# SPDX-License-Identifier: Apache-2.0
"""Optuna's samplers as tuners: TPE, Gaussian process, CMA-ES and NSGA-II.

Sources: TPE: Bergstra et al., "Algorithms for Hyper-Parameter Optimization", NeurIPS 2011;
CMA-ES with margin: Hamano et al., GECCO 2022; NSGA-II: Deb et al., IEEE TEC 2002 (with one
objective an elitist genetic algorithm). Settings are Optuna's, except where stated below.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, IntDistribution
from optuna.samplers import BaseSampler, CmaEsSampler, GPSampler, NSGAIISampler, TPESampler
from optuna.trial import Trial, TrialState, create_trial

from tilewright.tuner.search.black_box import BlackBoxTuner
from tilewright.tuner.search.space import Index, Knob, Space
from tilewright.tuner.search.torch_threads import one_thread

P = TypeVar("P")

NSGA2_POPULATION: Final = 16
"""Optuna's 50 would leave budgets of 64 with random points alone."""


class OptunaTuner(BlackBoxTuner[P, Trial]):
    """A study of Optuna over the positions of the knobs; arguments as `BlackBoxTuner`."""

    def __init__(
        self, space: Space[P], *, seed: int | tuple[int, ...], initial: Sequence[Index] = ()
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        self._axes: Final = {
            f"{number}-{knob.name}": _distribution(knob) for number, knob in enumerate(space.knobs)
        }
        with _quiet():
            self._study: Final = optuna.create_study(
                sampler=self._sampler(int(self.rng.integers(2**31)))
            )

    @abstractmethod
    def _sampler(self, seed: int) -> BaseSampler:
        """The algorithm."""

    def _library_ask(self) -> tuple[Trial, Index]:
        with _quiet():
            trial = self._study.ask(self._axes)
        return trial, tuple(int(trial.params[axis]) for axis in self._axes)

    def _library_tell(self, token: Trial, value: float | None) -> None:
        with _quiet():
            if value is None:
                self._study.tell(token, state=TrialState.FAIL)
            else:
                self._study.tell(token, value)

    def _library_add(self, index: Index, value: float | None) -> None:
        if value is None:
            return
        with _quiet():
            self._study.add_trial(
                create_trial(
                    params=dict(zip(self._axes, index, strict=True)),
                    distributions=self._axes,
                    value=value,
                )
            )


class TpeTuner(OptunaTuner[P]):
    """Tree-structured Parzen estimator; what is being measured counts as bad (constant liar).

    Args:
        space, seed, initial: of `OptunaTuner`.
        multivariate: knobs are modelled together instead of one by one (Falkner et al., ICML 2018).
    """

    def __init__(
        self,
        space: Space[P],
        *,
        seed: int | tuple[int, ...],
        initial: Sequence[Index] = (),
        multivariate: bool = False,
    ) -> None:
        self._multivariate: Final = multivariate
        super().__init__(space, seed=seed, initial=initial)

    def _sampler(self, seed: int) -> BaseSampler:
        return TPESampler(seed=seed, constant_liar=True, multivariate=self._multivariate)


class GaussianProcessTuner(OptunaTuner[P]):
    """Optuna's Gaussian process with log expected improvement."""

    def _sampler(self, seed: int) -> BaseSampler:
        return GPSampler(seed=seed, deterministic_objective=True, warn_independent_sampling=False)

    def _library_ask(self) -> tuple[Trial, Index]:
        with one_thread():
            return super()._library_ask()


class CmaEsTuner(OptunaTuner[P]):
    """CMA-ES with margin, which keeps integer knobs from freezing; unordered knobs at random."""

    def _sampler(self, seed: int) -> BaseSampler:
        return CmaEsSampler(seed=seed, with_margin=True, warn_independent_sampling=False)


class Nsga2Tuner(OptunaTuner[P]):
    """NSGA-II on the one cost, with a population that suits small budgets."""

    def _sampler(self, seed: int) -> BaseSampler:
        return NSGAIISampler(seed=seed, population_size=NSGA2_POPULATION)


def _distribution(knob: Knob) -> BaseDistribution:
    """The positions of a knob as Optuna describes them."""
    if knob.ordered:
        return IntDistribution(0, len(knob) - 1)
    return CategoricalDistribution(range(len(knob)))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's log lines and its notes on experimental options."""
    level: Any = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(level)
