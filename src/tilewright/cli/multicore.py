# SPDX-License-Identifier: Apache-2.0
"""`tilewright multicore`: jobs of many networks mapped onto cores, or networks run on cores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from tilewright.cli.common import application, arguments
from tilewright.cli.common.json_output import JsonOption, JsonTarget
from tilewright.cli.common.options import from_fields
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import progress
from tilewright.cli.multicore_group import map_group
from tilewright.cli.multicore_networks import (
    SUFFIX,
    run_networks,
    shared,
    whole_numbers,
)
from tilewright.cli.multicore_options import MulticoreOptions
from tilewright.host.common.errors import fields_named
from tilewright.host.common.printable import printable

if TYPE_CHECKING:
    from tilewright.host.compiler.pipeline import ImportedNetwork
    from tilewright.host.machine.system_config import SystemConfig


def run_pipeline(options: MulticoreOptions, json: JsonTarget | None) -> None:
    """Cut a model over the cores of a system and run it; the options are those of the command."""
    names, calibration = options.targets, options.calibration
    if len(names) != 1 or names[0].lower().endswith(SUFFIX):
        raise UsageError(
            "takes one model, .onnx, .tflite or .pt2: it is compiled for each core anew",
            field="--pipeline",
            value=" ".join(names),
            remedy="give the file that the network was compiled from",
        )
    path = Path(names[0])
    arguments.require_readable(path, "MODEL")
    if calibration is not None:
        arguments.require_readable(calibration, "--calibration")
    if not options.system:
        raise UsageError(
            "must be given for --pipeline",
            field="--system",
            remedy="name one, such as dual-8x8",
        )
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.host.machine.system_config import load_system
    from tilewright.sim.devices import WITH_DATA, open_system
    from tilewright.tuner.multicore.pipeline import measure_pipeline, pipeline_rows
    from tilewright.tuner.study.schedule_lookup import ScheduleLookup

    with fields_named({"hw": "--one"}):
        config = load_system(options.system)
        single = load_hwconfig(options.one) if options.one else None
    order = _order(options.cores, config) if options.cores else None
    (count,) = whole_numbers(options.frames, "--frames", 1, "pipeline", least=1)
    shares = shared(config, options.weights, options.budgets, options.window)
    target = arguments.read_board(options.board or "pynq-z2")
    timing = arguments.read_memory(options.memory, target)
    with progress(f"reading {path.name}", quiet=json is not None) as steps, ExitStack() as stack:
        imported = _imported(path, calibration, options.random_calibration)
        books: dict[int, ScheduleLookup] = {}

        def book(hw: Any) -> ScheduleLookup:
            if hw.config_hash not in books:
                lookup = ScheduleLookup(hw, timing, budget=options.search)
                books[hw.config_hash] = stack.enter_context(lookup)
            return books[hw.config_hash]

        steps.say(f"building {config.name}")
        opened = stack.enter_context(closing(open_system(options.device, config, timing)))
        found = measure_pipeline(
            imported,
            opened,
            shares,
            target,
            timing,
            book,
            frames=count,
            cores=order,
            one=single,
            seed=options.seed,
            check=options.device in WITH_DATA,
            tell=steps.say,
        )
    rows, summary = pipeline_rows(found, target)
    conditions = {
        "network": imported.name,
        "system": config.name,
        "hw": [core.hw.parameters() for core in config.cores],
        "one": single.name if single else None,
        "weights": [core.weight for core in shares.cores],
        "budgets": [[core.read_budget, core.write_budget] for core in shares.cores],
        "window": shares.window,
        "board": target.name,
        "memory": timing.name,
        "clock_mhz": target.clock_mhz,
        "fidelity": options.device,
        "frames": max(count, len(rows)),  # each stage works on a frame of its own
        "search": options.search,
        "seed": options.seed,
    }
    _print(rows, summary, conditions)
    if json is not None:
        json.write(rows, conditions, summary=summary)
    if summary["wrong_bytes"] or summary["wrong_elements"]:
        application.fail_wrong(
            f"{summary['wrong_bytes']} bytes of the programs' memories and "
            f"{summary['wrong_elements']} elements of the outputs differ from the reference"
        )
    if summary["stopped"]:
        raise KeyboardInterrupt


def _imported(path: Path, calibration: Path | None, random_calibration: int) -> ImportedNetwork:
    """The quantised model."""
    from tilewright.host.compiler.pipeline import import_network
    from tilewright.host.compiler.read.calibration import Calibration

    data = None
    if calibration is not None or random_calibration:
        data = Calibration(path=calibration, random_samples=random_calibration or None)
    imported = import_network(path, calibration=data)
    if data is not None and imported.was_quantised:
        raise UsageError(
            arguments.FOR_FLOAT_MODELS,
            field="--calibration" if calibration else "--random-calibration",
            remedy="leave it out",
        )
    return imported


def _order(text: str, config: SystemConfig) -> list[int]:
    """Cores of the stages, in the order of the stages."""
    found = whole_numbers(text, "--cores", text.count(",") + 1, "stage")
    if max(found) >= len(config.cores) or len(set(found)) < len(found):
        raise UsageError(
            f"must be different cores of {config.name}, 0 to {len(config.cores) - 1}",
            field="--cores",
            value=text,
            remedy="name each core once, in the order of the stages",
        )
    return found


def _print(
    rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any], conditions: Mapping[str, Any]
) -> None:
    from rich.text import Text

    from tilewright.host.common.print_table import plain_table, print_table

    console = application.open_console()
    table = plain_table("stage", "core", "operators", "alone", "together", "first", "last")
    for row in rows:
        table.add_row(
            *(str(row[name]) for name in ("stage", "core", "operators")),
            f"{row['alone_cycles']:,}",
            f"{row['together_cycles']:,}",
            *(Text(printable(row[name], limit=24)) for name in ("first", "last")),
        )
    print_table(table, console)
    console.say(
        f"{summary['tick_cycles']:,} cycles per frame on {conditions['system']}, "
        f"{conditions['fidelity']}; {summary['moved_bytes']:,} bytes per frame through the CPU"
    )
    console.say(
        f"copies between ticks: {summary['frames_per_s']:.2f} frames/s, latency "
        f"{summary['latency_ms']:.2f} ms; copies beside the next tick: "
        f"{summary['overlapped_frames_per_s']:.2f} frames/s, "
        f"{summary['overlapped_latency_ms']:.2f} ms"
    )
    for name, one in summary["whole"].items():
        console.say(
            f"whole on {name} alone: {one['cycles']:,} cycles, {one['frames_per_s']:.2f} frames/s"
        )
    if not (summary["wrong_bytes"] is None or summary["wrong_bytes"] or summary["wrong_elements"]):
        console.say("every byte and every output: equal to the reference's")


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


@application.app.command("multicore", cls=application.Command, rich_help_panel=application.TUNE)
@from_fields(MulticoreOptions)
def multicore(context: typer.Context, settings: MulticoreOptions, json: JsonOption = None) -> None:
    """Map jobs of many networks onto cores that share a memory, or run networks on such cores.

    With a task or a table: which core runs which job, in which order; Ctrl-C ends the search, and
    the best mapping so far is told. With compiled networks and --system: all run at the same time,
    each alone before; Ctrl-C ends the runs, and what was measured is told. With a model,
    --pipeline and --system: each core runs some of its layers, and each works on another frame.
    """
    targets = settings.targets
    if settings.pipeline:
        arguments.refuse_given(
            context, (*_OF_GROUPS, *_OF_NETWORKS, "html", "trace"), "is not of --pipeline"
        )
        run_pipeline(settings, json)
        return
    arguments.refuse_given(context, _OF_PIPELINES, "needs --pipeline")
    if settings.system or any(target.lower().endswith(SUFFIX) for target in targets):
        arguments.refuse_given(context, _OF_GROUPS, "maps a task or a table, not compiled networks")
        run_networks(settings, json)
        return
    arguments.refuse_given(
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
        arguments.refuse_given(context, _OF_TASKS, "makes the jobs of a task; a table states them")
    if settings.method == "exact":
        arguments.refuse_given(context, ("budget",), "is for methods that sample, not exact")
    map_group(settings, json)
