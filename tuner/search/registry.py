# SPDX-License-Identifier: Apache-2.0
"""Every search algorithm by its name; its module is imported when it is made.

A new algorithm is one file with a `Tuner` subclass and one line here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from tilewright.tuner.search.algorithms import AlgorithmSpec, find, load
from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.tuner import Tuner


@dataclass(frozen=True, kw_only=True)
class TunerSpec(AlgorithmSpec):
    """What is known of a tuner before it is imported.

    Attributes:
        prior: it takes a predicted cost of a point (the grey-box track).
    """

    prior: bool = False


TUNERS: Final[Mapping[str, TunerSpec]] = {
    "random": TunerSpec(
        module="plain.random", kind="RandomTuner", summary="valid points, drawn at random"
    ),
    "coordinate": TunerSpec(
        module="plain.coordinate",
        kind="CoordinateTuner",
        summary="coordinate descent with restarts (droplet search)",
    ),
    "genetic": TunerSpec(module="plain.genetic", kind="GeneticTuner", summary="genetic algorithm"),
    "guided": TunerSpec(
        module="plain.guided",
        kind="GuidedTuner",
        summary="best-first by the cost model, refined around what measures best",
        prior=True,
    ),
    "autotvm": TunerSpec(
        module="model_based.autotvm",
        kind="AutoTvmTuner",
        summary="XGBoost ranking searched by simulated annealing (AutoTVM)",
        packages=("xgboost",),
    ),
    "chameleon": TunerSpec(
        module="learning.chameleon",
        kind="ChameleonTuner",
        summary="PPO exploration and clustered sampling, as published (CHAMELEON)",
        packages=("xgboost", "torch", "sklearn"),
    ),
    "chameleon-code": TunerSpec(
        module="learning.chameleon",
        kind="ChameleonCodeTuner",
        summary="CHAMELEON as its public code runs: the sampler never starts",
        packages=("xgboost", "torch", "sklearn"),
    ),
    "metaschedule": TunerSpec(
        module="model_based.metaschedule",
        kind="MetaScheduleTuner",
        summary="TVM's own evolutionary search, database and cost model (MetaSchedule)",
        packages=("tvm", "xgboost"),
        extras=("network", "search"),
    ),
    "optuna-tpe": TunerSpec(
        module="libraries.optuna_tuners",
        kind="TpeTuner",
        summary="tree-structured Parzen estimator (Optuna)",
        packages=("optuna",),
    ),
    "optuna-cmaes": TunerSpec(
        module="libraries.optuna_tuners",
        kind="CmaEsTuner",
        summary="CMA-ES with margin (Optuna)",
        packages=("optuna", "cmaes"),
    ),
    "optuna-nsga2": TunerSpec(
        module="libraries.optuna_tuners",
        kind="Nsga2Tuner",
        summary="NSGA-II on the one cost (Optuna)",
        packages=("optuna",),
    ),
    "nevergrad-de": TunerSpec(
        module="libraries.nevergrad_tuner",
        kind="DifferentialEvolutionTuner",
        summary="differential evolution (Nevergrad)",
        packages=("nevergrad",),
        extras=("nevergrad",),
    ),
    "botorch": TunerSpec(
        module="libraries.botorch_tuner",
        kind="BotorchTuner",
        summary="Gaussian process with log expected improvement (BoTorch)",
        packages=("botorch",),
    ),
    "dcoc": TunerSpec(
        module="learning.dcoc",
        kind="DcocTuner",
        summary="three agents and a central critic, confidence sampling (DCOC)",
        packages=("torch", "xgboost"),
    ),
    "ppo": TunerSpec(
        module="learning.ppo",
        kind="PpoTuner",
        summary="DCOC with a single agent",
        packages=("torch", "xgboost"),
    ),
    "ippo": TunerSpec(
        module="learning.ippo",
        kind="IppoTuner",
        summary="DCOC with a critic for each agent instead of a central one",
        packages=("torch", "xgboost"),
    ),
    "onestep": TunerSpec(
        module="learning.onestep",
        kind="OneStepTuner",
        summary="one-step policy gradient without a critic",
        packages=("torch", "xgboost"),
    ),
    "tilewright": TunerSpec(
        module="gaussian.tilewright",
        kind="TilewrightTuner",
        summary="analytic prior calibrated by what it measures, descent at the end (default)",
        prior=True,
    ),
}
"""Every tuner by its name on the command line."""


def tuner_spec(name: str) -> TunerSpec:
    """What is known of a tuner.

    Raises:
        TunerError: there is none of that name.
    """
    return find(TUNERS, "tuner", name)


def tuner_class(name: str) -> type[Tuner[Any]]:
    """The class of a tuner.

    Raises:
        TunerError: there is none of that name, or a package that it needs is not installed.
    """
    return load(tuner_spec(name), "tilewright.tuner.search", "tuner", name)


def make_tuner(
    name: str,
    space: Space[Any],
    *,
    seed: int | tuple[int, ...],
    initial: Sequence[Index] = (),
    prior: Callable[[Any], float] | None = None,
    **options: Any,
) -> Tuner[Any]:
    """A tuner by name.

    Args:
        name: a key of `TUNERS`.
        space: where it searches.
        seed: entropy of its generator.
        initial: points that it proposes first.
        prior: predicted cost of a point; only a tuner that uses one gets it.
        options: further arguments of the tuner's class (ablations).

    Raises:
        TunerError: there is none of that name, or a package that it needs is not installed.
    """
    if tuner_spec(name).prior:
        options["prior"] = prior
    return tuner_class(name)(space, seed=seed, initial=initial, **options)
