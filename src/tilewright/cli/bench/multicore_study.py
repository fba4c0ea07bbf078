# SPDX-License-Identifier: Apache-2.0
"""The benchmarks of many networks on many cores: mappers, predictions, networks."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from tilewright.cli.application import say
from tilewright.cli.arguments import QuickOption, replacing
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
from tilewright.cli.json_output import JsonOption
from tilewright.cli.multicore_group import ModelName
from tilewright.cli.multicore_networks import SystemDeviceName
from tilewright.host.common.errors import fields_named

_FIELDS: Final = {
    "task": "--tasks",
    "platform": "--platforms",
    "bandwidth": "--bandwidths",
    "group mapper": "--methods",
    "size": "--size",
}


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
    html: HtmlOption = None,
    json: JsonOption = None,
) -> None:
    """Every mapper of groups at equal budgets of samples, against a bound of each instance.

    The file of --json is written every ten seconds; the same command goes on with it.
    """
    from tilewright.bench.multicore import study as bench
    from tilewright.bench.multicore.study_page import markdown, page
    from tilewright.host.common.whole_file import write_whole
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
    with fields_named(_FIELDS), resumable(json):
        study = bench.Study(options, known_rows(json))
        study.run(keeper(json))
    result = study.result()
    say(markdown(result.summary))
    if html is not None:
        shown = {"rows": result.rows, "summary": result.summary, "conditions": result.conditions}
        with replacing(html):
            write_whole(html, page(shown))
    finish(result, json)


@bench_app.command("multicore-rtl", rich_help_panel=SEARCH)
def multicore_rtl(
    quick: QuickOption = False,
    systems: Annotated[
        str, typer.Option(metavar="SYSTEM,...", help="Hardware; default: three, quick: dual-tiny.")
    ] = "",
    tasks: Annotated[
        str,
        typer.Option(metavar="TASK,...", help="Default: three, quick: recommendation."),
    ] = "",
    bandwidths: Annotated[
        str,
        typer.Option(
            metavar="BYTES,...",
            help="Bytes per cycle of a port's DRAM in each direction; default: 8,2,1, quick: 2.",
        ),
    ] = "",
    methods: Annotated[
        str, typer.Option(metavar="METHOD,...", help="Group mappers; default: seven.")
    ] = "",
    size: Annotated[int, typer.Option(metavar="N", min=1, help="Jobs of a group.")] = 8,
    seeds: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Groups per system, task and bandwidth; default: 2, quick: 1."
        ),
    ] = None,
    budget: Annotated[int, typer.Option(metavar="N", min=1, help="Samples of a mapper.")] = 2000,
    device: Annotated[
        SystemDeviceName, typer.Option(help="rtl (bit-exact), or the same cycles without data.")
    ] = SystemDeviceName.RTL,
    json: JsonOption = None,
) -> None:
    """Makespans that models predict, against the RTL of several cores, bit-exact.

    Small layers of real networks run on all cores of a system at the same time. Without data each
    job is checked on the reference. The file of --json is written after each run.
    """
    from tilewright.bench.multicore import truth

    options = truth.Options(
        systems=names(systems, "--systems") or truth.SYSTEMS[: 1 if quick else None],
        tasks=names(tasks, "--tasks") or (truth.TASKS[1:2] if quick else truth.TASKS),
        bandwidths=numbers(bandwidths, "--bandwidths")
        if bandwidths
        else ((2.0,) if quick else truth.BANDWIDTHS),
        methods=names(methods, "--methods") or truth.METHODS,
        size=size,
        seeds=seeds or (1 if quick else 2),
        budget=budget,
        device=device.value,
    )
    named = {
        "system": "--systems",
        "task": "--tasks",
        "read_bytes_per_cycle": "--bandwidths",
        "group mapper": "--methods",
        "size": "--size",
    }
    with fields_named(named):
        result = truth.run(options, lambda row: say(truth.line(row)), keeper(json))
    for name, value in result.summary.items():
        say(f"{name}: {value}")
    finish(result, json)


@bench_app.command("multicore-networks", rich_help_panel=SEARCH)
def multicore_networks(
    quick: QuickOption = False,
    system: Annotated[
        str,
        typer.Option(metavar="SYSTEM", help="Two cores; default: big-little, quick: dual-tiny."),
    ] = "",
    one: Annotated[
        str,
        typer.Option(
            metavar="HW", help="One core of the same area; default: pynq-16x32, quick: edge-8x8."
        ),
    ] = "",
    stream: Annotated[
        str,
        typer.Option(
            metavar="NETWORK",
            help="Of examples/networks, on the first core; default: resnet18, quick: keyword.",
        ),
    ] = "",
    small: Annotated[
        str,
        typer.Option(
            metavar="NETWORK,...",
            help="For the second core; default: keyword,transformer, quick: digits.",
        ),
    ] = "",
    frames: Annotated[int, typer.Option(metavar="N", min=1, help="Frames of the stream.")] = 2,
    device: Annotated[
        SystemDeviceName, typer.Option(help="rtl (bit-exact), or the same cycles without data.")
    ] = SystemDeviceName.RTL,
    board: Annotated[
        str, typer.Option(metavar="BOARD", help="Board or YAML file: clock and memory.")
    ] = "pynq-z2",
    search: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="Measurements on the twin per layer; default: 16, quick: 0."
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """A stream of images and a small network on two cores, against turns on one core.

    The file of --json is written after each small network.
    """
    from dataclasses import replace

    from tilewright.bench.multicore import networks as bench

    chosen = bench.QUICK if quick else bench.Options()
    options = replace(
        chosen,
        system=system or chosen.system,
        one=one or chosen.one,
        stream=stream or chosen.stream,
        small=names(small, "--small") or chosen.small,
        frames=frames,
        device=device.value,
        board=board,
        search=chosen.search if search is None else search,
    )
    named = {"system": "--system", "hw": "--one", "network": "--stream, --small"}
    with fields_named({**named, "board": "--board"}):
        result = bench.run(options, lambda row: say(bench.line(row)), keeper(json))
    for name, value in result.summary.items():
        say(f"{name}: {value}")
    finish(result, json)


@bench_app.command("multicore-pipeline", rich_help_panel=SEARCH)
def multicore_pipeline(
    quick: QuickOption = False,
    network: Annotated[
        str,
        typer.Option(
            metavar="NETWORK", help="Of examples/networks; default: resnet18, quick: digits."
        ),
    ] = "",
    device: Annotated[
        SystemDeviceName, typer.Option(help="rtl (bit-exact), or the same cycles without data.")
    ] = SystemDeviceName.RTL,
    search: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=0, help="Measurements on the twin per layer; default: 16, quick: 0."
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """One network in stages on several cores, against one core of about the same area.

    The file of --json is written after each system.
    """
    from tilewright.bench.multicore import pipelines as bench

    with fields_named({"network": "--network"}):
        result = bench.run(
            network or ("digits" if quick else "resnet18"),
            bench.QUICK if quick else bench.PAIRS,
            device=device.value,
            search=(0 if quick else 16) if search is None else search,
            tell=lambda row: say(bench.line(row)),
            keep=keeper(json),
        )
    for name, value in result.summary.items():
        say(f"{name}: {value}")
    finish(result, json)
