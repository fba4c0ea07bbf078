# SPDX-License-Identifier: Apache-2.0
"""`tilewright tune`: configurations and schedules of a network."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.application import TUNE, app, open_console
from tilewright.cli.arguments import (
    DEFAULT_RUNS,
    MODEL_FIELDS,
    BoardOption,
    LayersOption,
    MemoryOption,
    RtlOption,
    RunsOption,
    SeedOption,
    SpaceName,
    SpaceOption,
    StoreOption,
    TrustModelOption,
    require_distinct,
    require_places,
    split_layers,
)
from tilewright.cli.json_output import JsonOption, JsonTarget, json_path
from tilewright.cli.report import open_to_read, report_places, show_report, store_places
from tilewright.host.common.errors import fields_named
from tilewright.host.machine.fidelity import Fidelity
from tilewright.tuner.store.location import store_location

if TYPE_CHECKING:
    from tilewright.tuner.study.settings import StudySettings


class ModeName(StrEnum):
    """What `tune` searches."""

    SHARED = "shared"
    PER_LAYER = "per-layer"


class ScreenName(StrEnum):
    """What `tune` searches on before `--fidelity` confirms."""

    TWIN = Fidelity.TWIN
    NONE = "none"


class FidelityName(StrEnum):
    """What `tune` measures on (`measure.backends.BACKENDS`); all but boards count alike."""

    BOARD = Fidelity.BOARD
    RTL = Fidelity.RTL
    DPI = Fidelity.DPI
    TIMING = Fidelity.TIMING
    TWIN = Fidelity.TWIN


@app.command(rich_help_panel=TUNE)
def tune(
    model: Annotated[
        str,
        typer.Argument(
            metavar="MODEL", help="Built-in network; ONNX, compiled (.tw) or layer (.yaml) file."
        ),
    ],
    board: BoardOption = "pynq-z2",
    mode: Annotated[
        ModeName,
        typer.Option(help="One configuration for the network, or one for each layer."),
    ] = ModeName.SHARED,
    tuner: Annotated[
        str,
        typer.Option(
            metavar="NAME|MODULE:CLASS",
            help="Search algorithm: one of `tilewright tuners`, or a class of your own.",
        ),
    ] = "tilewright",
    allocator: Annotated[
        str,
        typer.Option(
            metavar="NAME|MODULE:CLASS",
            help="What decides which layer is measured next: one of `tilewright allocators`, or a "
            "class of your own.",
        ),
    ] = "headroom",
    objective: Annotated[
        str,
        typer.Option(
            metavar="NAME|MODULE:CLASS",
            help="What to minimise: latency (cycles), edp (cycles x estimated energy), area "
            "(cycles x mean share of the board's resources), or a class of your own.",
        ),
    ] = "latency",
    energy: Annotated[
        str,
        typer.Option(
            metavar="NAME|MODULE:CLASS",
            help="Energy model of edp and the report: counters, or a class of your own.",
        ),
    ] = "counters",
    space: SpaceOption = SpaceName.FULL,
    budget: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help="Measurements to spend on the network; the default suits ResNet-18.",
        ),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            help="Seconds after which the search starts no new trial. Its results are confirmed, "
            "and the same command goes on from there.",
        ),
    ] = None,
    warm_start: Annotated[
        str,
        typer.Option(
            metavar="STORE[:STUDY]",
            help="Begin with the best schedules of an earlier study, or of a whole store, for "
            "layers of the same shape.",
        ),
    ] = "",
    configs: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Most hardware configurations to measure."),
    ] = None,
    hw: Annotated[
        str | None,
        typer.Option(
            "--hw", metavar="HW", help="Fix the hardware: named configuration or YAML file."
        ),
    ] = None,
    base: Annotated[
        str, typer.Option(metavar="HW", help="Configuration to start from when --hw is not given.")
    ] = "pynq-16x16",
    memory: MemoryOption = "board",
    layers: LayersOption = "",
    fidelity: Annotated[
        FidelityName,
        typer.Option(
            help="What measures or confirms: board (the FPGAs of --boards), rtl (the RTL, output "
            "checked), dpi (data in C++), timing (no data), or twin (cycle-exact)."
        ),
    ] = FidelityName.RTL,
    screen: Annotated[
        ScreenName | None,
        typer.Option(
            help="twin: search on the cycle-exact twin and confirm the best on --fidelity; none: "
            "measure everything on --fidelity. Default: twin, and none on boards."
        ),
    ] = None,
    without: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PART",
            help="Switch off a part of the tuner; may be repeated. The default tuner has prior, "
            "calibration, pooling and descent.",
        ),
    ] = None,
    compiled: Annotated[
        bool,
        typer.Option(
            "--compiled",
            help="Compile an ONNX or .pt2 model first and tune its fused layers (needs the extra "
            "'network').",
        ),
    ] = False,
    trust_model: TrustModelOption = False,
    seed: SeedOption = 0,
    workers: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Worker processes; default: one per core."),
    ] = None,
    ray: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Measure on a Ray cluster: 'auto', host:port, or 'local' to start one here.",
        ),
    ] = "",
    boards: Annotated[
        Path | None,
        typer.Option(
            metavar="POOL", help="Boards of --fidelity board: a file that lists their agents."
        ),
    ] = None,
    bitstreams: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Choose among the configurations of these bitstreams; the agents of --boards "
            "serve the same folder.",
        ),
    ] = None,
    rtl: RtlOption = None,
    runs: RunsOption = DEFAULT_RUNS,
    store: StoreOption = "",
    name: Annotated[
        str,
        typer.Option(metavar="STUDY", help="Study name; default: a name made from the settings."),
    ] = "",
    json: JsonOption = None,
) -> None:
    """Choose a configuration and the schedules of a network; an interrupted study resumes."""
    from tilewright.tuner.study.prepare import prepare_settings

    named = {name: f"--{name}" for name in ("configs", "bitstreams", "hw", "base", "without")}
    with fields_named({**MODEL_FIELDS, **named}):
        settings = prepare_settings(
            model,
            board=board,
            memory=memory,
            layers=split_layers(layers),
            compiled=compiled,
            trust_model=trust_model,
            hw=hw,
            base=base,
            configs=configs,
            mode=mode.value,
            tuner=tuner,
            allocator=allocator,
            objective=objective,
            energy=energy,
            space=space.value,
            budget=budget,
            seed=seed,
            screen=None if screen is None else screen is ScreenName.TWIN,
            fidelity=fidelity.value,
            bitstreams=bitstreams,
            without=without or (),
        )
    del rtl  # its callback has put it in place of ours; the settings name it by its content
    require_distinct({"MODEL": Path(model), "--boards": boards}, {"--json": json_path(json)})
    with fields_named({"boards": "--boards", "workers": "--workers", "warm-start": "--warm-start"}):
        run_tune(
            settings,
            name,
            runs,
            store_location(store, runs),
            warm_start=warm_start,
            seconds=seconds,
            fidelity=fidelity.value,
            ray=ray,
            boards=boards,
            workers=workers,
            json=json,
        )


def run_tune(
    settings: StudySettings,
    name: str,
    runs: Path,
    location: Path | str,
    *,
    warm_start: str,
    seconds: float | None,
    fidelity: str,
    ray: str,
    boards: Path | None,
    workers: int | None,
    json: JsonTarget | None = None,
) -> None:
    """Conduct a study with a progress display, and report it."""
    from tilewright.tuner.report.progress import ProgressDisplay
    from tilewright.tuner.report.tuned_share import share_lines
    from tilewright.tuner.study.conduct import conduct, incomplete, study_name

    console = open_console()

    with fields_named({"name": "--name"}):
        name = study_name(settings, name, fidelity=fidelity, warm_start=warm_start)
    # The folder of the store is made, and tried, by the store, once nothing else is missing.
    beside = location == store_location("", runs)
    check = require_distinct if beside else require_places
    check(store_places(location), report_places(name, None, runs, json))
    for line in filter(None, share_lines(settings.to_mapping())):
        console.say(line)
    screened = settings.screen == "twin"
    how = f"search on twin, confirmed on {fidelity}" if screened else f"every trial on {fidelity}"
    console.say(f"tuner {settings.tuner}, allocator {settings.allocator}, {how}")
    try:
        with ProgressDisplay(settings, console) as display:
            found = conduct(
                settings,
                name,
                location,
                fidelity=fidelity,
                listener=display,
                workers=workers,
                cluster=ray,
                boards=boards,
                seconds=seconds,
                warm_start=warm_start,
                waiting=console.say,
            )
    except KeyboardInterrupt:
        console.say(
            f"stopped; every finished trial is stored. The same command resumes study {name}."
        )
        raise
    with open_to_read(location) as store:
        if not show_report(store, found, None, runs, json=json):
            raise incomplete(found)
