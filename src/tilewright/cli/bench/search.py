# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of search: every tuner, every allocator, the default tuner, and their pages."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.application import say
from tilewright.cli.arguments import (
    BoardOption,
    HwOption,
    MemoryOption,
    NetworkOption,
    QuickOption,
    SpaceOption,
    WorkersOption,
    replacing,
    require_places,
    require_readable,
)
from tilewright.cli.bench.application import (
    SEARCH,
    HtmlOption,
    bench_app,
    finish,
    keeper,
    known_rows,
    names,
    numbers,
    resumable,
)
from tilewright.cli.json_output import JsonOption, read_document
from tilewright.cli.parse_errors import UsageError
from tilewright.tuner.study.options import SpaceName


@bench_app.command("default-tuner", rich_help_panel=SEARCH)
def default_tuner(
    network: Annotated[
        str,
        typer.Option(
            metavar="NETWORK",
            help="Run studies of this network in shared mode; default: single layers.",
        ),
    ] = "",
    board: BoardOption = "pynq-z2",
    hw: HwOption = "pynq-16x16",
    memory: MemoryOption = "ideal",
    space: SpaceOption = SpaceName.VTA,
    seeds: Annotated[
        int, typer.Option(metavar="N", min=1, help="Runs per variant of the tuner.")
    ] = 10,
    budget: Annotated[int, typer.Option(metavar="N", min=1, help="Measurements per run.")] = 128,
    ranked: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Schedules that the prior ranks first, measured in space full."
        ),
    ] = 1000,
    long: Annotated[
        int, typer.Option(metavar="N", min=0, help="Measurements of the long search in space full.")
    ] = 200,
    json: JsonOption = None,
) -> None:
    """What each part of the default tuner is worth, against the certified optimum."""
    from tilewright.bench.default_tuner import Options, run

    options = Options(
        network=network,
        board=board,
        hw=hw,
        memory=memory,
        space=space.value,
        seeds=seeds,
        budget=budget,
        ranked=ranked,
        long=long,
    )
    finish(run(options), json)


