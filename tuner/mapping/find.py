# SPDX-License-Identifier: Apache-2.0
"""One way to map a nest, whatever the method: proven, or by a mapper within a budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import choices
from tilewright.host.common.plugins import FORMS
from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.cost import CostModel, Objective, value_of
from tilewright.tuner.mapping.exact import Certified, Listener, best_mapping, gap_of
from tilewright.tuner.mapping.fixed import FREE, Fixed
from tilewright.tuner.mapping.mapping import Mapping
from tilewright.tuner.mapping.methods.mapper import MapperError
from tilewright.tuner.mapping.methods.registry import MAPPERS, make_mapper
from tilewright.tuner.mapping.nest import LoopNest
from tilewright.tuner.mapping.options import DEFAULT_BUDGET, EXACT, MapOptions
from tilewright.tuner.search.registry import named_tuner


@dataclass(frozen=True, kw_only=True)
class Found:
    """A mapping of one nest."""

    nest: LoopNest  # the problem
    mapping: Mapping  # the best mapping found
    cost: dict[str, float]  # by the names of `MEASURES`
    value: float  # what was minimised
    bound: float | None  # no mapping has less; None: the method proves nothing
    seconds: float  # processor time
    samples: int  # mappings that a mapper was told the cost of, or nodes of the proof
    stopped: bool = False  # Ctrl-C ended the search of this nest
    best: Certified | None = None  # the best mapping, where another one was judged (`judge`)

    @property
    def gap(self) -> float | None:
        """What a better mapping could save at most, as a share of ``value``."""
        return None if self.bound is None else gap_of(self.value, self.bound)

    def document(self, arch: Architecture, objective: str) -> dict[str, Any]:
        """Plain values for a YAML file that tells what the mapping is for (`read_mapping`)."""
        return {
            **self.nest.to_row(),
            "architecture": arch.name,
            "objective": objective,
            "value": self.value,
            "bound": self.bound,
            "gap": self.gap,
            "cost": self.cost,
            "mapping": self.mapping.as_dict(),
        }

    def to_row(self) -> dict[str, Any]:
        """Plain values for a JSON document."""
        return {
            **self.nest.to_row(),
            "mapping": self.mapping.as_dict(),
            "value": self.value,
            "bound": self.bound,
            "gap": self.gap,
            "seconds": round(self.seconds, 3),
            "samples": self.samples,
            "stopped": self.stopped,
            "cost": self.cost,
        }


def judge(
    nest: LoopNest,
    arch: Architecture,
    mapping: Mapping,
    objective: Objective,
    *,
    fixed: Fixed = FREE,
    seconds: float | None = None,
    gap: float = 0.0,
    listener: Listener | None = None,
) -> Found:
    """A given mapping beside the best one that has what is ``fixed``.

    ``bound`` and ``gap`` then say how far the given one can be from the best at most.

    Raises:
        ConfigError: the mapping is not legal, or has not what is fixed.
    """
    cost = CostModel(nest, arch).cost(mapping)
    if why := fixed.refusal(mapping):
        raise ConfigError(f"is not a mapping with what is fixed: {why}", field="mapping")
    best = best_mapping(
        nest, arch, objective, fixed=fixed, seconds=seconds, gap=gap, listener=listener
    )
    value = value_of(cost, objective)
    if value < best.value:  # the search ended before it came this far
        best = replace(best, value=value, mapping=mapping, cost=cost)
    return replace(_found(nest, best), mapping=mapping, cost=cost, value=value, best=best)


Finder = Callable[[LoopNest, Listener | None], Found]


def finder(arch: Architecture, settings: MapOptions, fixed: Fixed = FREE) -> Finder:
    """What maps one nest after another; the method is looked up here, before any work."""
    method, objective = settings.method, Objective(settings.objective)
    if method == EXACT:
        seconds, gap = settings.seconds, settings.gap or 0.0

        def prove(nest: LoopNest, listener: Listener | None = None) -> Found:
            proof = best_mapping(
                nest, arch, objective, fixed=fixed, seconds=seconds, gap=gap, listener=listener
            )
            return _found(nest, proof)

        return prove
    if not (method in MAPPERS or ":" in method or named_tuner(method)):
        raise MapperError(
            "no mapper of that name",
            field="method",
            value=method,
            remedy=f"{choices(method, (EXACT, *MAPPERS))}, {FORMS}, or tuner-NAME",
        )
    mapper = make_mapper(method)
    budget, seed = settings.budget or DEFAULT_BUDGET, settings.seed

    def search(nest: LoopNest, listener: Listener | None = None) -> Found:
        del listener
        model = CostModel(nest, arch)
        started = time.process_time()
        trace = mapper.run(model, objective, budget, seed, fixed)
        return Found(
            nest=nest,
            mapping=trace.mapping,
            cost=model.cost(trace.mapping),
            value=trace.value,
            bound=None,
            seconds=time.process_time() - started,
            samples=trace.samples,
            stopped=trace.stopped,
        )

    return search


def _found(nest: LoopNest, proof: Certified) -> Found:
    return Found(
        nest=nest,
        mapping=proof.mapping,
        cost=proof.cost,
        value=proof.value,
        bound=proof.bound,
        seconds=proof.seconds,
        samples=proof.nodes,
        stopped=proof.stopped,
    )
