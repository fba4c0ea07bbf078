# SPDX-License-Identifier: Apache-2.0
"""The front of latency and energy of a nest, with a proof: `pareto_front`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.cost import CostModel, Objective, require_priced
from tilewright.tuner.mapping.exact import ExactSearch, Listener, nothing_fits, run_search
from tilewright.tuner.mapping.fixed import FREE, Fixed
from tilewright.tuner.mapping.mapping import Mapping, mapping_of
from tilewright.tuner.mapping.nest import LoopNest


@dataclass(frozen=True, kw_only=True)
class Front:
    """Mappings that no other one of them is as good as in both latency and energy."""

    nest: LoopNest  # the problem
    points: tuple[tuple[Mapping, dict[str, float]], ...]  # with their cost; fewest cycles first
    certified: bool  # each other mapping is as slow and takes as much energy as one of these
    gap: float  # ... if it gets better in both by this share
    seconds: float  # processor time
    samples: int  # nodes of the proof
    stopped: bool = False  # Ctrl-C ended the search

    def to_rows(self) -> list[dict[str, Any]]:
        """Plain values for a JSON document, one row per mapping."""
        told = {
            "gap": self.gap if self.certified else None,
            "seconds": round(self.seconds, 3),
            "samples": self.samples,
            "stopped": self.stopped,
        }
        layer = self.nest.to_row()
        return [
            {**layer, "mapping": mapping.as_dict(), "cost": cost, **told}
            for mapping, cost in self.points
        ]


def pareto_front(
    nest: LoopNest,
    arch: Architecture,
    *,
    fixed: Fixed = FREE,
    seconds: float | None = None,
    gap: float = 0.0,
    listener: Listener | None = None,
) -> Front:
    """The front of latency and energy of the mappings that have what is ``fixed``.

    Of mappings with equal latency and energy it has one. Ctrl-C and ``seconds`` end the search
    early; what was found by then is not proven. A mapping is left out if one of the front is worse
    by at most ``gap`` of its own latency and energy.

    Raises:
        ConfigError: energy has no price, no mapping has what is fixed, or the buffers hold nothing.

    Example:
        >>> from tilewright.tuner.mapping.architecture import load_architecture
        >>> nest = LoopNest(name="fc", sizes=(64, 256, 1, 1, 1, 1))
        >>> front = pareto_front(nest, load_architecture("flexible-256"))
        >>> front.certified, [(c["cycles"], round(c["energy"])) for _, c in front.points][:2]
        (True, [(1055.0, 4331409), (1060.0, 4325756)])
    """
    require_priced(arch, Objective.ENERGY)
    fixed.require_possible(nest, arch)
    started = time.thread_time()
    search = ExactSearch(nest, arch, Objective.EDP, fixed=fixed, front_gap=gap)
    stopped = run_search(search, started, seconds, 0, listener)
    mappings = [mapping_of(row) for row in search.front()]
    if not mappings:
        raise nothing_fits(arch, fixed)
    model = CostModel(nest, arch)
    return Front(
        nest=nest,
        points=tuple((mapping, model.cost(mapping)) for mapping in mappings),
        certified=search.done,
        gap=gap,
        seconds=time.thread_time() - started,
        samples=search.progress.nodes,
        stopped=stopped,
    )