@bench_app.command(rich_help_panel=SEARCH)
def tuners(
    quick: QuickOption = False,
    track: Annotated[
        str,
        typer.Option(
            metavar="per-layer|schedule",
            help="per-layer: each layer chooses a configuration; schedule: fixed hardware.",
        ),
    ] = "per-layer",
    networks: Annotated[
        str,
        typer.Option(metavar="NETWORK,...", help="Networks, separated by commas; default: all."),
    ] = "",
    layers: Annotated[
        str, typer.Option(metavar="LAYER,...", help="Only these layers, separated by commas.")
    ] = "",
    without: Annotated[
        str, typer.Option(metavar="LAYER,...", help="Leave these layers out, separated by commas.")
    ] = "",
    hard: Annotated[
        bool, typer.Option("--hard", help="Leave out tasks that random search solves quickly.")
    ] = False,
    work_limit: Annotated[
        float,
        typer.Option(
            metavar="N",
            help="Leave out layers with more points times multiply-accumulates than this.",
        ),
    ] = float("inf"),
    per_network: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Draw this many layers per network.")
    ] = None,
    draw: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Draw this many of the tasks.")
    ] = None,
    contestants: Annotated[
        str,
        typer.Option(
            "--tuners",
            metavar="'TUNER ...'",
            help="Tuners, separated by spaces, each with its options, as in "
            "'random tilewright:no-prior optuna-tpe:name=value'; default: all.",
        ),
    ] = "",
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Runs per tuner and task.")] = 30,
    budget: Annotated[int, typer.Option(metavar="N", min=1, help="Measurements per run.")] = 1000,
    arms: Annotated[
        str,
        typer.Option(
            metavar="ARM,...",
            help="masked (legal points only) or as-published (illegal ones are charged), or both.",
        ),
    ] = "masked",
    noise: Annotated[
        str,
        typer.Option(
            metavar="PERCENT,...", help="Noise of a measurement in percent, separated by commas."
        ),
    ] = "0",
    minutes: Annotated[
        float,
        typer.Option(
            metavar="MINUTES",
            min=0,
            help="Minutes after which no run starts; 0: collect the runs that are there.",
        ),
    ] = float("inf"),
    confirm: Annotated[
        bool, typer.Option("--confirm", help="Run the winners of five seeds on the full RTL.")
    ] = False,
    selections: Annotated[
        int,
        typer.Option(
            min=0,
            metavar="SEEDS",
            help="Compare confidence sampling with other selections on identical candidates.",
        ),
    ] = 0,
    note: Annotated[
        str, typer.Option(metavar="TEXT", help="Note for the reader, which goes into the page.")
    ] = "",
    workers: WorkersOption = 2,
    folder: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Folder of tables and runs.")
    ] = Path("runs/arena"),
    html: HtmlOption = None,
    json: JsonOption = None,
) -> None:
    """Every tuner on equal terms, replayed against exhaustive tables of the exact twin.

    Runs are kept: the same command goes on where it was stopped.
    """
    # One thread a process: two runs at a time share two cores, and sums do not depend on threads.
    os.environ.update(OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")
    from tilewright.bench import tuners as bench
    from tilewright.bench.arena.runner import Contestant
    from tilewright.bench.arena.tasks import NETWORKS

    options = bench.Options(
        track="schedule" if quick else track,
        networks=["resnet18"] if quick else names(networks, "--networks") or list(NETWORKS),
        layers=list(bench.QUICK_LAYERS) if quick else names(layers, "--layers"),
        without=names(without, "--without"),
        hard=hard,
        work_limit=work_limit,
        per_network=per_network,
        draw=draw,
        tuners=[Contestant.parse(name) for name in contestants.split()] or bench.everybody(),
        seeds=5 if quick else seeds,
        budget=128 if quick else budget,
        arms=names(arms, "--arms"),
        noise=numbers(noise, "--noise"),
        minutes=minutes,
        confirm=confirm,
        selections=selections,
        note=note,
        workers=workers,
        folder=folder,
    )
    try:
        result, study = bench.study(options)
    except KeyboardInterrupt:
        say("the runs made are kept, the same command goes on", err=True)
        raise
    if html is not None:
        from tilewright.bench.arena.plots import write_plots

        with replacing(html):
            write_plots(study, html)
    finish(result, json)


@bench_app.command("tuners-page", rich_help_panel=SEARCH)
def tuners_page(
    studies: Annotated[
        list[Path], typer.Argument(metavar="JSON...", help="Files of 'tilewright bench tuners'.")
    ],
    output: Annotated[
        Path,
        typer.Option("--output", "-o", metavar="PAGE", help="Markdown to write."),
    ],
    html: HtmlOption = None,
) -> None:
    """Write the page of a study of tuners from its JSON files."""
    from tilewright.bench.arena.document import document
    from tilewright.bench.arena.merge import merge
    from tilewright.bench.arena.plots import write_plots
    from tilewright.host.common.whole_file import write_whole

    for path in studies:
        require_readable(path, "JSON")
    require_places(
        {f"JSON ({path})": path for path in studies}, {"--output": output, "--html": html}
    )
    study = merge([read_document(path) for path in studies])
    with replacing(output):
        write_whole(output, document(study))
    if html is not None:
        with replacing(html):
            write_plots(study, html)


@bench_app.command(rich_help_panel=SEARCH)
def allocate(
    quick: QuickOption = False,
    networks: Annotated[
        str,
        typer.Option(metavar="NETWORK,...", help="Networks, separated by commas; default: all."),
    ] = "",
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Seeds per network; default: 30, quick: 3."),
    ] = None,
    prices: Annotated[
        str,
        typer.Option(
            metavar="PRICE,...", help="Prices of a trial, separated by commas; default: all."
        ),
    ] = "",
    hw: HwOption = "pynq-16x16",
    memory: MemoryOption = "ideal",
    space: SpaceOption = SpaceName.FULL,
    regime: Annotated[
        str, typer.Option(metavar="study|paper", help="How searches are run.")
    ] = "study",
    tuner: Annotated[
        str,
        typer.Option(metavar="TUNER", help="Search tuner of every task; default: the regime's."),
    ] = "",
    trials: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Trials per task in the sequential baseline; default: the regime's.",
        ),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Slots in a task's equal share; default: the regime's."
        ),
    ] = None,
    ablate: Annotated[
        bool, typer.Option("--ablate", help="Run variants of DynaTune instead of all allocators.")
    ] = False,
    cache: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Folder of the trials; default: in the build cache."),
    ] = None,
    html: HtmlOption = None,
    json: JsonOption = None,
) -> None:
    """Who gets the next slot of tuning time: every allocator on the same searches.

    The file of --json is written after each network and seed; the same command goes on with it.
    """
    from tilewright.bench import allocate as bench
    from tilewright.bench.allocate_case import REGIMES
    from tilewright.bench.allocate_trials import PRICES
    from tilewright.sim.tools.build_cache import cache_dir
    from tilewright.tuner.search import TUNERS

    chosen = names(networks, "--networks") or list(bench.QUICK if quick else bench.NETWORKS)
    paid = names(prices, "--prices", PRICES) or (["rtl"] if quick else list(PRICES))
    options = bench.Options(
        hw=hw,
        memory=memory,
        space=space.value,
        regime=names(regime, "--regime", REGIMES)[0],
        tuner=names(tuner, "--tuner", TUNERS)[0] if tuner else None,
        trials=trials,
        slots=slots,
        ablate=ablate,
        cache=cache or cache_dir() / "trials",
    )
    with resumable(json):
        study = bench.compare_allocators(
            options,
            chosen,
            seeds=seeds or (3 if quick else 30),
            prices=paid,
            known=known_rows(json),
            keep=keeper(json),
        )
    result = study.result()
    if html is not None and not ablate:
        from tilewright.bench.allocate_figures import write_figures

        shown = {"rows": result.rows, "conditions": result.conditions, **result.more}
        with replacing(html):
            write_figures(html, shown, study.cases(chosen, paid[0]))
    finish(result, json)


