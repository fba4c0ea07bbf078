# SPDX-License-Identifier: Apache-2.0
"""`tilewright tune`: configurations and schedules of a network."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

import os
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from tilewright.cli.application import UsageError, app, open_console
from tilewright.cli.arguments import (
    DEFAULT_RUNS,
    RunsOption,
    SpaceName,
    StoreOption,
    TrustModelOption,
    read_board,
    read_compiled_graph,
    read_layers,
    read_memory,
    read_network,
    store_location,
)
from tilewright.cli.report import show_report
from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.fidelity import Fidelity

if TYPE_CHECKING:
    from tilewright.sim.executor.protocol import Executor
    from tilewright.tuner.study.settings import StudySettings
    from tilewright.tuner.study.warm_start import WarmStart


class ModeName(StrEnum):
    """What `tune` searches."""

    SHARED = "shared"
    PER_LAYER = "per-layer"


class ObjectiveOption(StrEnum):
    """What `tune` minimises."""

    LATENCY = "latency"
    EDP = "edp"
    AREA = "area"


class ScreenName(StrEnum):
    """What `tune` searches on before `--fidelity` confirms."""

    TWIN = Fidelity.TWIN
    NONE = "none"


class FidelityName(StrEnum):
    """What `tune` measures on (`measure.backends.BACKENDS`); all count the same cycles."""

    RTL = Fidelity.RTL
    DPI = Fidelity.DPI
    TIMING = Fidelity.TIMING
    TWIN = Fidelity.TWIN


LONGEST_NAME: Final = 200
"""Bytes of a study's name, which its report has as file name."""


class IncompleteStudyError(TilewrightError):
    """A study ended before every layer had a valid measurement."""


