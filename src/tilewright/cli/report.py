# SPDX-License-Identifier: Apache-2.0
"""`tilewright report`: what a study found, from the store alone."""

from __future__ import annotations

import contextlib
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tilewright.cli.common import application, arguments
from tilewright.cli.common.json_output import JsonOption, JsonTarget, json_path
from tilewright.cli.common.options import from_fields
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import progress
from tilewright.host.common.names import counted
from tilewright.tuner.exhaustive.options import LandscapeOptions
from tilewright.tuner.store.location import store_location

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from tilewright.tuner.store.store import Store as StoreType


class FigureName(StrEnum):
    """Figures of `tuner.report.plots`."""

    CONVERGENCE = "convergence"
    REGRET = "regret"
    PARETO = "pareto"


CONFIG_SUFFIX = ".yaml"
"""Of the chosen configuration, which has the report's name otherwise."""


@application.app.command(rich_help_panel=application.COMMON)
def report(
    run: Annotated[
        str, typer.Argument(metavar="STUDY", help="Name; default: the latest of the folder.")
    ] = "",
    runs: arguments.RunsOption = arguments.DEFAULT_RUNS,
    store: arguments.StoreOption = "",
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="HTML file; default: STUDY.html in --runs. Configuration and schedules are "
            "written beside it as YAML.",
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Print the summary of a study and write its HTML report."""
    if output is not None and output.suffix == CONFIG_SUFFIX:
        raise UsageError(
            f"the report must not end in {CONFIG_SUFFIX}: the configuration is written beside it",
            field="--output",
            value=output,
            remedy="use .html",
        )
    location = store_location(store, runs)
    with open_to_read(location) as opened:
        name = opened.study(run or _latest(opened)).name
        places = report_places(name, output, runs, json)
        arguments.require_places(store_places(location), places)
        show_report(opened, name, output, runs, json=json)


def _latest(store: StoreType) -> str:
    """The name of the newest study."""
    studies = store.studies()
    if not studies:
        raise UsageError(
            "the trial store holds no study", field=store.name, remedy="run `tilewright tune` first"
        )
    return studies[-1].name


def report_places(
    name: str, output: Path | None, runs: Path, json: JsonTarget | None
) -> dict[str, Path | None]:
    """The files of a study's report by what they are called in errors."""
    from tilewright.tuner.report.result_json import report_path

    path = output or report_path(name, runs)
    page = "--output" if output else "the report in --runs"
    beside = "the configuration beside the report"
    return {page: path, beside: path.with_suffix(CONFIG_SUFFIX), "--json": json_path(json)}


def store_places(location: Path | str) -> dict[str, Path | None]:
    """The file of a store by what it is called in errors; none: it is a URL."""
    return {"the trial store": location} if isinstance(location, Path) else {}


@contextlib.contextmanager
def open_to_read(location: Path | str) -> Iterator[StoreType]:
    """A store that is left as it is; values that no command writes are a `StoreError`."""
    from tilewright.tuner.store.database import hidden
    from tilewright.tuner.store.store import Store, values_from

    def waiting(text: str) -> None:
        application.say(text, err=True)

    with (
        values_from(hidden(location)),
        Store(location, must_exist=True, read_only=True, waiting=waiting) as store,
    ):
        yield store


def show_report(
    store: StoreType, name: str, output: Path | None, runs: Path, *, json: JsonTarget | None = None
) -> bool:
    """Print a study's summary, write its report, and fail on wrong results."""
    from tilewright.tuner.report.page import write_html
    from tilewright.tuner.report.pareto import dominated_share, pareto, pareto_lines
    from tilewright.tuner.report.result_json import (
        conditions_of,
        report_path,
        summary_of,
        task_rows,
    )
    from tilewright.tuner.report.summary import print_summary
    from tilewright.tuner.study.best_network import chosen_by_objective
    from tilewright.tuner.study.repeat import tuned_mapping
    from tilewright.tuner.study.results import load_result

    console = application.open_console()
    result = chosen_by_objective(load_result(store, name))
    archive = pareto(result.search)
    print_summary(result, console)
    share = dominated_share(result.search, archive)
    for line in pareto_lines(archive, share):
        console.say(line)
    path = output or report_path(name, runs)
    with arguments.replacing(output):
        write_html(result, archive, path)
    console.say(f"report: {path}")
    if result.chosen is not None:
        saved = path.with_suffix(CONFIG_SUFFIX)
        with arguments.replacing(output and saved):
            _write_config(result.chosen.hw, tuned_mapping(result), saved)
        console.say(f"configuration and schedules: {saved} (tune --from {saved} measures them)")
    if json is not None:
        json.write(
            task_rows(result),
            conditions_of(result),
            summary={**summary_of(result), "hypervolume": share},
            pareto=[point.to_mapping() for point in archive],
        )
        if json.path is not None:
            console.say(f"result: {json.path}")
    application.require_passed(not result.mismatches)
    return result.best_network is not None


def _write_config(hw: Mapping[str, Any], found: Mapping[str, Any], path: Path) -> None:
    """Write a stored configuration as a file that ``--hw`` takes, and what was found on it."""
    import yaml

    from tilewright.host.common.whole_file import MARK, write_whole
    from tilewright.host.machine.hwconfig import TUNED, HwConfig

    tuned = yaml.safe_dump({TUNED: found}, sort_keys=False, default_flow_style=None, width=96)
    try:
        write_whole(path, f"# {MARK} (report)\n{HwConfig(**hw).to_yaml()}{tuned}")
    except OSError as error:
        raise UsageError(
            f"the configuration cannot be written ({error.strerror})",
            field=str(path),
            remedy="name a report in a writable folder with --output",
        ) from error


SUFFIX: Final = ".csv.gz"


@application.app.command("export-table", rich_help_panel=application.MEASURE)
@from_fields(LandscapeOptions)
def export_table(
    context: typer.Context,
    layer: Annotated[
        str, typer.Argument(metavar="LAYER", help="Layer of the network, such as C10.")
    ],
    settings: LandscapeOptions,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"File ({SUFFIX}); default: LAYER-SPACE{SUFFIX}."),
    ] = None,
) -> None:
    """Write the cycles of every legal schedule of a layer to a file that others can read.

    What 'exhaust' has measured is not measured again. The file is compressed CSV with a header
    in JSON.
    """
    from tilewright.host.machine.fidelity import Fidelity
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.tuner.exhaustive.exhaust import exhaust
    from tilewright.tuner.exhaustive.table import header_of, write_table
    from tilewright.tuner.measure.backends import identity_of
    from tilewright.tuner.schedule.rules import host_rules
    from tilewright.tuner.schedule.spaces import ScheduleSpace

    path = output or Path(f"{layer}-{settings.space}{SUFFIX}")
    if not path.name.endswith(SUFFIX):
        raise UsageError(
            f"must end in {SUFFIX}", field="--output", value=path, remedy="name another file"
        )
    config = load_hwconfig(settings.hw)
    workload = arguments.read_network(settings.network, config, settings.board)[layer]
    arguments.require_places({}, {"--output": path})
    timing = arguments.simulated_memory(context, settings.memory, settings.board)
    rules, console = host_rules(), application.open_console()
    identities = {kind.value: identity_of(kind.value) for kind in (Fidelity.RTL, Fidelity.TWIN)}
    with progress(workload.name, total=1) as steps:
        landscape = exhaust(
            ScheduleSpace(workload, config, rules, settings.space),
            timing,
            settings.folder,
            identity=identities[Fidelity.TWIN.value],
            workers=settings.workers,
            on_progress=partial(steps.at, workload.name),
        )
    header = header_of(
        landscape,
        identities=identities,
        bound=rules.bound(config, workload, timing).cycles,
    )
    with arguments.replacing(path):
        write_table(landscape, path, header)
    console.say(
        f"{path}: {header['legal']:,} legal of {header['points']:,} schedules, memory "
        f"{timing.name}, optimum {header.get('optimum_cycles', 0):,} cycles, "
        f"{path.stat().st_size:,} bytes"
    )


