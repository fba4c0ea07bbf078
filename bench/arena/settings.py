# SPDX-License-Identifier: Apache-2.0
"""What the studies of tuners are told."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tilewright.bench.framework.commands import SEARCH, HtmlOption, command, studies
from tilewright.bench.framework.settings import (
    board_option,
    count_option,
    hw_option,
    memory_option,
    option,
    quick_option,
    seed_option,
    workers_option,
)
from tilewright.cli.common.arguments import replacing, require_places, require_readable
from tilewright.cli.common.json_output import read_document
from tilewright.tuner.schedule.options import SpaceName


@studies.command("tuners-page", rich_help_panel=SEARCH)
def tuners_page(
    parts: Annotated[
        list[Path], typer.Argument(metavar="JSON...", help="Files of 'tilewright bench tuners'.")
    ],
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="PAGE",
            help="Markdown to write; in a folder of its name, every table as a CSV file.",
        ),
    ],
    html: HtmlOption = None,
) -> None:
    """Write the page of a study of tuners, and its tables, from its JSON files."""
    from tilewright.bench.arena.document import write_document
    from tilewright.bench.arena.merge import merge
    from tilewright.bench.arena.plots import page
    from tilewright.host.common.whole_file import write_whole

    for path in parts:
        require_readable(path, "JSON")
    read, folder = {f"JSON ({path})": path for path in parts}, output.with_suffix("")
    require_places(read, {"--output": output, "--html": html}, {"the folder beside it": folder})
    study = merge([read_document(path) for path in parts])
    with replacing(output):
        write_document(study, output)
    if html is not None:
        with replacing(html):
            write_whole(html, page(study))


@studies.command("study-page", rich_help_panel=SEARCH)
def study_page(
    parts: Annotated[
        list[Path],
        typer.Argument(
            metavar="JSON...",
            help="Files of 'bench tuners' and 'bench intervals', or of 'bench mapping' or "
            "'bench multicore'.",
        ),
    ],
    page: Annotated[
        Path,
        typer.Option(
            "--page",
            metavar="PAGE",
            help="Markdown whose tables are made anew; the runs are written beside it as JSON.",
        ),
    ],
) -> None:
    """Write the tables of a study's page, and the runs that they are made from."""
    from tilewright.bench.arena.study_page import write_study
    from tilewright.bench.framework.published import write_page
    from tilewright.bench.mapping.page import published as published_mapping
    from tilewright.bench.multicore.page import published as published_multicore

    for path in (*parts, page):
        require_readable(path, "JSON" if path != page else "--page")
    read = {f"JSON ({path})": path for path in parts}
    require_places(read, {"the runs beside --page": page.with_suffix(".json")}, {"--page": page})
    studies = [read_document(path) for path in parts]
    for of, published in (("mapping", published_mapping), ("multicore", published_multicore)):
        if f" bench {of} " in str(studies[0].get("command")):
            return write_page(page, *published(studies))
    return write_study(studies, page)


