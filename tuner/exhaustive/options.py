# SPDX-License-Identifier: Apache-2.0
"""What a user says of an enumeration, or of a proof by one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tilewright.host.common.options import option
from tilewright.tuner.schedule.options import LayerOptions, SpaceName

_SPACE = "full: any tile sizes; vta: VTA's divisor tiles."


@dataclass(frozen=True, kw_only=True)
class LandscapeOptions(LayerOptions):
    """What is enumerated, and where its cycles are kept."""

    space: str = option(SpaceName.VTA.value, _SPACE, kind=SpaceName)
    workers: int = option(2, "Threads that work at a time.", low=1, metavar="THREADS")
    folder: Path = option(
        Path("runs/landscapes"), "Folder of the measured cycles.", metavar="FOLDER"
    )


@dataclass(frozen=True, kw_only=True)
class ExhaustOptions(LandscapeOptions):
    """What is enumerated, and what of it the RTL confirms."""

    confirm: int = option(
        3, "Schedules to confirm on the RTL: the best, and others at random.", low=0, metavar="N"
    )
    confirm_cycles: int = option(
        5_000_000, "Do not confirm schedules with more cycles than this.", low=1, metavar="CYCLES"
    )
    seed: int = option(0, "Seed of the random confirmations.", low=0, metavar="SEED")


@dataclass(frozen=True, kw_only=True)
class CertifyOptions:
    """Among which schedules the best is proven, and with what effort."""

    space: str = option(SpaceName.VTA.value, _SPACE, kind=SpaceName)
    limit: int | None = option(
        None, "Look only for networks with fewer cycles than this.", low=1, metavar="CYCLES"
    )
    seconds: float = option(
        1200.0, "Stop after this many seconds, unproven.", low=0, metavar="SECONDS"
    )
    workers: int | None = option(None, "Threads; default: one per core.", low=1, metavar="THREADS")
