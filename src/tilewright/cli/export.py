# SPDX-License-Identifier: Apache-2.0
"""`tilewright export-table` and `tilewright export`: results in formats of other tools."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Final

import typer

from tilewright.cli.application import MEASURE, TUNE, app, open_console
from tilewright.cli.arguments import (
    DEFAULT_LANDSCAPES,
    DEFAULT_RUNS,
    HwOption,
    LandscapesOption,
    MemoryBoardOption,
    MemoryOption,
    NetworkOption,
    RunsOption,
    SpaceOption,
    StoreOption,
    ThreadsOption,
    read_network,
    replacing,
    require_places,
    simulated_memory,
)
from tilewright.cli.parse_errors import UsageError
from tilewright.cli.progress import progress
from tilewright.cli.report import open_to_read
from tilewright.host.common.names import counted
from tilewright.tuner.store.location import store_location
from tilewright.tuner.study.options import SpaceName

SUFFIX: Final = ".csv.gz"


@app.command("export-table", rich_help_panel=MEASURE)
def export_table(
    context: typer.Context,
    layer: Annotated[
        str, typer.Argument(metavar="LAYER", help="Layer of the network, such as C10.")
    ],
    network: NetworkOption = "vta-resnet18",
    hw: HwOption = "pynq-16x16",
    memory: MemoryOption = "board",
    board: MemoryBoardOption = "pynq-z2",
    space: SpaceOption = SpaceName.VTA,
    output: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help=f"File ({SUFFIX}); default: LAYER-SPACE{SUFFIX}."),
    ] = None,
    workers: ThreadsOption = 2,
    folder: LandscapesOption = DEFAULT_LANDSCAPES,
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

    path = output or Path(f"{layer}-{space.value}{SUFFIX}")
    if not path.name.endswith(SUFFIX):
        raise UsageError(
            f"must end in {SUFFIX}", field="--output", value=path, remedy="name another file"
        )
    config, workload = load_hwconfig(hw), read_network(network)[layer]
    require_places({}, {"--output": path})
    timing = simulated_memory(context, memory, board)
    rules, console = host_rules(), open_console()
    identities = {kind.value: identity_of(kind.value) for kind in (Fidelity.RTL, Fidelity.TWIN)}
    with progress(workload.name, total=1) as steps:
        landscape = exhaust(
            ScheduleSpace(workload, config, rules, space.value),
            timing,
            folder,
            identity=identities[Fidelity.TWIN.value],
            workers=workers,
            on_progress=partial(steps.at, workload.name),
        )
    header = header_of(
        landscape,
        identities=identities,
        bound=rules.bound(config, workload, timing).cycles,
    )
    with replacing(path):
        write_table(landscape, path, header)
    console.say(
        f"{path}: {header['legal']:,} legal of {header['points']:,} schedules, memory "
        f"{timing.name}, optimum {header.get('optimum_cycles', 0):,} cycles, "
        f"{path.stat().st_size:,} bytes"
    )


@app.command("export", rich_help_panel=TUNE)
def export(
    study: Annotated[str, typer.Argument(metavar="STUDY", help="Name of the study.")],
    optuna: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="SQLite file to write, for optuna-dashboard; it must not exist."
        ),
    ],
    runs: RunsOption = DEFAULT_RUNS,
    store: StoreOption = "",
) -> None:
    """Write the trials of a study as studies of Optuna, one for each layer.

    See them with `optuna-dashboard sqlite:///FILE`.
    """
    from tilewright.tuner.report.optuna_study import export_to_optuna

    console = open_console()
    with open_to_read(store_location(store, runs)) as opened:
        row = opened.study(study)
        names = export_to_optuna(study, opened.each_trial(row.id), optuna)
    console.say(
        f"{optuna}: {counted(len(names), 'study', 'studies')}, one for each layer; see with "
        f"`optuna-dashboard sqlite:///{optuna}`"
    )
