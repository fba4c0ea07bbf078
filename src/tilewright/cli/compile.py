# SPDX-License-Identifier: Apache-2.0
"""`tilewright compile`: a model becomes one file for one configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tilewright.cli.common.application import COMMON, Command, app, open_console
from tilewright.cli.common.arguments import (
    FOR_FLOAT_MODELS,
    data_fields,
    read_board,
    refuse_foreign_files,
    refuse_given,
    replacing,
    require_places,
    require_readable,
)
from tilewright.cli.common.json_output import JsonOption, json_path
from tilewright.cli.common.options import from_fields
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import progress
from tilewright.cli.partition_tables import (
    latency_members,
    operator_rows,
    print_agreement,
    print_explanation,
    print_layers,
    print_operators,
    require_named,
    table_conditions,
    warn_of_layers,
)
from tilewright.host.common.errors import TilewrightError, fields_named
from tilewright.host.common.names import counted
from tilewright.host.common.printable import printable
from tilewright.interface.options import CompileOptions
from tilewright.tuner.store.location import store_location

if TYPE_CHECKING:
    from tilewright.host.compiler.pack.artefact import CompiledNetwork
    from tilewright.host.compiler.pipeline import Accept, Compilation, ImportedNetwork
    from tilewright.host.compiler.quantise.agreement import Agreement
    from tilewright.host.compiler.quantise.prepare_process import Reading
    from tilewright.host.compiler.read.calibration import Calibration
    from tilewright.host.compiler.read.import_options import ImportOptions
    from tilewright.host.machine.board import Board, MemoryModel
    from tilewright.host.machine.hwconfig import HwConfig
    from tilewright.interface.configurations import Configurations
    from tilewright.sim.twin.network_timing import NetworkTiming
    from tilewright.tuner.study.schedule_lookup import ScheduleLookup


AUTO: Final = "auto"
_PATIENCE_SECONDS: Final = 20.0
"""That an import may have taken, if it is done once more to look at other configurations."""

_OF_CALIBRATION: Final = ("calibration", "random_calibration", "mean", "std", "fit")
_OF_QUANTISATION: Final = (
    "asymmetric", "calibration_method", "percentile", "equalisation", "bias_correction",
    "int4_weights", "improve", "float_layers",
)  # fmt: skip


@app.command("compile", cls=Command, rich_help_panel=COMMON)
@from_fields(CompileOptions)
def compile_command(
    context: typer.Context,
    settings: CompileOptions,
    random_calibration: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Calibrate with N random inputs (timing, not accuracy)."
        ),
    ] = 0,
    explain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="OP",
            help="Say why an operator runs where it does, and what that costs: its name or kind, "
            "or all.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", help="Write where it runs, with a picture, to this HTML file."
        ),
    ] = None,
    annotated: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write the quantised model with where each operator runs, for Netron.",
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Compile a model into one file: programs for the accelerator, and what the CPU runs."""
    from tilewright.host.machine.system_config import load_core

    model = Path(settings.model)
    calibration, checked = (
        None if each is None else Path(str(each)) for each in (settings.calibration, settings.check)
    )
    data_files = {"--calibration": calibration, "--check": checked}
    _require_model(model, data_files, trust=settings.trust_model)
    path = Path(settings.output or model.with_suffix(".tw"))
    target = read_board(str(settings.board))
    if str(settings.hw) != AUTO:
        load_core(str(settings.hw))  # before anything long
    require_places(
        {"MODEL": model, **data_files},
        {"--output": path, "--html": html, "--annotated": annotated, "--json": json_path(json)},
    )
    refuse_foreign_files(html, annotated)

    started = time.perf_counter()
    source = "--calibration" if calibration else "--random-calibration"
    with ExitStack() as stack:
        steps = stack.enter_context(progress(f"reading {model.name}", quiet=json is not None))
        named = {"check": "--check", "float_layers": "--float-layer", **data_fields(source)}
        stack.enter_context(fields_named(named))
        data = _calibration(context, calibration, random_calibration, settings)
        check = _checked(checked, settings)
        accept = _acceptance(context, explain or ())
        read, config, options = _begun(stack, settings, target, data, check, accept, steps.say)
        # What follows loads while another process reads the model.
        from tilewright.host.compiler.pipeline import compile_model
        from tilewright.sim.twin.network_timing import time_network

        book = stack.enter_context(_schedules(config, target.memory, settings))
        compilation = compile_model(
            read,
            config,
            target,
            calibration=data,
            options=options,
            schedule_of=book,
            keep_rounding=settings.keep_rounding,
            offload_all=settings.offload_all,
            accept=accept,
            progress=steps.say,
        )
        steps.say("counting cycles on the twin")
        network = compilation.network
        try:
            timing = time_network(network, target.memory)
        except TilewrightError:
            _save(network, path)
            raise
    agreements = _agreements(compilation, check, quiet=json is not None)
    rows = print_layers(network, timing, target.memory, target, book)
    told = time.perf_counter()
    with progress(f"saving {path.name}", quiet=json is not None):
        _save(network, path)
    finished = time.perf_counter()
    _tell_network(compilation, target, timing, explain or (), settings)
    print_agreement(compilation.imported.accuracy.trials, agreements)
    _tell_seconds(compilation, told - started, finished - started)
    open_console().say(f"saved {path} ({path.stat().st_size:,} bytes)")
    _save_views(html, annotated, compilation, target, timing)
    better = None
    if str(settings.hw) != AUTO:
        better = _better(settings, compilation, target, data, timing, quiet=json is not None)
    if json is not None:
        summary = _summary(compilation, agreements, target, timing)
        json.write(
            rows,
            table_conditions(network, target.memory, target),
            summary={"file": str(path), "better_hw": better, **summary},
            operators=operator_rows(network, target),
        )


