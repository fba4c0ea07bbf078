# SPDX-License-Identifier: Apache-2.0
"""`CoreCost`: what a layer takes on a core; and that of a described core, with a proof.

`mapped_cost` asks the exact mapper three questions: which mapping is fastest, with which traffic
could it do, and how fast could it be with that traffic.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Final

from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.exact import ExactSearch, Progress
from tilewright.tuner.mapping.mapping import Mapping
from tilewright.tuner.mapping.nest import LoopNest, Tensor

SLACK: Final = 0.02
"""Time at the link that may be given up, as a share, for what `mapped_cost` asks second."""

STEP: Final = 1.1
"""Factor within which `mapped_cost` knows the answer to its second question."""

NODES: Final = 4_000_000
"""Bounds after which a search ends without a proof: less than a second. A count, not a time, so
that the same job has the same cost on every machine."""

DECISION_NODES: Final = 400_000
"""Bounds after which the second question counts as answered with no."""

_UNLIMITED: Final = 1e12
"""Bytes per cycle that no mapping can use; the most that an `Architecture` may have."""


@dataclass(frozen=True, kw_only=True)
class CoreCost:
    """What a layer takes on a core that never waits for memory.

    Attributes:
        gap: what a mapping of less latency could save at most, as a share; 0: proven to be the
            best; None: nothing is proven.
        shape: rows and columns of the array that it uses; of a described core clusters, and PEs of
            a cluster.
    """

    latency: float  # cycles; infinite: the core cannot run it
    bytes: float  # read from and written to DRAM
    tile_bytes: float = 0  # of one copy of the tiles in the core's shared buffer; 0: not known
    gap: float | None = None
    shape: tuple[int, int] = (0, 0)
    how: dict[str, Any] = field(default_factory=dict)  # the mapping or schedule, as plain values


IMPOSSIBLE: Final = CoreCost(latency=math.inf, bytes=math.inf)


def mapped_cost(
    nest: LoopNest, arch: Architecture, link: float, *, flexible: bool = False
) -> CoreCost:
    """The cost of a nest on a described core, by its certified best mapping.

    First the least time when DRAM moves ``link`` bytes per cycle: certified. Many mappings have it.
    Where DRAM is not what limits, the second question is for less traffic in that time, and
    otherwise for less latency without stalls with that traffic: bisection, to `STEP`.

    Args:
        nest: the layer.
        arch: the core; its own ``dram_bytes_per_cycle`` does not count.
        link: bytes per cycle that the mapping is made for; finite, above 0.
        flexible: the array may have any shape of as many PEs.
    """
    if flexible:
        arch = replace(arch, max_clusters=0, max_cluster_size=0)
    first = _search(nest, arch, link)
    if first.mapping is None:
        return IMPOSSIBLE
    mapping, cost = first.mapping, _cost(nest, arch, first.mapping)
    cycles = first.progress.value * (1 + SLACK)
    moved = cycles * link
    limited = _moved(cost) > cost["cycles"] * link
    low = nest.macs / arch.pes if limited else _compulsory(nest, arch)
    high = cost["cycles"] if limited else _moved(cost)
    while high > low * STEP:
        middle = math.sqrt(low * high)
        better = _within(nest, arch, *((middle, moved) if limited else (cycles, middle)))
        if better is None:
            low = middle
        else:
            mapping, cost = better, _cost(nest, arch, better)
            high = min(middle, cost["cycles"] if limited else _moved(cost))
    return CoreCost(
        latency=cost["cycles"],
        bytes=_moved(cost),
        tile_bytes=cost["l2_bytes"] / arch.buffers,
        gap=first.progress.gap,
        shape=(mapping.clusters, mapping.cluster_size),
        how=mapping.as_dict(),
    )


def _within(nest: LoopNest, arch: Architecture, cycles: float, moved: float) -> Mapping | None:
    """A mapping of at most so many cycles and bytes; None: there is none, or it takes too long.

    There is one exactly where DRAM of ``moved / cycles`` lets a mapping end in time.
    """
    search = _search(
        nest, arch, moved / cycles, lambda p: p.value <= cycles or p.bound > cycles, DECISION_NODES
    )
    return search.mapping if search.progress.value <= cycles else None


def _search(
    nest: LoopNest,
    arch: Architecture,
    link: float,
    enough: Callable[[Progress], bool] = lambda _: False,
    nodes: int = NODES,
) -> ExactSearch:
    """A search for the least latency, run until it is proven, enough is known, or ``nodes``."""
    search = ExactSearch(nest, replace(arch, dram_bytes_per_cycle=link), Objective.LATENCY)
    progress = search.step()
    while not (search.done or enough(progress) or progress.nodes >= nodes):
        progress = search.step()
    return search


def _compulsory(nest: LoopNest, arch: Architecture) -> float:
    """Bytes that every mapping moves."""
    sizes = (arch.weight_bytes, arch.input_bytes, arch.output_bytes)
    return sum(nest.elements(tensor) * size for tensor, size in zip(Tensor, sizes, strict=True))


def _cost(nest: LoopNest, arch: Architecture, mapping: Mapping) -> dict[str, float]:
    """The costs of a mapping that never waits for DRAM."""
    return CostModel(nest, replace(arch, dram_bytes_per_cycle=_UNLIMITED)).cost(mapping)


def _moved(cost: dict[str, float]) -> float:
    return sum(cost[f"dram_{tensor}_bytes"] for tensor in ("weight", "input", "output"))