@app.command()
def tune(
    model: Annotated[
        str, typer.Argument(help="Built-in network, or path of an ONNX or compiled (.tw) file.")
    ],
    board: Annotated[str, typer.Option(help="Board or YAML file.")] = "pynq-z2",
    mode: Annotated[
        ModeName,
        typer.Option(help="One configuration for the network, or one for each layer."),
    ] = ModeName.SHARED,
    tuner: Annotated[
        str,
        typer.Option(
            metavar="NAME|MODULE:CLASS",
            help="Search algorithm; `tilewright tuners` lists them. A class of your own: "
            "package.module:Class.",
        ),
    ] = "tilewright",
    allocator: Annotated[
        str,
        typer.Option(
            metavar="NAME|MODULE:CLASS",
            help="Who decides which layer gets the next measurements; `tilewright allocators` "
            "lists them. A class of your own: package.module:Class.",
        ),
    ] = "headroom",
    objective: Annotated[
        ObjectiveOption,
        typer.Option(
            help="What to minimise: cycles; cycles x energy by a counter-based model (relative); "
            "or cycles x the board's mean resource share."
        ),
    ] = ObjectiveOption.LATENCY,
    space: Annotated[
        SpaceName, typer.Option(help="Any tile sizes, or VTA's divisor tiles.")
    ] = SpaceName.FULL,
    budget: Annotated[
        int | None,
        typer.Option(min=1, help="Measurements to spend; the default suits ResNet-18."),
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option(
            min=0,
            help="Start no new trial of the search after so long; what was measured is kept and "
            "confirmed, and the same command goes on from there.",
        ),
    ] = None,
    warm_start: Annotated[
        str,
        typer.Option(
            metavar="STORE[:STUDY]",
            help="Begin with the schedules that a study, or all of a store, measured best for "
            "layers of the same shape; tuners that learn from other layers get its trials, too.",
        ),
    ] = "",
    configs: Annotated[
        int | None,
        typer.Option(min=1, help="Hardware configurations to measure at most."),
    ] = None,
    hw: Annotated[
        str | None,
        typer.Option("--hw", help="Fix the hardware: named configuration or YAML file."),
    ] = None,
    base: Annotated[
        str, typer.Option(help="Configuration to start from when --hw is not given.")
    ] = "pynq-16x16",
    memory: Annotated[
        str, typer.Option(help="'board', 'ideal', a board's name or a YAML file.")
    ] = "board",
    layers: Annotated[str, typer.Option(help="Only these layers, separated by commas.")] = "",
    fidelity: Annotated[
        FidelityName,
        typer.Option(
            help="What measures, or confirms what was screened: the RTL with its output checked, "
            "its control with the data in C++ or without, or the cycle-exact twin."
        ),
    ] = FidelityName.RTL,
    screen: Annotated[
        ScreenName,
        typer.Option(
            help="Search on the cycle-exact twin and confirm the best on --fidelity, or measure "
            "everything on --fidelity."
        ),
    ] = ScreenName.TWIN,
    without: Annotated[
        list[str] | None,
        typer.Option(
            help="Ablation: switch off a part of the tuner (of tilewright: prior, calibration, "
            "pooling, descent); may be repeated."
        ),
    ] = None,
    compiled: Annotated[
        bool,
        typer.Option(
            help="Take the layers of the compiled graph of an ONNX or .pt2 model (fused, with "
            "pooling and adds; needs the extra 'network'), not those that its shapes tell."
        ),
    ] = False,
    trust_model: TrustModelOption = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of every random choice.")] = 0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Worker processes; default: one a core.")
    ] = None,
    ray: Annotated[
        str,
        typer.Option(
            metavar="ADDRESS",
            help="Measure on a Ray cluster: 'auto', host:port, or 'local' to start one here.",
        ),
    ] = "",
    runs: RunsOption = DEFAULT_RUNS,
    store: StoreOption = "",
    name: Annotated[str, typer.Option(help="Study name; default: made from the settings.")] = "",
) -> None:
    """Tune RTL parameters and schedules of a network; an interrupted study resumes."""
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.tuner.study.objective import ObjectiveName
    from tilewright.tuner.study.settings import DEFAULT_BUDGET, DEFAULT_CONFIGS, Mode, StudySettings

    screened = screen is ScreenName.TWIN and fidelity is not FidelityName.TWIN
    start = load_hwconfig(base if hw is None else hw)
    if trust_model and not compiled:
        raise UsageError("needs --compiled", field="--trust-model", remedy="add --compiled")
    table = (
        read_compiled_graph(model, start, read_board(board), trust_model=trust_model)
        if compiled
        else read_network(model)
    )
    target = read_board(board)
    settings = StudySettings(
        model=table.name,
        tasks=read_layers(table, layers),
        cpu_operators=table.cpu_operators,
        cpu_macs=table.cpu_macs,
        board=target,
        memory=target.memory if memory == "board" else read_memory(memory, board),
        mode=Mode(mode.value),
        tuner=tuner,
        allocator=allocator,
        objective=ObjectiveName(objective.value),
        space=space.value,
        budget=DEFAULT_BUDGET if budget is None else budget,
        seed=seed,
        base=start,
        configs=1 if hw is not None else (DEFAULT_CONFIGS if configs is None else configs),
        screen="twin" if screened else "none",
        without=tuple(without or ()),
    )
    if not name.isprintable() or len(name.encode()) > LONGEST_NAME:
        raise UsageError(
            f"must be printable text of at most {LONGEST_NAME} bytes", field="--name", value=name
        )
    if hw is not None and configs is not None and configs > 1:
        raise UsageError(
            "--hw fixes the hardware, so there is one configuration",
            field="--configs",
            value=configs,
            remedy="leave one of both out; --base names where a choice of hardware starts",
        )
    run_tune(
        settings,
        name or settings.default_name(fidelity=fidelity.value, warm_start=warm_start),
        runs,
        store_location(store, runs),
        warm_start=warm_start,
        seconds=seconds,
        fidelity=fidelity.value,
        ray=ray,
        workers=workers,
    )


