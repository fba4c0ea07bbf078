# SPDX-License-Identifier: Apache-2.0
"""What the comparison of allocators is told, and the command that prints its tables."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tilewright.bench.framework.commands import SEARCH, command, studies
from tilewright.bench.framework.settings import (
    count_option,
    hw_option,
    memory_option,
    option,
    quick_option,
    workers_option,
)
from tilewright.cli.common.application import say
from tilewright.cli.common.arguments import require_readable
from tilewright.cli.common.json_output import read_document
from tilewright.cli.common.parse_errors import UsageError
from tilewright.tuner.schedule.options import SpaceName


@command(
    "allocate", SEARCH, "tilewright.bench.allocate.study:Allocation", page=True,
    more="Each network and seed is kept when it is there; the same command goes on with the file "
    "of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class AllocateSettings:
    """Who gets the next slot of tuning time: every allocator on the same searches."""

    quick: bool = quick_option()
    networks: tuple[str, ...] = option(
        ("alexnet", "transformer_encoder", "squeezenet", "resnet18", "mobilenet_v2", "vgg16",
         "vgg11", "vgg13", "vgg19", "resnet34", "bert_tiny", "gpt2", "dlrm", "ncf", "wide_and_deep",
         "googlenet"),
        "Networks, separated by commas; default: all.", metavar="NETWORK,...",
        quick=("alexnet", "transformer_encoder"),
    )  # fmt: skip
    seeds: int = count_option(30, "Seeds per network.", quick=3)
    prices: tuple[str, ...] = option(
        ("rtl", "twin", "board"), "Prices of a trial, separated by commas; default: all.",
        metavar="PRICE,...", quick=("rtl",), known="tilewright.bench.allocate.trials:PRICES",
    )  # fmt: skip
    hw: str = hw_option("pynq-16x16")
    memory: str = memory_option("ideal")
    space: SpaceName = option(SpaceName.FULL, "full: any tile sizes; vta: VTA's divisor tiles.")
    regime: str = option(
        "study", "How searches are run.", metavar="study|paper",
        known="tilewright.bench.allocate.case:REGIMES",
    )  # fmt: skip
    tuner: str = option(
        "", "Search tuner of every task; default: the regime's.", metavar="TUNER",
        known="tilewright.tuner.search:TUNERS",
    )  # fmt: skip
    trials: int | None = count_option(
        None, "Trials per task in the sequential baseline; default: the regime's."
    )
    slots: int | None = count_option(None, "Slots in a task's equal share; default: the regime's.")
    ablate: bool = option(False, "Run variants of DynaTune instead of all allocators.")
    cache: Path | None = option(
        None, "Folder of the trials; default: in the build cache.", metavar="FOLDER"
    )


@studies.command("allocate-tables", rich_help_panel=SEARCH)
def allocate_tables(
    study: Annotated[
        Path, typer.Argument(metavar="JSON", help="File of 'tilewright bench allocate'.")
    ],
) -> None:
    """Print the tables of a comparison of allocators as Markdown."""
    from tilewright.bench.allocate.summary import tables

    require_readable(study, "JSON")
    document = read_document(study)
    if "summary" not in document:
        raise UsageError(
            "must be a file of 'bench allocate'",
            field="JSON",
            value=str(study),
            remedy="run 'tilewright bench allocate --json FILE' first",
        )
    say(tables(document))


@command(
    "waiting", SEARCH, "tilewright.bench.allocate.waiting:WaitingStudy",
    more="Each network is kept when it is there; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class WaitingSettings:
    """What waiting for batches costs on simulated boards whose trials take unequal times."""

    quick: bool = quick_option()
    networks: int = count_option(9, "Networks, in the study's order.", quick=1)
    seeds: int = count_option(3, "Seeds of each search.", quick=1)
    boards: int = count_option(8, "Boards side by side, and trials of a batch.", quick=4)
    budget: int = count_option(128, "Measurements of a search; 4 a layer at least.", quick=32)
    workers: int = workers_option()
