# SPDX-License-Identifier: Apache-2.0
"""What a user says of the mapping of a layer: what is best, and how it is looked for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from tilewright.host.common.options import option

EXACT: Final = "exact"
"""The method that proves; any other name is a mapper's."""

DEFAULT_BUDGET: Final = 20_000


class ObjectiveName(StrEnum):
    """What `map` minimises (`cost.Objective`)."""

    LATENCY = "latency"
    ENERGY = "energy"
    EDP = "edp"
    AREA = "area"


@dataclass(frozen=True, kw_only=True)
class MapOptions:
    """How the mapping of each layer is found."""

    objective: str = option(
        ObjectiveName.EDP.value, "What is minimised; edp: energy times latency.", kind=ObjectiveName
    )
    method: str = option(
        EXACT,
        "exact: the best mapping, proven. Or a search within --budget: a mapper, a class of your "
        "own, or tuner-NAME with one of `tilewright tuners`.",
        metavar="NAME|MODULE:CLASS",
    )
    seconds: float | None = option(
        None,
        "Processor seconds per layer after which exact stops, with the gap that is left; default: "
        "until the proof.",
        low=0,
        metavar="SECONDS",
    )
    gap: float | None = option(
        None,
        "Let exact stop when none can be better by more than this share; default: 0.",
        low=0,
        high=1,
        metavar="SHARE",
    )
    budget: int | None = option(
        None,
        f"Mappings that a search may try per layer; default: {DEFAULT_BUDGET}.",
        low=1,
        metavar="SAMPLES",
    )
    seed: int = option(0, "Seed of every random choice.", low=0, metavar="SEED")