def open_executor(ray: str, workers: int | None) -> Executor:
    """Processes of this machine, or a cluster whose machines must run the same sources."""
    from tilewright.tuner.measure.oracle import RETRIES, WALL_LIMIT_S, rtl_identity

    if ray:
        from tilewright.sim.executor.ray_executor import RayExecutor

        return RayExecutor(
            ray, workers, wall_limit_s=WALL_LIMIT_S, retries=RETRIES, fingerprint=rtl_identity
        )
    from tilewright.sim.executor.worker import WorkerPool

    return WorkerPool(workers or os.cpu_count() or 1, wall_limit_s=WALL_LIMIT_S, retries=RETRIES)


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
    workers: int | None,
) -> None:
    """Run a study on real devices, with a progress display, and report it.

    Raises:
        IncompleteStudyError: the study ended without a network.

    Args:
        settings: of the study, the warm start left out.
        name: of the study.
        runs: folder of the report.
        location: of the store.
        warm_start: STORE[:STUDY] to begin with; empty: none.
        seconds: limit of the search; None: none.
        fidelity: what measures or confirms.
        ray: address of a cluster; empty: this machine.
        workers: worker processes; None: one a core.
    """
    from tilewright.host.common.printable import printable
    from tilewright.tuner.measure.oracle import DeviceOracle
    from tilewright.tuner.measure.twin_oracle import TwinOracle
    from tilewright.tuner.report.progress import ProgressDisplay
    from tilewright.tuner.report.tuned_share import share_lines
    from tilewright.tuner.schedule.rules import host_rules
    from tilewright.tuner.store.store import Store
    from tilewright.tuner.study.study import run_study

    console = open_console()
    if fidelity != FidelityName.TWIN and not ray:
        _require_tools()  # the search may take an hour: it must not end in a missing tool
    if warm_start:
        settings = replace(settings, warm_start=_warm_start(warm_start, location, name, settings))
    with Store(
        location, waiting=lambda text: console.print(text, highlight=False, markup=False)
    ) as store:
        screen = TwinOracle(workers) if settings.screen == "twin" else None
        oracle = DeviceOracle(fidelity, open_executor(ray, workers))
        for line in filter(None, share_lines(settings.to_mapping())):
            console.print(printable(line), highlight=False, markup=False, soft_wrap=True)
        how = f"search on twin, confirmed on {fidelity}" if screen else f"every trial on {fidelity}"
        console.print(
            f"tuner {settings.tuner}, allocator {settings.allocator}, {how}", highlight=False
        )
        try:
            with ProgressDisplay(settings, console) as display:
                study = run_study(
                    name,
                    settings,
                    store=store,
                    oracle=oracle,
                    rules=host_rules(),
                    listener=display,
                    screen=screen,
                    seconds=seconds,
                )
        except KeyboardInterrupt:
            console.print(
                f"stopped; every finished trial is stored. The same command resumes study {name}.",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
            raise
        finally:
            oracle.close()
            if screen is not None:
                screen.close()
        if not show_report(store, study.name, None, runs):
            raise IncompleteStudyError(
                "no configuration has a valid measurement of every layer",
                field=study.name,
                remedy="its report tells why trials failed; raise --budget or --seconds, or run "
                "the same command again if it was stopped",
            )


def _require_tools() -> None:
    """Fail now, as a build would later.

    Raises:
        ToolError: Verilator or the C++ compiler is missing.
    """
    from tilewright.sim.tools.toolchain import find_compiler, find_verilator

    find_verilator()
    find_compiler()


def _warm_start(source: str, location: Path | str, name: str, settings: StudySettings) -> WarmStart:
    """The trials to begin with: those that the study began with, when it is taken up again."""
    from tilewright.tuner.store.store import Store
    from tilewright.tuner.study.confirmation import screening_name
    from tilewright.tuner.study.warm_start import read_warm_start

    wanted = screening_name(name) if settings.screen != "none" else name
    earlier = None
    if "://" in str(location) or Path(location).exists():
        with Store(location) as store:
            for study in store.studies():
                if study.name == wanted:
                    earlier = study.settings.get("warm_start")
    return read_warm_start(source, name=name, earlier=earlier)