@bench_app.command("allocate-tables", rich_help_panel=SEARCH)
def allocate_tables(
    study: Annotated[
        Path, typer.Argument(metavar="JSON", help="File of 'tilewright bench allocate'.")
    ],
) -> None:
    """Print the tables of a comparison of allocators as Markdown."""
    from tilewright.bench.allocate_tables import tables

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


@bench_app.command("mapping-models", rich_help_panel=SEARCH)
def mapping_models(
    maestro: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Rows of MAESTRO: dataflows.csv and mapspace.csv."),
    ] = None,
    zigzag: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Rows that bench/mapping/zigzag_runs.py printed."),
    ] = None,
    network: NetworkOption = "vta-resnet18",
    layers: Annotated[
        str, typer.Option(metavar="LAYER,...", help="Layers; default: all that are not folded.")
    ] = "",
    hw: HwOption = "pynq-16x16",
    memory: MemoryOption = "ideal",
    space: SpaceOption = SpaceName.VTA,
    json: JsonOption = None,
) -> None:
    """The cost model of mappings against MAESTRO, ZigZag, and the RTL over whole spaces."""
    from tilewright.bench.mapping.models import run

    for path, field in ((maestro, "--maestro"), (zigzag, "--zigzag")):
        if path is not None:
            require_readable(path, field)
    result = run(
        maestro_folder=maestro,
        zigzag_file=zigzag,
        hw=hw,
        memory=memory,
        network=network,
        layers=names(layers, "--layers"),
        kind=space.value,
    )
    finish(result, json)


@bench_app.command("mapping", rich_help_panel=SEARCH)
def mapping(
    quick: QuickOption = False,
    networks: Annotated[
        str,
        typer.Option(metavar="NETWORK,...", help="Networks, separated by commas; default: five."),
    ] = "",
    objectives: Annotated[
        str,
        typer.Option(
            metavar="OBJECTIVE,...",
            help="latency, energy, edp or area, separated by commas; "
            "default: latency, edp and area, quick: edp.",
        ),
    ] = "",
    methods: Annotated[
        str,
        typer.Option(
            metavar="MAPPER,...",
            help="Mappers, separated by commas, each with its options, as in marl:agents=3; "
            "default: all.",
        ),
    ] = "",
    agents: Annotated[
        bool, typer.Option("--agents", help="Sweep the number of agents instead of the mappers.")
    ] = False,
    hardware: Annotated[
        str, typer.Option(metavar="NAME|FILE", help="Described accelerator.")
    ] = "flexible-256",
    per_network: Annotated[
        int | None,
        typer.Option(metavar="N", min=0, help="Layers per network; 0: all; default: 3, quick: 1."),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Samples per run; default: 20000, quick: 2000."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Runs per mapper and task; default: 10, quick: 2."),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes side by side.")] = 1,
    html: HtmlOption = None,
    json: JsonOption = None,
) -> None:
    """Every mapper at equal budgets of samples, against the certified optimum of each layer.

    The file of --json is written every ten seconds; the same command goes on with it.
    """
    from tilewright.bench.mapping import study as bench
    from tilewright.bench.mapping.study_page import markdown, page
    from tilewright.host.common.whole_file import write_whole
    from tilewright.tuner.mapping.cost import Objective

    chosen = names(objectives, "--objectives", list(Objective))
    options = bench.Options(
        networks=names(networks, "--networks") or bench.NETWORKS,
        objectives=chosen or (("edp",) if quick else bench.OBJECTIVES),
        methods=bench.contestants(names(methods, "--methods") or bench.METHODS, agents),
        hardware=hardware,
        per_network=(1 if quick else 3) if per_network is None else per_network,
        budget=budget or (2000 if quick else 20_000),
        seeds=seeds or (2 if quick else 10),
        jobs=jobs,
    )
    study = bench.Study(options, known_rows(json))
    with resumable(json):
        study.run(keeper(json))
    result = study.result()
    say(markdown(result.summary))
    if html is not None:
        shown = {"rows": result.rows, "summary": result.summary, "conditions": result.conditions}
        with replacing(html):
            write_whole(html, page(shown))
    finish(result, json)