def _summary(
    compilation: Compilation, agreements: list[Agreement], target: Board, timing: NetworkTiming
) -> dict[str, Any]:
    imported = compilation.imported
    return {
        "seconds": {**imported.seconds, "compile": compilation.seconds},
        "agreement": [each.to_mapping() for each in agreements],
        "trials": list(imported.accuracy.trials),
        **latency_members(compilation.network, target, timing.cycles),
    }


def _begun(
    stack: ExitStack,
    settings: CompileOptions,
    target: Board,
    data: Calibration | None,
    check: Calibration | None,
    accept: Accept,
    say: Callable[[str], None],
) -> tuple[Reading | ImportedNetwork, HwConfig, ImportOptions]:
    """The model, in reading or imported, the configuration, and how it wants the model."""
    from tilewright.host.compiler.quantise.hardware_options import for_hardware
    from tilewright.host.compiler.quantise.prepare_process import reading
    from tilewright.host.compiler.read.requirements import require_usable
    from tilewright.host.machine.system_config import load_core

    model = Path(settings.model)
    require_usable(model, data)
    if str(settings.hw) == AUTO:
        choice = _choices(settings, target, data, check, accept, say).fastest()
        return choice.imported, choice.hw, choice.options
    config = load_core(str(settings.hw))
    options = for_hardware(settings.import_options(), config)
    return stack.enter_context(reading(model, data, options, check)), config, options


def _choices(
    settings: CompileOptions,
    target: Board,
    data: Calibration | None,
    check: Calibration | None,
    accept: Accept,
    say: Callable[[str], None],
) -> Configurations:
    """The configurations that fit the board, for this model."""
    from tilewright.host.compiler.pipeline import import_network
    from tilewright.host.compiler.quantise.prepare_process import reading
    from tilewright.interface.configurations import Configurations

    def imported(options: ImportOptions) -> ImportedNetwork:
        with reading(Path(settings.model), data, options, check) as begun:
            found = import_network(begun)
        accept(found)
        return found

    return Configurations(imported, settings, target, say)


