# SPDX-License-Identifier: Apache-2.0
"""Every mapper by its name; its module is imported when it is made.

A new algorithm is one file with a `Mapper` subclass and one line here. One of a user's own is named
by an entry point of the group ``tilewright.mappers``, or as ``package.module:Class``. Any tuner of
`tuner.search` is a mapper, too: ``tuner-`` and its name.
"""

from __future__ import annotations

from typing import Any, Final

from tilewright.host.common.plugins import Entry, Registry
from tilewright.tuner.mapping.methods.mapper import Mapper, MapperError
from tilewright.tuner.mapping.methods.tuner_mapper import TunerMapper
from tilewright.tuner.search.registry import named_tuner

_BUILTIN: Final = {
    "random": Entry(
        module="methods.random",
        kind="RandomMapper",
        summary="legal mappings, drawn at random",
    ),
    "pruned-random": Entry(
        module="methods.pruned_random",
        kind="PrunedRandomMapper",
        summary="tiles that divide, equivalent orders passed by (Timeloop's random-pruned)",
    ),
    "coordinate": Entry(
        module="methods.coordinate",
        kind="CoordinateMapper",
        summary="coordinate descent with random restarts",
    ),
    "annealing": Entry(
        module="methods.annealing",
        kind="AnnealingMapper",
        summary="simulated annealing of many chains",
    ),
    "genetic": Entry(
        module="methods.genetic",
        kind="GeneticMapper",
        summary="genetic algorithm with knobs as genes",
    ),
    "gamma": Entry(
        module="methods.gamma",
        kind="GammaMapper",
        summary="genetic algorithm with operators made for mappings (GAMMA)",
    ),
    "cma-es": Entry(
        module="methods.cma_es",
        kind="CmaEsMapper",
        summary="CMA-ES over a continuous coding, with restarts",
        packages=("cmaes",),
    ),
    "ppo": Entry(
        module="methods.clustered",
        kind="PpoMapper",
        summary="proximal policy optimisation, one agent",
        packages=("torch",),
    ),
    "marl-decentralised": Entry(
        module="methods.clustered",
        kind="DecentralisedMapper",
        summary="one learning agent per mapping parameter",
        packages=("torch",),
    ),
    "marl": Entry(
        module="methods.clustered",
        kind="ClusteredMapper",
        summary="learning agents for clusters of mapping parameters",
        packages=("torch", "scipy"),
    ),
    "marl-central": Entry(
        module="methods.clustered",
        kind="CentralMapper",
        summary="as marl, with one central critic (MAPPO)",
        packages=("torch", "scipy"),
    ),
    "bayesian": Entry(
        module="methods.bayesian",
        kind="BayesianMapper",
        summary="Gaussian process with log expected improvement, capped at 1000 samples (BoTorch)",
        packages=("botorch",),
    ),
    "gradient": Entry(
        module="methods.gradient",
        kind="GradientMapper",
        summary="gradient descent on a relaxed cost model (in the style of DOSA)",
        packages=("torch",),
    ),
    "structured": Entry(
        module="methods.structured",
        kind="StructuredMapper",
        summary="annealed chains over order classes and efficient tiles (ours)",
    ),
}

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
    return MAPPERS.load(name)(**options) if tuner is None else TunerMapper(tuner, **options)
