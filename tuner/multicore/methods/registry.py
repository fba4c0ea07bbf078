# SPDX-License-Identifier: Apache-2.0
"""Every group mapper by its name; its module is imported when it is made.

A new algorithm is one file with a `GroupMapper` subclass and one line here. One of a user's own is
named by an entry point of the group ``tilewright.group_mappers``, or as ``package.module:Class``.
Manual mappers are named ``ORDER-PLACEMENT``, as ``heft-greedy``. Any tuner of `tuner.search` is a
group mapper, too: ``tuner-`` and its name.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from tilewright.host.common.plugins import Entry, Registry
from tilewright.tuner.multicore.methods.manual import ManualMapper, Order, Placement
from tilewright.tuner.multicore.methods.mapper import GroupMapper, GroupMapperError
from tilewright.tuner.multicore.methods.tuner_mapper import TunerMapper
from tilewright.tuner.search.registry import named_tuner

_ours = partial(Entry, "methods.tilewright")
_magma = partial(Entry, "methods.magma")
_baseline = partial(Entry, "methods.baselines")
_learning = partial(Entry, "methods.policy_gradient", packages=("torch",))

_BUILTIN: Final = {
    "tilewright": _ours(
        "TilewrightMapper", packages=("scipy",),
        summary="bound, balanced placements, paired orders, MAGMA, then annealing (ours)",
    ),
    "magma": _magma(
        "MagmaMapper", "genetic algorithm with operators made for cores and priorities (MAGMA)"
    ),
    "magma-tuned": _magma(
        "TunedMagmaMapper", "MAGMA with hyper-parameters found by Bayesian optimisation"
    ),
    "herald": _ours(
        "HeraldMapper", "manual: the core that suits a job, while loads stay balanced (as Herald)"
    ),
    "ai-mt": _ours(
        "AiMtMapper", "manual: memory-intensive beside compute-intensive jobs (as AI-MT)"
    ),
    "random": _baseline("RandomMapper", "cores and priorities, drawn at random"),
    "genetic": _baseline("GeneticMapper", "genetic algorithm whose genes are all alike"),
    "de": _baseline("DifferentialEvolutionMapper", "differential evolution"),
    "pso": _baseline("ParticleSwarmMapper", "particle swarm optimisation"),
    "tbpsa": _baseline("TbpsaMapper", "test-based population-size adaptation"),
    "cma-es": _baseline(
        "CmaEsMapper", "CMA-ES over a continuous coding, with restarts", packages=("cmaes",)
    ),
    "a2c": _learning("A2cMapper", "advantage actor-critic, one agent"),
    "ppo": _learning("PpoMapper", "proximal policy optimisation, one agent"),
}  # fmt: skip

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
    return GROUP_MAPPERS.make(name, **options) if tuner is None else TunerMapper(tuner, **options)