def _better(
    settings: CompileOptions,
    compilation: Compilation,
    target: Board,
    data: Calibration | None,
    timing: NetworkTiming,
    *,
    quiet: bool,
) -> str | None:
    """Say in a line which named configuration is faster; its name, or None."""
    from tilewright.host.compiler.pack.latency import latency
    from tilewright.host.machine.hwconfig import named_configs

    network = compilation.network
    if network.hw.name not in named_configs():
        return None
    spent = latency(network, target, timing.cycles).total
    imported = compilation.imported
    with progress(f"other configurations for {target.name}", quiet=quiet) as steps:
        choices = _choices(settings, target, data, None, lambda _: None, steps.say)
        choices.know(imported, network.hw)
        anew = imported.seconds["total"] < _PATIENCE_SECONDS
        try:
            found = choices.better(network.hw, spent, anew=anew)
        except TilewrightError:  # of a board that holds none: the network was compiled for it
            return None
    if found is None:
        return None
    now = f"{1e3 * spent:.3g} ms, {counted(len(network.regions), 'region')}"
    open_console().say(
        f"faster on {target.name}: --hw {found.hw.name} ({found.describe()}, untuned schedules) "
        f"instead of {network.hw.name} ({now}); --hw auto takes the fastest"
    )
    return found.hw.name


def _require_model(model: Path, data: Mapping[str, Path | None], *, trust: bool) -> None:
    """Refuse what no model is made from, and data that cannot be read."""
    from tilewright.host.compiler.read.float_model import is_torch_file

    if model.suffix.lower() == ".tw":
        raise UsageError(
            "is compiled already",
            field="MODEL",
            value=str(model),
            remedy="give the ONNX, .tflite or .pt2 file that it was made from, "
            "or 'tilewright run' it",
        )
    require_readable(model, "MODEL")
    if model.is_dir():
        raise UsageError(
            "must be a file, no folder", field="MODEL", value=str(model), remedy="name a model"
        )
    if trust and not is_torch_file(model):
        raise UsageError(
            "is for .pt2 files", field="--trust-model", value=str(model), remedy="leave it out"
        )
    for name, path in data.items():
        if path is not None:
            require_readable(path, name)


def _acceptance(context: typer.Context, explain: Sequence[str]) -> Accept:
    """What refuses options that have no use for an imported network, before it is compiled."""

    def accept(imported: ImportedNetwork) -> None:
        if imported.was_quantised:
            refuse_given(context, (*_OF_CALIBRATION, *_OF_QUANTISATION), FOR_FLOAT_MODELS)
        require_named(imported, explain)

    return accept


def _calibration(
    context: typer.Context, path: Path | None, random_samples: int, settings: CompileOptions
) -> Calibration | None:
    """The calibration data that were asked for."""
    from tilewright.host.compiler.read.calibration import Calibration

    if path is not None and random_samples:
        raise UsageError(
            "leaves no use for random inputs", field="--calibration", remedy="give one of them"
        )
    if path is None and not random_samples:
        refuse_given(
            context,
            ("mean", "std", "fit"),
            "scales the images of --calibration",
            remedy="add --calibration, or leave it out",
        )
        return None
    data = Calibration(
        path=path,
        random_samples=random_samples or None,
        mean=tuple(settings.mean),
        std=tuple(settings.std),
        fit=settings.fit,
    )
    data.require_images()
    return data


def _tell_network(
    compilation: Compilation,
    target: Board,
    timing: NetworkTiming,
    explain: Sequence[str],
    settings: CompileOptions,
) -> None:
    """Say where operators run, and warn of what was hardly wanted."""
    network = compilation.network
    if str(settings.hw) == AUTO:
        name = network.hw.name
        open_console().say(f"configuration: {name}, the fastest that fits {target.name}")
    if explain:
        print_explanation(network, target, timing, explain)
    else:
        print_operators(network, target)
    warn_of_layers(network)
    _tell_packed(network)


