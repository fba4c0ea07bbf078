# SPDX-License-Identifier: Apache-2.0
"""Every mapper by its name; its module is imported when it is made.

A new algorithm is one file with a `Mapper` subclass and one line here. One of a user's own is named
by an entry point of the group ``tilewright.mappers``, or as ``package.module:Class``. Any tuner of
`tuner.search` is a mapper, too: ``tuner-`` and its name.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from tilewright.host.common.plugins import Entry, Registry
from tilewright.tuner.mapping.methods.mapper import Mapper, MapperError
from tilewright.tuner.mapping.methods.tuner_mapper import TunerMapper
from tilewright.tuner.search.registry import named_tuner

_baseline = partial(Entry, "methods.baselines")
_team = partial(Entry, "methods.clustered", packages=("torch",))
_clustered = partial(Entry, "methods.clustered", packages=("torch", "scipy"))

_BUILTIN: Final = {
    "random": _baseline("RandomMapper", "legal mappings, drawn at random"),
    "pruned-random": _baseline(
        "PrunedRandomMapper",
        "tiles that divide, equivalent orders passed by (Timeloop's random-pruned)",
    ),
    "coordinate": _baseline("CoordinateMapper", "coordinate descent with random restarts"),
    "annealing": _baseline("AnnealingMapper", "simulated annealing of many chains"),
    "genetic": _baseline("GeneticMapper", "genetic algorithm with knobs as genes"),
    "gamma": Entry(
        "methods.gamma", "GammaMapper", "genetic algorithm with operators made for mappings (GAMMA)"
    ),
    "cma-es": Entry(
        "methods.latent", "CmaEsMapper", "CMA-ES over a continuous coding, with restarts",
        packages=("cmaes",),
    ),
    "ppo": _team("PpoMapper", "proximal policy optimisation, one agent"),
    "marl-decentralised": _team("DecentralisedMapper", "one learning agent per mapping parameter"),
    "marl": _clustered("ClusteredMapper", "learning agents for clusters of mapping parameters"),
    "marl-central": _clustered("CentralMapper", "as marl, with one central critic (MAPPO)"),
    "bayesian": Entry(
        "methods.bayesian", "BayesianMapper", packages=("botorch",),
        summary="Gaussian process with log expected improvement, capped at 1000 samples (BoTorch)",
    ),
    "gradient": Entry(
        "methods.gradient", "GradientMapper", packages=("torch",),
        summary="gradient descent on a relaxed cost model (in the style of DOSA)",
    ),
    "structured": Entry(
        "methods.structured", "StructuredMapper",
        "annealed chains over order classes and efficient tiles (ours)",
    ),
}  # fmt: skip

MAPPERS: Final[Registry[Mapper]] = Registry(
    "mapper",
    base=Mapper,
    group="tilewright.mappers",
    package="tilewright.tuner.mapping",
    builtin=_BUILTIN,
    error=MapperError,
)
"""Every mapper by its name on the command line."""


def make_mapper(name: str, **options: Any) -> Mapper:
    """A mapper by name."""
    tuner = named_tuner(name)
    return MAPPERS.make(name, **options) if tuner is None else TunerMapper(tuner, **options)