@application.app.command("export", rich_help_panel=application.TUNE)
def export(
    studies: Annotated[
        list[str],
        typer.Argument(metavar="STUDY...", help="Names of studies; --optuna takes one."),
    ],
    csv: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write every trial as a row of a CSV file.")
    ] = None,
    plot: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Draw a figure (.svg, .png, .pdf). Studies of one tuner are one curve, their "
            "median.",
        ),
    ] = None,
    figure: Annotated[FigureName, typer.Option(help="What --plot draws.")] = FigureName.CONVERGENCE,
    optuna: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="SQLite file to write, for optuna-dashboard; it must not exist."
        ),
    ] = None,
    runs: arguments.RunsOption = arguments.DEFAULT_RUNS,
    store: arguments.StoreOption = "",
) -> None:
    """Write the trials of studies as CSV, as a figure, or as studies of Optuna.

    Optuna gets a study for each layer. See them with `optuna-dashboard sqlite:///FILE`.
    """
    from tilewright.interface.figures import grouped
    from tilewright.tuner.report.optuna_study import export_to_optuna
    from tilewright.tuner.report.plots import save_plot
    from tilewright.tuner.report.trial_table import trial_rows, write_csv
    from tilewright.tuner.study.results import load_result

    if csv is None and plot is None and optuna is None:
        raise UsageError("must be given", field="--csv, --plot or --optuna", remedy="name a file")
    if optuna is not None and len(studies) > 1:
        raise UsageError(
            "takes one study",
            field="--optuna", value=len(studies), remedy="export one after the other",
        )  # fmt: skip
    console = application.open_console()
    location = store_location(store, runs)
    arguments.require_places(store_places(location), {"--csv": csv, "--plot": plot})
    with open_to_read(location) as opened:
        results = [load_result(opened, name) for name in studies]
        if csv is not None:
            with arguments.replacing(csv):
                count = write_csv((row for r in results for row in trial_rows(opened, r)), csv)
            console.say(f"{csv}: {counted(count, 'trial')}")
        if plot is not None:
            with arguments.replacing(plot):
                groups = grouped([(result, location) for result in results], "tuner")
                save_plot(figure, {n: [r for r, _ in g] for n, g in groups.items()}, plot)
            console.say(f"{plot}: {figure} of {counted(len(results), 'study', 'studies')}")
        if optuna is not None:
            row = opened.study(studies[0])
            names = export_to_optuna(row.name, opened.each_trial(row.id), optuna)
            console.say(
                f"{optuna}: {counted(len(names), 'study', 'studies')}, one for each layer; see "
                f"with `optuna-dashboard sqlite:///{optuna}`"
            )
