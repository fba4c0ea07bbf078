# SPDX-License-Identifier: Apache-2.0
"""What the study of several objectives is told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tilewright.bench.framework.commands import SEARCH, command
from tilewright.bench.framework.settings import count_option, quick_option, workers_option

INITIAL: Final = 8
"""Random points that every search measures first."""


@command(
    "objectives", SEARCH, "tilewright.bench.arena.front_study:FrontStudy",
    more="Each layer is kept when it is there; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class ObjectivesSettings:
    """Searches for the Pareto front of cycles, energy and area, against enumerated fronts."""

    quick: bool = quick_option()
    networks: int = count_option(6, "Networks, in the study's order.", quick=1)
    layers: int = count_option(2, "Layers of each network.", quick=1)
    seeds: int = count_option(5, "Seeds of each search.", quick=1)
    budget: int = count_option(64, "Measurements of a search.", quick=16, low=INITIAL)
    workers: int = workers_option()
