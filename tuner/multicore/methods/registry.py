# SPDX-License-Identifier: Apache-2.0
"""Every group mapper by its name; its module is imported when it is made.

A new algorithm is one file with a `GroupMapper` subclass and one line here. One of a user's own is
named by an entry point of the group ``tilewright.group_mappers``, or as ``package.module:Class``.
Manual mappers are named ``ORDER-PLACEMENT``, as ``heft-greedy``. Any tuner of `tuner.search` is a
group mapper, too: ``tuner-`` and its name.
"""

from __future__ import annotations

from typing import Any, Final

from tilewright.host.common.plugins import Entry, Registry
from tilewright.tuner.multicore.methods.manual import ManualMapper, Order, Placement
from tilewright.tuner.multicore.methods.mapper import GroupMapper, GroupMapperError
from tilewright.tuner.multicore.methods.tuner_mapper import TunerMapper
from tilewright.tuner.search.registry import named_tuner

_BUILTIN: Final = {
    "tilewright": Entry(
        module="methods.tilewright",
        kind="TilewrightMapper",
        summary="bound, balanced placements, paired orders, MAGMA, then annealing (ours)",
        packages=("scipy",),
    ),
    "magma": Entry(
        module="methods.magma",
        kind="MagmaMapper",
        summary="genetic algorithm with operators made for cores and priorities (MAGMA)",
    ),
    "magma-tuned": Entry(
        module="methods.magma",
        kind="TunedMagmaMapper",
        summary="MAGMA with hyper-parameters found by Bayesian optimisation",
    ),
    "herald": Entry(
        module="methods.tilewright",
        kind="HeraldMapper",
        summary="manual: the core that suits a job, while loads stay balanced (as Herald)",
    ),
    "ai-mt": Entry(
        module="methods.tilewright",
        kind="AiMtMapper",
        summary="manual: memory-intensive beside compute-intensive jobs (as AI-MT)",
    ),
    "random": Entry(
        module="methods.random",
        kind="RandomMapper",
        summary="cores and priorities, drawn at random",
    ),
    "genetic": Entry(
        module="methods.genetic",
        kind="GeneticMapper",
        summary="genetic algorithm whose genes are all alike",
    ),
    "de": Entry(
        module="methods.differential_evolution",
        kind="DifferentialEvolutionMapper",
        summary="differential evolution",
    ),
    "pso": Entry(
        module="methods.particle_swarm",
        kind="ParticleSwarmMapper",
        summary="particle swarm optimisation",
    ),
    "tbpsa": Entry(
        module="methods.tbpsa",
        kind="TbpsaMapper",
        summary="test-based population-size adaptation",
    ),
    "cma-es": Entry(
        module="methods.cma_es",
        kind="CmaEsMapper",
        summary="CMA-ES over a continuous coding, with restarts",
        packages=("cmaes",),
    ),
    "a2c": Entry(
        module="methods.policy_gradient",
        kind="A2cMapper",
        summary="advantage actor-critic, one agent",
        packages=("torch",),
    ),
    "ppo": Entry(
        module="methods.policy_gradient",
        kind="PpoMapper",
        summary="proximal policy optimisation, one agent",
        packages=("torch",),
    ),
}

MANUAL: Final = {
    f"{order}-{placement}": (order, placement) for order in Order for placement in Placement
}
"""Manual mappers by name: the order of the jobs and the placement of each."""

GROUP_MAPPERS: Final[Registry[GroupMapper]] = Registry(
    "group mapper",
    base=GroupMapper,
    group="tilewright.group_mappers",
    package="tilewright.tuner.multicore",
    builtin=_BUILTIN,
    error=GroupMapperError,
    others=MANUAL,
)
"""Every group mapper by its name on the command line, but for those of an order and a placement."""


def make_group_mapper(name: str, **options: Any) -> GroupMapper:
    """A group mapper by name."""
    if name in MANUAL:
        return ManualMapper(*MANUAL[name])
    tuner = named_tuner(name)
    return GROUP_MAPPERS.load(name)(**options) if tuner is None else TunerMapper(tuner, **options)