@command(
    "certificates", SEARCH, "tilewright.bench.arena.certificates:Certificates",
    more="Each layer is kept when it is there; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class CertificatesSettings:
    """What `tune --within` is worth: layers that nothing was chosen on, until they are proven."""

    quick: bool = quick_option()
    layers: int = count_option(16, "Layers to draw.", quick=2)
    within: float = option(1.0, "Tolerance in percent.", metavar="PERCENT", low=0)
    budget: int = count_option(240, "Measurements of a study at most.", quick=24)
    proof_seconds: float = option(60.0, "Seconds of a proof.", metavar="SECONDS", low=0)
    seed: int = seed_option()
    workers: int = workers_option()


@command(
    "intervals", SEARCH, "tilewright.bench.framework.coverage:Intervals",
    more="Each share is kept; the same command goes on with the file of --json.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class IntervalsSettings:
    """How often the intervals of the studies hold the truth, by simulation."""

    quick: bool = quick_option()
    samples: int = count_option(4000, "Simulated samples of each share.", quick=400)
    seed: int = seed_option()


@command("default-tuner", SEARCH, "tilewright.bench.arena.default_tuner:study")
@dataclass(frozen=True, kw_only=True)
class DefaultTunerSettings:
    """What each part of the default tuner is worth, against the certified optimum."""

    network: str = option(
        "", "Run studies of this network in shared mode; default: single layers.",
        metavar="NETWORK",
    )  # fmt: skip
    board: str = board_option()
    hw: str = hw_option("pynq-16x16")
    memory: str = memory_option("ideal")
    space: SpaceName = option(SpaceName.VTA, "full: any tile sizes; vta: VTA's divisor tiles.")
    seeds: int = count_option(10, "Runs per variant of the tuner.")
    budget: int = count_option(128, "Measurements per run.")
    ranked: int = count_option(
        1000, "Schedules that the prior ranks first, measured in space full.", low=0
    )
    long: int = count_option(200, "Measurements of the long search in space full.", low=0)


@command(
    "tables", SEARCH, "tilewright.bench.arena.release:Tables",
    more="A module that reads the file is written beside it. What was enumerated is kept: the same "
    "command goes on where it was stopped.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class TablesSettings:
    """Write tables of whole search spaces with their certified optima, as one file."""

    quick: bool = quick_option()
    networks: tuple[str, ...] = option(
        (), "Networks of the known layers, separated by commas; default: all.",
        metavar="NETWORK,...", quick=("transformer_encoder",), of="network",
    )  # fmt: skip
    fresh: int = count_option(12, "Hard layers that nothing was chosen on.", low=0, quick=1)
    seed: int = seed_option()
    workers: int = workers_option()
    output: Path = option(
        Path("build/study/certified-tables.npz"), "File of the tables.", metavar="FILE"
    )
    folder: Path = option(Path("runs/arena"), "Folder of what was enumerated.", metavar="FOLDER")


@command(
    "tuners", SEARCH, "tilewright.bench.arena.study:Tuners", page=True,
    more="Runs are kept: the same command goes on where it was stopped.",
)  # fmt: skip
@dataclass(frozen=True, kw_only=True)
class TunersSettings:
    """Every tuner on equal terms, replayed against exhaustive tables of the exact twin."""

    quick: bool = quick_option()
    tables: Path | None = option(
        None, "File of 'tilewright bench tables' to take the tasks from, instead of enumerating "
        "those that the options of networks and layers name.", metavar="FILE",
    )  # fmt: skip
    sets: tuple[str, ...] = option(
        ("fresh",), "Of --tables: fresh, known or both.", metavar="SET,...",
        known="tilewright.bench.arena.release:SETS", only_with="tables",
    )  # fmt: skip
    track: str = option(
        "per-layer", "per-layer: each layer chooses a configuration; schedule: fixed hardware.",
        metavar="per-layer|schedule", quick="schedule",
        known="tilewright.bench.arena.tasks:TRACKS", not_with="tables",
    )  # fmt: skip
    networks: tuple[str, ...] = option(
        (), "Networks, separated by commas; default: all.", metavar="NETWORK,...",
        quick=("resnet18",), not_with="tables",
    )  # fmt: skip
    layers: tuple[str, ...] = option(
        (), "Only these layers, separated by commas; default: all, quick: C7 and C10.",
        metavar="LAYER,...", quick=("C7", "C10"), not_with="tables",
    )  # fmt: skip
    without: tuple[str, ...] = option(
        (), "Leave these layers out, separated by commas.", metavar="LAYER,...",
        not_with="tables",
    )  # fmt: skip
    hard: bool = option(False, "Leave out tasks that random search solves quickly.")
    work_limit: float = option(
        float("inf"), "Leave out layers with more points times multiply-accumulates than this.",
        metavar="N", not_with="tables",
    )  # fmt: skip
    per_network: int | None = count_option(
        None, "Draw this many layers per network.", not_with="tables"
    )
    draw: int | None = count_option(None, "Draw this many of the tasks.")
    tuners: tuple[str, ...] = option(
        (), "Tuners, separated by spaces, each with its options, as in "
        "'random tilewright:no-prior optuna-tpe:name=value'; default: all.",
        metavar="'TUNER ...'", separator=None,
    )  # fmt: skip
    seeds: int = count_option(30, "Runs per tuner and task.", quick=5)
    budget: int = count_option(1000, "Measurements per run.", quick=128)
    arms: tuple[str, ...] = option(
        ("masked",),
        "masked (legal points only) or as-published (illegal ones are charged), or both.",
        metavar="ARM,...", known="tilewright.bench.arena.replay:ARMS",
    )  # fmt: skip
    noise: tuple[float, ...] = option(
        (0.0,), "Noise of a measurement in percent, separated by commas.", metavar="PERCENT,..."
    )
    minutes: float = option(
        float("inf"), "Minutes after which no run starts; 0: collect the runs that are there.",
        metavar="MINUTES", low=0,
    )  # fmt: skip
    confirm: bool = option(False, "Run the winners of five seeds on the full RTL.")
    selections: int = count_option(
        0, "Compare confidence sampling with other selections on identical candidates.",
        metavar="SEEDS", low=0,
    )  # fmt: skip
    note: str = option("", "Note for the reader, which goes into the page.", metavar="TEXT")
    workers: int = workers_option()
    folder: Path = option(Path("runs/arena"), "Folder of tables and runs.", metavar="FOLDER")
