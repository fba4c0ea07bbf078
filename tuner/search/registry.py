# SPDX-License-Identifier: Apache-2.0
"""Every search algorithm by its name; its module is imported when it is made.

A new algorithm is one file with a `Tuner` subclass and one line here. One of a user's own is named
by an entry point of the group ``tilewright.tuners``, or as ``package.module:Class``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

from tilewright.host.common.plugins import Entry, Registry
from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.tuner import Offer, Tuner, TunerError

_PRIOR: Final = frozenset({Offer.PRIOR})
_EXPERIENCE: Final = frozenset({Offer.EXPERIENCE})
_chameleon = partial(
    Entry, "learning.chameleon", packages=("xgboost", "torch", "sklearn"), takes=_EXPERIENCE
)
_dcoc = partial(Entry, "learning.dcoc", packages=("torch", "xgboost"))
_optuna = partial(Entry, "libraries.optuna_tuners", packages=("optuna",))

_BUILTIN: Final = {
    "random": Entry("plain.random", "RandomTuner", "valid points, drawn at random"),
    "coordinate": Entry(
        "plain.coordinate", "CoordinateTuner", "coordinate descent with restarts (droplet search)"
    ),
    "genetic": Entry("plain.genetic", "GeneticTuner", "genetic algorithm"),
    "guided": Entry(
        "plain.guided", "GuidedTuner", takes=_PRIOR,
        summary="best-first by the cost model, refined around what measures best",
    ),
    "autotvm": Entry(
        "model_based.autotvm", "AutoTvmTuner", packages=("xgboost",), takes=_EXPERIENCE,
        summary="XGBoost ranking searched by simulated annealing (AutoTVM)",
    ),
    "chameleon": _chameleon(
        "ChameleonTuner", "PPO exploration and clustered sampling, as published (CHAMELEON)"
    ),
    "chameleon-code": _chameleon(
        "ChameleonCodeTuner", "CHAMELEON as its public code runs: the sampler never starts"
    ),
    "metaschedule": Entry(
        "model_based.metaschedule", "MetaScheduleTuner", packages=("tvm", "xgboost"),
        summary="TVM's own evolutionary search, database and cost model (MetaSchedule)",
        extras=("network", "search"),
    ),
    "optuna-tpe": _optuna("TpeTuner", "tree-structured Parzen estimator (Optuna)"),
    "optuna-cmaes": _optuna(
        "CmaEsTuner", "CMA-ES with margin (Optuna)", packages=("optuna", "cmaes")
    ),
    "optuna-nsga2": _optuna("Nsga2Tuner", "NSGA-II on the one cost (Optuna)"),
    "optuna-gp": _optuna(
        "GaussianProcessTuner", "Gaussian process with log expected improvement (Optuna)",
        packages=("optuna", "torch"),
    ),
    "catcma": Entry(
        "libraries.catcma_tuner", "CatCmaTuner", packages=("cmaes",),
        summary="CatCMA with margin, for ordered and unordered knobs (cmaes)",
    ),
    "nevergrad-de": Entry(
        "libraries.nevergrad_tuner", "DifferentialEvolutionTuner", packages=("nevergrad",),
        summary="differential evolution (Nevergrad)", extras=("nevergrad",),
    ),
    "botorch": Entry(
        "libraries.botorch_tuner", "BotorchTuner", packages=("botorch",),
        summary="Gaussian process with log expected improvement (BoTorch)",
    ),
    "dcoc": _dcoc("DcocTuner", "three agents and a central critic, confidence sampling (DCOC)"),
    "ppo": _dcoc("PpoTuner", "DCOC with a single agent"),
    "ippo": _dcoc("IppoTuner", "DCOC with a critic for each agent instead of a central one"),
    "onestep": Entry(
        "learning.onestep", "OneStepTuner", packages=("torch", "xgboost"),
        summary="one-step policy gradient without a critic",
    ),
    "tilewright": Entry(
        "gaussian.tilewright", "TilewrightTuner", takes=_PRIOR | {Offer.POOL},
        summary="analytic prior calibrated by what it measures, descent at the end (default)",
    ),
}  # fmt: skip

TUNERS: Final[Registry[Tuner[Any]]] = Registry(
    "tuner",
    base=Tuner,
    group="tilewright.tuners",
    package="tilewright.tuner.search",
    builtin=_BUILTIN,
    error=TunerError,
)
"""Every tuner by its name on the command line."""


_PREFIX: Final = "tuner-"
"""Before the name of a tuner where it stands for a mapper."""


def named_tuner(name: str) -> str | None:
    """The tuner that a mapper ``tuner-NAME`` is; None: the mapper is another one."""
    if not isinstance(name, str) or not name.startswith(_PREFIX):
        return None
    tuner = name.removeprefix(_PREFIX)
    TUNERS.check(tuner)
    return tuner


def taken_by(name: str) -> frozenset[str]:
    """What a tuner takes of `Offer`; a built-in one is not imported for it."""
    known = TUNERS.find(name).takes
    return TUNERS.load(name).takes if known is None else known


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
        name: a key of `TUNERS`, or a class of one's own; its options may follow (`Registry`).
        space: where it searches.
        seed: entropy of its generator.
        initial: points that it proposes first.
        prior: predicted cost of a point; only a tuner that takes one gets it.
        options: further arguments of the tuner's class (ablations).

    Raises:
        TunerError: there is none of that name, a package that it needs is not installed, or a
            plug-in is broken.
    """
    if Offer.PRIOR in TUNERS.load(name).takes:
        options["prior"] = prior
    return TUNERS.make(name, space, seed=seed, initial=initial, **options)
