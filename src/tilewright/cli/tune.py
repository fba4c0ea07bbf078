# SPDX-License-Identifier: Apache-2.0
"""`tilewright tune`: configurations and schedules of a network."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tilewright.cli.common.application import (
    COMMON,
    Command,
    app,
    open_console,
    require_passed,
)
from tilewright.cli.common.arguments import require_distinct, require_places
from tilewright.cli.common.json_output import JsonOption, JsonTarget, json_path
from tilewright.cli.common.options import from_fields
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.report import open_to_read, report_places, show_report, store_places
from tilewright.host.common.names import counted
from tilewright.host.common.options import flag_of, option_of
from tilewright.tuner.store.location import store_location
from tilewright.tuner.study.options import TuneOptions

if TYPE_CHECKING:
    from tilewright.tuner.store.store import Store as StoreType
    from tilewright.tuner.study.settings import StudySettings


@app.command(cls=Command, rich_help_panel=COMMON)
@from_fields(TuneOptions)
def tune(
    settings: TuneOptions,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Search nothing: measure configuration and schedules of a study's YAML file again "
            "on --fidelity, and say whether the cycles are equal.",
        ),
    ] = None,
    json: JsonOption = None,
) -> None:
    """Choose a configuration and the schedules of a network; an interrupted study resumes."""
    from tilewright.cli.common.progress import progress
    from tilewright.sim.verilator.rtl_variant import rtl_variant
    from tilewright.tuner.study.prepare import prepare_settings

    if source is not None:
        _repeat(source, settings, json)
        return
    with rtl_variant(settings.rtl):
        with progress(f"reading {settings.model}", quiet=json is not None):
            prepared = prepare_settings(settings)
        boards = None if settings.boards is None else Path(settings.boards)
        require_distinct(
            {"MODEL": Path(str(settings.model)), "--boards": boards}, {"--json": json_path(json)}
        )
        run_tune(prepared, settings, json)


def _repeat(source: Path, options: TuneOptions, json: JsonTarget | None) -> None:
    """Measure again what a study found."""
    from tilewright.tuner.study.conduct import open_oracle
    from tilewright.tuner.study.repeat import load_tuned, repeat, repeated_row

    _require_alone(options)
    tuned, console = load_tuned(source), open_console()
    oracle = open_oracle(options.fidelity, options.ray, options.workers, console.say)
    try:
        found = repeat(tuned, oracle)
    finally:
        oracle.close()
    rows = [repeated_row(each) for each in found]
    for row in rows:
        cycles = f"{row['cycles']:,} cycles" if row["cycles"] is not None else row["failure"]
        verdict = "equal" if row["equal"] else f"NOT EQUAL to {row['before_cycles']:,}"
        console.say(f"{row['name']}: {cycles}, {verdict}")
    equal = sum(row["equal"] for row in rows)
    console.say(
        f"{equal} of {counted(len(rows), 'layer')} equal: {tuned.study} on {tuned.hw.name}, memory "
        f"{tuned.memory.name}, counted on {tuned.fidelity} then and on {options.fidelity} now"
    )
    if json is not None:
        json.write(
            rows,
            {
                "study": tuned.study,
                "hw": tuned.hw.parameters(),
                "memory": tuned.memory.name,
                "fidelity": options.fidelity,
            },
            summary={"equal": equal == len(rows)},
        )
    require_passed(equal == len(rows))


def _require_alone(options: TuneOptions) -> None:
    """Refuse what a repetition would not look at."""
    used = {"fidelity", "workers", "ray"}
    for each in fields(TuneOptions):
        given = getattr(options, each.name)
        if each.name not in used and str(given) != str(each.default):
            raise UsageError(
                "the file says what is measured",
                field=flag_of(each.name, option_of(each)),
                value=str(given),
                remedy="leave it out, or leave --from out",
            )


def run_tune(settings: StudySettings, options: TuneOptions, json: JsonTarget | None) -> None:
    """Conduct a study with a progress display, and report it."""
    from tilewright.tuner.report.progress import ProgressDisplay
    from tilewright.tuner.report.summary import share_lines
    from tilewright.tuner.study.conduct import conduct, incomplete, study_name

    console = open_console()
    name, runs = study_name(settings, options), Path(options.runs)
    location = store_location(options.store, runs)
    # The folder of the store is made, and tried, by the store, once nothing else is missing.
    beside = location == store_location("", runs)
    check = require_distinct if beside else require_places
    check({}, report_places(name, None, runs, json), store_places(location))
    for line in filter(None, share_lines(settings.to_mapping())):
        console.say(line)
    screened = settings.screen == "twin"
    how = (
        f"search on twin, confirmed on {options.fidelity}"
        if screened
        else f"every trial on {options.fidelity}"
    )
    console.say(f"tuner {settings.tuner}, allocator {settings.allocator}, {how}")
    try:
        with ProgressDisplay(settings, console) as display:
            found = conduct(settings, options, display, waiting=console.say)
    except KeyboardInterrupt:
        console.say(
            f"stopped; every finished trial is stored. The same command resumes study {name}."
        )
        raise
    with open_to_read(location) as store:
        if not show_report(store, found, None, runs, json=json):
            raise incomplete(found)
        _say_worst_memory(store, found, settings)


def _say_worst_memory(store: StoreType, name: str, settings: StudySettings) -> None:
    """Print what the best network takes on the twin when the board's DRAM is at its worst."""
    from tilewright.cli.partition_tables import say_pessimistic
    from tilewright.host.machine.board import pessimistic_memory
    from tilewright.host.machine.fidelity import Fidelity
    from tilewright.host.network.schedule import Schedule
    from tilewright.interface.simulate import simulate
    from tilewright.tuner.study.best_network import hw_of
    from tilewright.tuner.study.results import load_result

    worst = pessimistic_memory(settings.board)
    result = load_result(store, name)
    # The twin counts what these count, of Tilewright's own RTL.
    counted = result.settings["fidelity"] in (
        Fidelity.RTL,
        Fidelity.DPI,
        Fidelity.TIMING,
        Fidelity.TWIN,
    )
    usual = settings.memory == settings.board.memory and not settings.rtl
    if worst is None or not (counted and usual and result.best_network):
        return
    workloads = {task.name: task for task in settings.tasks}
    cycles = sum(
        task.count
        * simulate(
            workloads[task.name],
            Schedule.from_mapping(task.best.schedule),
            hw=hw_of(task.best),
            memory=worst,
            fidelity="twin",
        ).cycles
        for task in result.tasks
        if task.best is not None
    )
    say_pessimistic(result.best_network, cycles, worst)
