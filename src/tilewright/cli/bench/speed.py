# SPDX-License-Identifier: Apache-2.0
"""Benchmarks of the toolkit itself: simulation, lowering, builds, execution, store, agent."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tilewright.cli.arguments import HwOption, QuickOption, SeedOption
from tilewright.cli.bench.application import SPEED, bench_app, finish, names, numbers
from tilewright.cli.json_output import JsonOption

PostgresOption = Annotated[str, typer.Option(metavar="URL", help="An empty database to use.")]


@bench_app.command(rich_help_panel=SPEED)
def simspeed(
    quick: QuickOption = False,
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Runs of each simulation.")] = 7,
    arrays: Annotated[
        str, typer.Option(metavar="SIDE,...", help="Sides of the MAC arrays, separated by commas.")
    ] = "8,16,32",
    json: JsonOption = None,
) -> None:
    """Cycles per second of every fidelity, side by side in one run."""
    from tilewright.bench.simspeed import CONFIGS, run

    sides = [int(side) for side in names(arrays, "--arrays", map(str, CONFIGS))]
    finish(run(rounds=3 if quick else rounds, arrays=[16] if quick else sides), json)


@bench_app.command(rich_help_panel=SPEED)
def lowering(
    quick: QuickOption = False,
    hw: HwOption = "pynq-16x16",
    sample: Annotated[int, typer.Option(metavar="N", min=0, help="Points per layer; 0: all.")] = 0,
    seconds: Annotated[
        float,
        typer.Option(metavar="SECONDS", min=0, help="Seconds of lowering in Python per layer."),
    ] = 5,
    repeat: Annotated[
        int, typer.Option(metavar="N", min=1, help="Runs of which the best counts.")
    ] = 3,
    seed: SeedOption = 0,
    json: JsonOption = None,
) -> None:
    """Programs per second of lowering, in Python and in C++."""
    from tilewright.bench.lowering import run

    result = run(
        hw=hw,
        sample=(sample or 200) if quick else sample,
        seconds=min(seconds, 1) if quick else seconds,
        repeat=repeat,
        seed=seed,
    )
    finish(result, json)


@bench_app.command(rich_help_panel=SPEED)
def builds(
    quick: QuickOption = False,
    rounds: Annotated[int, typer.Option(metavar="N", min=1, help="Builds of each model.")] = 3,
    jobs: Annotated[int, typer.Option(metavar="N", min=1, help="Compilers at a time.")] = 2,
    json: JsonOption = None,
) -> None:
    """Seconds that a new configuration takes to build, from an empty cache."""
    from tilewright.bench.builds import run

    finish(run(rounds=1 if quick else rounds, jobs=jobs), json)


@bench_app.command(rich_help_panel=SPEED)
def execution(
    quick: QuickOption = False,
    hw: HwOption = "pynq-16x16",
    ray: Annotated[bool, typer.Option(help="Time Ray, too.")] = True,
    postgres: PostgresOption = "",
    json: JsonOption = None,
) -> None:
    """What a trial costs besides its simulation (PostgreSQL without a URL: a clone only)."""
    from tilewright.bench.execution import run

    finish(run(hw=hw, quick=quick, ray=ray, postgres=postgres), json)


@bench_app.command(rich_help_panel=SPEED)
def store(
    trials: Annotated[
        str, typer.Option(metavar="N,...", help="Sizes of the store, separated by commas.")
    ] = "1000,50000",
    commits: Annotated[
        int, typer.Option(metavar="N", min=1, help="Commits that are timed.")
    ] = 2000,
    repeats: Annotated[
        int, typer.Option(metavar="N", min=1, help="Runs of which the median counts.")
    ] = 3,
    postgres: PostgresOption = "",
    folder: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Folder of the SQLite files; default: that of temporary files."
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Commits per second of the trial store, and the report of a study of many trials."""
    from tilewright.bench.store import run

    result = run(
        trials=[int(count) for count in numbers(trials, "--trials")],
        commit_count=commits,
        repeats=repeats,
        postgres=postgres,
        folder=folder,
    )
    finish(result, json)


@bench_app.command(rich_help_panel=SPEED)
def agent(
    mib: Annotated[int, typer.Option(metavar="MIB", min=1, help="Memory of a run, in MiB.")] = 64,
    repeats: Annotated[
        int,
        typer.Option(
            metavar="N", min=1, help="Samples of each figure, of which the median counts."
        ),
    ] = 7,
    json: JsonOption = None,
) -> None:
    """What TLS costs between an agent and its client, on loopback."""
    from tilewright.bench.agent import run

    finish(run(mib=mib, repeats=repeats), json)
