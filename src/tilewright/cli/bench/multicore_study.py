# SPDX-License-Identifier: Apache-2.0
"""The benchmark of group mappers: many networks on many cores."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.arguments import QuickOption
from tilewright.cli.bench.application import (
    SEARCH,
    bench_app,
    finish,
    keeper,
    known_rows,
    names,
    numbers,
)
from tilewright.cli.json_output import JsonOption
from tilewright.cli.multicore import ModelName


@bench_app.command("multicore", rich_help_panel=SEARCH)
def multicore(
    quick: QuickOption = False,
    tasks: Annotated[
        str,
        typer.Option(
            metavar="TASK|TABLE,...",
            help="Tasks and CSV files of job tables, separated by commas; default: every task.",
        ),
    ] = "",
    platforms: Annotated[
        str,
        typer.Option(
            metavar="PLATFORM,...", help="Of the tasks; default: S1 to S6, quick: S2 and S4."
        ),
    ] = "",
    bandwidths: Annotated[
        str,
        typer.Option(
            metavar="GB/S,...",
            help="Separated by commas, of tables in bytes per cycle; default: each platform's.",
        ),
    ] = "",
    methods: Annotated[
        str,
        typer.Option(
            metavar="METHOD,...", help="Group mappers; default: all, quick: those that are fast."
        ),
    ] = "",
    size: Annotated[int, typer.Option(metavar="N", min=1, help="Jobs of a group.")] = 100,
    bw_model: Annotated[
        ModelName, typer.Option(help="A job's bandwidth: its DRAM traffic, or the paper's.")
    ] = ModelName.TRAFFIC,
    budget: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Samples per run; default: 10000, quick: 2000."),
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Groups per case, one run per mapper; default: 10, quick: 2."
        ),
    ] = None,
    recorded: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Recorded makespans of another allocator, which ours is compared with.",
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Processes side by side.")] = 1,
    json: JsonOption = None,
) -> None:
    """Every mapper of groups at equal budgets of samples, against a bound of each instance.

    The file of --json is written after each case and seed; the same command goes on with it.
    """
    from tilewright.bench.multicore import study as bench
    from tilewright.bench.multicore.text import markdown
    from tilewright.tuner.multicore.analyse import BandwidthModel
    from tilewright.tuner.multicore.jobs import task_names

    options = bench.Options(
        targets=names(tasks, "--tasks") or task_names(),
        platforms=names(platforms, "--platforms") or (("S2", "S4") if quick else bench.PLATFORMS),
        bandwidths=numbers(bandwidths, "--bandwidths") if bandwidths else (),
        methods=names(methods, "--methods") or (bench.QUICK_METHODS if quick else bench.METHODS),
        size=size,
        bw_model=BandwidthModel(bw_model.value),
        budget=budget or (2000 if quick else 10_000),
        seeds=seeds or (2 if quick else 10),
        jobs=jobs,
        recorded=recorded,
    )
    study = bench.Study(options, known_rows(json))
    try:
        study.run(keeper(json))
    except KeyboardInterrupt:
        typer.echo("with --json FILE the same command goes on", err=True)
        raise
    result = study.result()
    typer.echo(markdown(result.summary))
    finish(result, json)