def _checked(path: Path | None, settings: CompileOptions) -> Calibration | None:
    """The data to check with."""
    from tilewright.host.compiler.read.calibration import Calibration

    if path is None:
        return None
    data = Calibration(path=path)
    if data.has_images:
        data = replace(data, mean=tuple(settings.mean), std=tuple(settings.std), fit=settings.fit)
    return data


def _agreements(
    compilation: Compilation, check: Calibration | None, *, quiet: bool
) -> list[Agreement]:
    """How near the network is to its model, on calibration data and on those to check with."""
    from tilewright.host.compiler.quantise.agreement import Agreement

    accuracy = compilation.imported.accuracy
    found = [Agreement.from_mapping(accuracy.agreement)] if accuracy.agreement else []
    if check is not None:
        from tilewright.interface.networks import agreement_on

        with progress("running the inputs of --check", quiet=quiet) as steps:
            found.append(
                agreement_on(compilation.network, check, accuracy.expected, progress=steps.say)
            )
    return found


def _tell_packed(network: CompiledNetwork) -> None:
    """Say how many layers have weights of 4 bits, where asked for, and which of those have not."""
    if network.conditions["int4_weights"] == "none":
        return
    bits = {
        name: layer.workload.weight_bits
        for program in network.programs
        for layer in program.layers
        if layer.workload.kind.weighs
        for name in layer.operators
    }
    packed, kept = list(bits.values()).count(4), network.conditions["int4_kept"]
    text = f"weights of 4 bits: {packed} of {counted(len(bits), 'layer')}"
    if kept:
        text += f"; not packed, so with 8 bits: {', '.join(map(printable, kept))}"
    open_console().say(text)


def _tell_seconds(compilation: Compilation, told: float, finished: float) -> None:
    """Say what the stages took, and after how many seconds cycles were told and all was saved."""
    console, imported = open_console(), compilation.imported
    stages = ", ".join(f"{name} {value:.1f} s" for name, value in imported.seconds.items())
    for name in imported.own_operators:
        console.say(f"operator of a plug-in: {name}")
    console.say(f"import: {stages}")
    console.say(
        f"compile: {compilation.seconds:.1f} s; cycles after {told:.1f} s, all {finished:.1f} s"
    )


@contextmanager
def _schedules(
    hw: HwConfig, memory: MemoryModel, settings: CompileOptions
) -> Iterator[ScheduleLookup]:
    """Schedules from a store, if one is named, and from a search."""
    from tilewright.tuner.study.schedule_lookup import ScheduleLookup

    with ExitStack() as stack:
        trials = None
        if settings.store:
            from tilewright.tuner.store.store import Store

            found = store_location(settings.store, Path())
            trials = stack.enter_context(Store(found, must_exist=True, read_only=True))
        yield stack.enter_context(ScheduleLookup(hw, memory, budget=settings.search, store=trials))


def _save(network: CompiledNetwork, path: Path) -> None:
    from tilewright.host.compiler.pack.artefact import save

    with replacing(path):
        save(network, path)


def _save_views(
    html: Path | None,
    annotated: Path | None,
    compilation: Compilation,
    target: Board,
    timing: NetworkTiming,
) -> None:
    """Write the page and the annotated model that were asked for."""
    network, model = compilation.network, compilation.imported.qdq
    if html is not None:
        from tilewright.tuner.report.drawing.page import write
        from tilewright.tuner.report.partition import partition_page

        with replacing(html):
            write(partition_page(network, model, target, timing), html, "--html")
        open_console().say(f"saved {html}")
    if annotated is not None:
        from tilewright.host.compiler.pack.annotated import save_annotated

        with replacing(annotated):
            save_annotated(model, network, target, annotated)
        open_console().say(f"saved {annotated}")
