# SPDX-License-Identifier: Apache-2.0
"""`tilewright multicore`: jobs of many networks mapped onto cores, or networks run on cores."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from tilewright.cli.application import TUNE, app
from tilewright.cli.arguments import MemoryOption, SeedOption
from tilewright.cli.given import refuse_given
from tilewright.cli.json_output import JsonOption
from tilewright.cli.multicore_group import ModelName, PolicyName, map_group
from tilewright.cli.multicore_networks import SUFFIX, SystemDeviceName, run_networks
from tilewright.cli.multicore_pipeline import run_pipeline
from tilewright.cli.parse_errors import UsageError

_OF_GROUPS: Final = (
    "platform", "bandwidth", "method", "budget", "size", "mini_batch", "bw_model", "policy",
)  # fmt: skip
_OF_TASKS: Final = ("platform", "size", "mini_batch", "bw_model")
_TABLE_SUFFIX: Final = ".csv"
_OF_SYSTEMS: Final = (
    "system", "device", "frames", "cores", "weights", "budgets", "window", "board", "memory",
)  # fmt: skip
_OF_NETWORKS: Final = ("trust_model",)
_OF_PIPELINES: Final = ("one", "calibration", "random_calibration", "search")


@app.command("multicore", rich_help_panel=TUNE)
def multicore(
    context: typer.Context,
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="TASK|TABLE|NETWORK...",
            help="To map: vision, language, recommendation or mix, a random group of their "
            "layers; or a CSV file of latencies and bandwidths per job and core. To run on "
            "--system: files of 'tilewright compile'.",
        ),
    ],
    platform: Annotated[
        str,
        typer.Option(metavar="NAME|FILE", help="Cores of a task: S1 to S6, or a YAML file."),
    ] = "S2",
    bandwidth: Annotated[
        float | None,
        typer.Option(
            metavar="GB/S",
            help="Of the memory; for a table in bytes per cycle. Default: the platform's largest.",
        ),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            "--method",
            "--optimizer",
            metavar="NAME|MODULE:CLASS",
            help="exact: proven, for small groups; a group mapper; ORDER-PLACEMENT, as "
            "heft-greedy; a class of your own; or tuner-NAME with one of `tilewright tuners`.",
        ),
    ] = "tilewright",
    budget: Annotated[
        int, typer.Option(metavar="SAMPLES", min=1, help="Mappings that a search may try.")
    ] = 10_000,
    size: Annotated[int, typer.Option(metavar="N", min=1, help="Jobs of the group.")] = 100,
    mini_batch: Annotated[
        int, typer.Option(metavar="N", min=1, help="Images, sentences or requests per job.")
    ] = 4,
    bw_model: Annotated[
        ModelName,
        typer.Option(
            help="A job's bandwidth: its whole DRAM traffic over its latency, or the paper's, "
            "one copy of its tiles.",
        ),
    ] = ModelName.TRAFFIC,
    policy: Annotated[
        PolicyName, typer.Option(help="How running jobs share the bandwidth.")
    ] = PolicyName.PROPORTIONAL,
    system: Annotated[
        str, typer.Option(metavar="SYSTEM", help="System that networks run on, or a YAML file.")
    ] = "",
    device: Annotated[
        SystemDeviceName,
        typer.Option(
            help="rtl (the RTL in Verilator, bit-exact), or the same cycles without data: timing "
            "(its control alone), twin (a model, the fastest)."
        ),
    ] = SystemDeviceName.RTL,
    frames: Annotated[
        str,
        typer.Option(
            metavar="N[,N...]",
            help="Inferences of the slowest network; the others fill the same time. A list has "
            "one number per network.",
        ),
    ] = "4",
    cores: Annotated[
        str,
        typer.Option(
            metavar="CORE,...", help="Core of each network; default: 0, 1 ... in their order."
        ),
    ] = "",
    weights: Annotated[
        str, typer.Option(metavar="W,...", help="Weight of each core at its memory port, 1 to 15.")
    ] = "",
    budgets: Annotated[
        str,
        typer.Option(
            metavar="READ[/WRITE],...",
            help="Beats per window that each core may move in each direction; 0: no limit.",
        ),
    ] = "",
    window: Annotated[
        int | None,
        typer.Option(metavar="CYCLES", help="Window of the budgets; default: the system's."),
    ] = None,
    board: Annotated[
        str,
        typer.Option(
            metavar="BOARD",
            help="Clock and memory; default: the board that the networks were compiled for.",
        ),
    ] = "",
    memory: MemoryOption = "board",
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write an HTML report: jobs and bandwidth over time, or what networks cost each "
            "other.",
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write a Chrome trace (JSON, for ui.perfetto.dev): when each job, or frame, runs "
            "where; of jobs also the bandwidth.",
        ),
    ] = None,
    trust_model: Annotated[
        bool,
        typer.Option(
            "--trust-model",
            help="Run the networks' CPU parts in this process, without limits of memory and time.",
        ),
    ] = False,
    pipeline: Annotated[
        bool,
        typer.Option(
            "--pipeline", help="Cut one model (.onnx or .pt2) over the cores of --system."
        ),
    ] = False,
    one: Annotated[
        str,
        typer.Option(
            metavar="HW", help="Configuration of one core that --pipeline is compared with."
        ),
    ] = "",
    calibration: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="Inputs of a float model for --pipeline, as of 'compile'."
        ),
    ] = None,
    random_calibration: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Calibrate with N random inputs (timing, not accuracy)."
        ),
    ] = 0,
    search: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Measurements on the twin per layer, for --pipeline."
        ),
    ] = 16,
    seed: SeedOption = 0,
    json: JsonOption = None,
) -> None:
    """Map jobs of many networks onto cores that share a memory, or run networks on such cores.

    With a task or a table: which core runs which job, in which order; Ctrl-C ends the search, and
    the best mapping so far is told. With compiled networks and --system: all run at the same time,
    each alone before; Ctrl-C ends the runs, and what was measured is told. With a model,
    --pipeline and --system: each core runs some of its layers, and each works on another frame.
    """
    if pipeline:
        refuse_given(
            context, (*_OF_GROUPS, *_OF_NETWORKS, "report", "trace"), "is not of --pipeline"
        )
        run_pipeline(
            targets,
            system=system,
            one=one,
            calibration=calibration,
            random_calibration=random_calibration,
            device=device.value,
            frames=frames,
            cores=cores,
            weights=weights,
            budgets=budgets,
            window=window,
            board=board,
            memory=memory,
            search=search,
            seed=seed,
            json=json,
        )
        return
    refuse_given(context, _OF_PIPELINES, "needs --pipeline")
    if system or any(target.lower().endswith(SUFFIX) for target in targets):
        refuse_given(context, _OF_GROUPS, "maps a task or a table, not compiled networks")
        run_networks(
            targets,
            system=system,
            device=device.value,
            frames=frames,
            cores=cores,
            weights=weights,
            budgets=budgets,
            window=window,
            board=board,
            memory=memory,
            report=report,
            trace=trace,
            trusted=trust_model,
            seed=seed,
            json=json,
        )
        return
    refuse_given(
        context, (*_OF_SYSTEMS, *_OF_NETWORKS), "runs compiled networks, not a task or a table"
    )
    if len(targets) > 1:
        raise UsageError(
            "takes one task or table",
            field="TASK|TABLE",
            value=" ".join(targets),
            remedy="mix is a task of all networks; compiled networks end in .tw",
        )
    if targets[0].lower().endswith(_TABLE_SUFFIX):
        refuse_given(context, _OF_TASKS, "makes the jobs of a task; a table states them")
    if method == "exact":
        refuse_given(context, ("budget",), "is for methods that sample, not exact")
    map_group(
        targets[0],
        platform=platform,
        bandwidth=bandwidth,
        method=method,
        budget=budget,
        size=size,
        mini_batch=mini_batch,
        bw_model=bw_model,
        policy=policy,
        report=report,
        trace=trace,
        seed=seed,
        json=json,
    )
