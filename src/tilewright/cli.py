# SPDX-License-Identifier: Apache-2.0
"""The `tilewright` command. Only what a subcommand needs is imported, when it runs."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from tilewright.host.errors import TilewrightError

if TYPE_CHECKING:
    from rich.console import Console

    from tilewright.host.board import Board, MemoryModel
    from tilewright.host.device import Counters
    from tilewright.host.hwconfig import HwConfig
    from tilewright.host.networks import NetworkTable
    from tilewright.host.schedule import Schedule
    from tilewright.host.workload import Workload
    from tilewright.sim.executor import Executor
    from tilewright.tuner.settings import StudySettings

EXIT_USER_ERROR: Final = 2
EXIT_CHECK_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130

STORE_FILE: Final = "studies.sqlite"
DEFAULT_RUNS: Final = Path("runs")
LOG_WIDTH: Final = 120
"""Columns of tables when the output is no terminal."""


class UsageError(TilewrightError):
    """An argument of the command line cannot be used."""


class _Group(TyperGroup):
    """Turns errors that users can act on into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TilewrightError as error:
            line = " ".join(str(error).split())
            print(f"error: {line}", file=sys.stderr)  # noqa: T201  (the command's own stream)
            ctx.exit(EXIT_USER_ERROR)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)  # noqa: T201
            ctx.exit(EXIT_INTERRUPTED)


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Co-design of an int8 GEMM accelerator: tune RTL parameters and layer schedules against "
    "cycle counts of the RTL itself, simulated in Verilator and checked bit-exact.",
)


class DeviceKind(StrEnum):
    """What `sim` runs on."""

    RTL = "rtl"
    DPI = "dpi"
    TIMING = "timing"
    TWIN = "twin"
    REFERENCE = "reference"
    CXXRTL = "cxxrtl"


class ModeName(StrEnum):
    """What `tune` searches."""

    SHARED = "shared"
    PER_LAYER = "per-layer"


class ScreenName(StrEnum):
    """What `tune` searches on before `--fidelity` confirms."""

    TWIN = "twin"
    NONE = "none"


class PartName(StrEnum):
    """Parts of the default tuner that `tune --without` takes away."""

    PRIOR = "prior"
    CALIBRATION = "calibration"
    POOLING = "pooling"
    DESCENT = "descent"


class FidelityName(StrEnum):
    """What `tune` measures on; all count the same cycles."""

    RTL = "rtl"
    DPI = "dpi"
    TIMING = "timing"
    TWIN = "twin"


class SpaceName(StrEnum):
    """Which schedules `tune` searches."""

    FULL = "full"
    VTA = "vta"


RunsOption = Annotated[
    Path, typer.Option("--runs", help="Folder of the trial store and the reports.")
]
StoreOption = Annotated[
    str,
    typer.Option(
        "--store",
        metavar="PATH|URL",
        help=f"Trial store: SQLite file or postgresql:// URL; default: {STORE_FILE} in --runs.",
    ),
]


@app.command()
def doctor() -> None:
    """Check the tools that simulation needs and say how to get what is missing."""
    from tilewright.sim.toolchain import doctor as run_checks

    console = _console()
    failed = 0
    for check in run_checks():
        failed += check.required and not check.ok
        mark = "[green]ok[/]     " if check.ok else "[red]missing[/]"
        if not check.ok and not check.required:
            mark = "[yellow]absent[/] "
        console.print(f"{mark} {check.name}: {check.detail}", highlight=False, soft_wrap=True)
        if not check.ok and check.remedy:
            console.print(f"        {check.remedy}", highlight=False, soft_wrap=True)
    if failed:
        raise typer.Exit(EXIT_CHECK_FAILED)


@app.command()
def configs() -> None:
    """List the named hardware configurations with their area."""
    from rich import box
    from rich.table import Table

    from tilewright.host.area import estimate
    from tilewright.host.hwconfig import load_hwconfig, named_configs

    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("name", "geometry", "AXI", "INP/WGT/ACC KiB", "LUT", "FF", "BRAM36", "DSP"):
        table.add_column(heading, justify="left" if heading == "name" else "right")
    for name in named_configs():
        hw, area = load_hwconfig(name), estimate(load_hwconfig(name))
        sizes = (hw.inp_bytes, hw.wgt_bytes, hw.acc_bytes)
        table.add_row(
            name,
            f"{hw.batch}x{hw.block_in}x{hw.block_out}",
            str(hw.axi_data_bits),
            "/".join(str(size // 1024) for size in sizes),
            *(f"{n:,}" for n in (area.lut, area.ff, area.bram36, area.dsp)),
        )
    _console().print(table)


@app.command()
def boards() -> None:
    """List the known boards with their resources, clock and AXI port."""
    from rich import box
    from rich.table import Table

    from tilewright.host.board import load_board, named_boards

    table = Table(box=box.SIMPLE, pad_edge=False)
    for heading in ("name", "part", "LUT", "FF", "BRAM36", "DSP", "clock", "AXI port"):
        table.add_column(heading, justify="left" if heading in ("name", "part") else "right")
    for name in named_boards():
        board = load_board(name)
        table.add_row(
            name,
            board.part,
            *(f"{n:,}" for n in (board.lut, board.ff, board.bram36, board.dsp)),
            f"{board.clock_mhz:g} MHz",
            f"{board.axi_data_bits} bit",
        )
    _console().print(table)


@app.command()
def sim(
    layer: Annotated[str, typer.Argument(help="Layer of the network, such as C8.")],
    network: Annotated[
        str, typer.Option(help="Built-in network or path of an ONNX file.")
    ] = "vta-resnet18",
    hw: Annotated[
        str, typer.Option("--hw", help="Named configuration or YAML file.")
    ] = "pynq-16x16",
    memory: Annotated[
        str, typer.Option(help="'ideal', 'board', a board's name or a YAML file.")
    ] = "ideal",
    board: Annotated[
        str, typer.Option(help="Board whose memory '--memory board' means.")
    ] = "pynq-z2",
    schedule: Annotated[str, typer.Option(help="'default' (untuned) or a YAML file.")] = "default",
    waves: Annotated[
        Path | None, typer.Option(help="Write waves of the run to this FST file.")
    ] = None,
    device: Annotated[
        DeviceKind,
        typer.Option(
            help="The RTL in Verilator (rtl), with its data in C++ (dpi), without any (timing), "
            "in CXXRTL; the cycle-exact twin; the NumPy reference."
        ),
    ] = DeviceKind.RTL,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random operands.")] = 0,
    max_cycles: Annotated[
        int, typer.Option(min=0, help="Cycle limit; 0: the device's default.")
    ] = 0,
) -> None:
    """Run one layer, check its output bit-exact, and print cycles and counters."""
    import numpy as np

    from tilewright.host.bound import bound
    from tilewright.host.golden import conv2d_int8, random_tensors
    from tilewright.host.hwconfig import load_hwconfig
    from tilewright.host.lowering import lower

    config = load_hwconfig(hw)
    workload = _network(network)[layer]
    timing = _memory(memory, board)
    chosen = _schedule(schedule, config, workload)
    lowered = lower(config, workload, chosen)
    tensors = random_tensors(workload, np.random.default_rng(seed))
    if waves is not None and device is not DeviceKind.RTL:
        raise UsageError(
            "waves need the RTL in Verilator", field="waves", remedy="leave out --device"
        )
    runner = _device(device, config, timing, waves)
    try:
        result = runner.run(lowered.program, lowered.image(tensors), max_cycles=max_cycles)
    finally:
        runner.close()
    expected = conv2d_int8(workload, tensors)
    actual = lowered.output(result.memory)
    wrong = int(np.count_nonzero(actual != expected)) if actual.shape == expected.shape else -1
    if device is DeviceKind.TIMING:  # it has no data
        wrong = 0
    _print_sim(
        title=f"{workload.name} of {network} on {config.name} ({config.config_hash:08x}), "
        f"memory {timing.name}, {device.value}",
        schedule=str(chosen.to_mapping()),
        counters=result.counters,
        bound_cycles=bound(config, workload, timing).cycles,
        seconds=result.host_seconds,
    )
    if waves is not None:
        print(f"waves: {waves} (view with: surfer {waves}  or  gtkwave {waves})")  # noqa: T201
    if wrong:
        print(  # noqa: T201
            f"WRONG RESULT: {wrong} of {expected.size} elements of {workload.name} differ from the "
            "golden model; this is a defect of Tilewright: please report it with this command",
            file=sys.stderr,
        )
        raise typer.Exit(EXIT_CHECK_FAILED)
    if device is not DeviceKind.TIMING:
        print(f"output: bit-exact, {expected.size:,} int8 elements")  # noqa: T201


@app.command()
def tune(
    model: Annotated[str, typer.Argument(help="Built-in network or path of an ONNX file.")],
    board: Annotated[str, typer.Option(help="Board or YAML file.")] = "pynq-z2",
    mode: Annotated[
        ModeName,
        typer.Option(help="One configuration for the network, or one for each layer."),
    ] = ModeName.SHARED,
    tuner: Annotated[
        str, typer.Option(help="Search algorithm; `tilewright tuners` lists them.")
    ] = "tilewright",
    space: Annotated[
        SpaceName, typer.Option(help="Any tile sizes, or VTA's divisor tiles.")
    ] = SpaceName.FULL,
    budget: Annotated[
        int | None,
        typer.Option(min=1, help="Measurements to spend; the default suits ResNet-18."),
    ] = None,
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
        list[PartName] | None,
        typer.Option(help="Ablation: switch off a part of tuner tilewright; may be repeated."),
    ] = None,
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
    from tilewright.host.hwconfig import load_hwconfig
    from tilewright.tuner.settings import DEFAULT_BUDGET, DEFAULT_CONFIGS, Mode, StudySettings

    screened = screen is ScreenName.TWIN and fidelity is not FidelityName.TWIN
    table = _network(model)
    target = _board(board)
    wanted = [part.strip() for part in layers.split(",") if part.strip()]
    settings = StudySettings(
        model=table.name,
        tasks=tuple(table[layer] for layer in wanted) if wanted else table.workloads,
        cpu_operators=table.cpu_operators,
        board=target,
        memory=target.memory if memory == "board" else _memory(memory, board),
        mode=Mode(mode.value),
        tuner=tuner,
        space=space.value,
        budget=DEFAULT_BUDGET if budget is None else budget,
        seed=seed,
        base=load_hwconfig(base if hw is None else hw),
        configs=1 if hw is not None else (DEFAULT_CONFIGS if configs is None else configs),
        screen="twin" if screened else "none",
        without=tuple(part.value for part in without or ()),
    )
    _tune(
        settings,
        name or settings.default_name() + (f"-{fidelity.value}" if fidelity != "rtl" else ""),
        runs,
        _store(store, runs),
        fidelity=fidelity.value,
        ray=ray,
        workers=workers,
    )


@app.command()
def tuners() -> None:
    """List the search algorithms with what each one uses."""
    from rich.table import Table

    from tilewright.tuner.search import TUNERS

    table = Table("tuner", "track", "packages", "what it does", box=None, pad_edge=False)
    for name, spec in TUNERS.items():
        track = "grey-box" if spec.prior else "black-box"
        table.add_row(name, track, ", ".join(spec.packages) or "-", spec.summary)
    _console().print(table)


@app.command()
def certify(
    network: Annotated[str, typer.Argument(help="Built-in network or path of an ONNX file.")],
    board: Annotated[str, typer.Option(help="Board or YAML file.")] = "pynq-z2",
    base: Annotated[
        str, typer.Option(help="Configuration around which hardware is chosen.")
    ] = "pynq-16x16",
    memory: Annotated[
        str, typer.Option(help="'board', 'ideal', a board's name or a YAML file.")
    ] = "board",
    layers: Annotated[str, typer.Option(help="Only these layers, separated by commas.")] = "",
    space: Annotated[SpaceName, typer.Option(help="Which schedules.")] = SpaceName.VTA,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Cycles of a known network: look for better ones only."),
    ] = None,
    seconds: Annotated[float, typer.Option(min=0, help="Give up after so long.")] = 1200.0,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Threads; default: one a core.")
    ] = None,
) -> None:
    """Find the best network of all configurations and schedules, by enumeration on the twin."""
    from tilewright.host.hwconfig import load_hwconfig
    from tilewright.tuner.certify import Certifier, class_lines
    from tilewright.tuner.rules import host_rules

    table, target = _network(network), _board(board)
    wanted = [part.strip() for part in layers.split(",") if part.strip()]
    certificate = Certifier(
        tuple(table[layer] for layer in wanted) if wanted else table.workloads,
        board=target,
        memory=target.memory if memory == "board" else _memory(memory, board),
        base=load_hwconfig(base),
        rules=host_rules(),
        kind=space.value,
        limit=limit,
        seconds=seconds,
        threads=workers,
        note=lambda text: _console().print(text, highlight=False, soft_wrap=True),
    ).run()
    for name, schedule in certificate.schedules.items():
        print(f"{name}: {schedule.to_mapping()}")  # noqa: T201
    for line in class_lines(certificate):
        print(line)  # noqa: T201
    print(f"{certificate.seconds:.0f} s")  # noqa: T201


@app.command()
def exhaust(
    layers: Annotated[
        list[str] | None, typer.Argument(help="Layers of the network; none: all of them.")
    ] = None,
    network: Annotated[
        str, typer.Option(help="Built-in network or path of an ONNX file.")
    ] = "vta-resnet18",
    hw: Annotated[
        str, typer.Option("--hw", help="Named configuration or YAML file.")
    ] = "pynq-16x16",
    memory: Annotated[
        str, typer.Option(help="'ideal', 'board', a board's name or a YAML file.")
    ] = "ideal",
    board: Annotated[
        str, typer.Option(help="Board whose memory '--memory board' means.")
    ] = "pynq-z2",
    space: Annotated[SpaceName, typer.Option(help="Which schedules.")] = SpaceName.VTA,
    confirm: Annotated[
        int,
        typer.Option(min=0, help="Schedules to confirm on the RTL: best, others at random."),
    ] = 3,
    confirm_cycles: Annotated[
        int, typer.Option(min=1, help="Do not confirm what takes more cycles than this.")
    ] = 5_000_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the random ones.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Threads.")] = 2,
    folder: Annotated[Path, typer.Option(help="Where landscapes are kept.")] = Path(
        "runs/landscapes"
    ),
) -> None:
    """Measure every legal schedule of a layer on the twin; confirm the best on the RTL."""
    from tilewright.host.hwconfig import load_hwconfig
    from tilewright.tuner.landscape_report import print_landscapes

    config, table = load_hwconfig(hw), _network(network)
    print_landscapes(
        config,
        [table[name] for name in layers] if layers else list(table.workloads),
        _memory(memory, board),
        kind=space.value,
        confirm=confirm,
        confirm_cycles=confirm_cycles,
        seed=seed,
        workers=workers,
        folder=folder,
        console=_console(),
    )


@app.command()
def report(
    run: Annotated[
        str, typer.Argument(help="Study name; empty or left out: the latest of the folder.")
    ] = "",
    runs: RunsOption = DEFAULT_RUNS,
    store: StoreOption = "",
    output: Annotated[
        Path | None, typer.Option(help="HTML file; default: <runs>/<study>.html.")
    ] = None,
) -> None:
    """Print the summary of a study and write its HTML report, from the store alone."""
    from tilewright.tuner.store import Store

    with Store(_store(store, runs), must_exist=True) as opened:
        names = [study.name for study in opened.studies()]
        if not run and not names:
            raise UsageError(
                "the trial store holds no study",
                field=opened.name,
                remedy="run `tilewright tune` first",
            )
        _report(opened, run or names[-1], output, runs)


# -- behind the commands ----------------------------------------------------------------------


def _console() -> Console:
    """Standard output: as wide as the terminal, or `LOG_WIDTH` columns into a file."""
    from rich.console import Console

    console = Console()
    return console if console.is_terminal else Console(width=LOG_WIDTH)


def _network(name: str) -> NetworkTable:
    if name.lower().endswith(".onnx"):
        from tilewright.host.frontend_onnx import load_onnx

        return load_onnx(Path(name))
    from tilewright.host.networks import load_network

    return load_network(name)


def _board(name: str) -> Board:
    from tilewright.host.board import load_board

    return load_board(name)


def _memory(name: str, board: str) -> MemoryModel:
    if name == "board":
        return _board(board).memory
    from tilewright.host.board import load_memory

    return load_memory(name)


def _schedule(name: str, hw: HwConfig, workload: Workload) -> Schedule:
    from tilewright.host.errors import ScheduleError
    from tilewright.host.hwconfig import read_yaml_mapping
    from tilewright.host.lowering import default_schedule, legal
    from tilewright.host.schedule import Schedule

    if name == "default":
        return default_schedule(hw, workload)
    schedule = Schedule.from_mapping(read_yaml_mapping(Path(name), "a schedule"))
    verdict = legal(hw, workload, schedule)
    if not verdict.ok:
        raise ScheduleError(
            f"{verdict.rule}: {verdict.detail}",
            field=name,
            remedy=f"choose smaller tiles for {workload.name} on {hw.name}",
        )
    return schedule


def _device(kind: DeviceKind, hw: HwConfig, memory: MemoryModel, waves: Path | None) -> Any:
    if kind is DeviceKind.REFERENCE:
        from tilewright.sim.reference import ReferenceDevice

        return ReferenceDevice(hw)
    if kind is DeviceKind.TWIN:
        from tilewright.sim.twin_device import TwinDevice

        return TwinDevice(hw, memory)
    if kind is DeviceKind.CXXRTL:
        from tilewright.sim.cxxrtl_device import CxxrtlDevice

        return CxxrtlDevice(hw, memory)
    from tilewright.sim.fidelity import Fidelity
    from tilewright.sim.verilator_device import VerilatorDevice

    return VerilatorDevice(hw, memory, waves=waves, fidelity=Fidelity(kind.value))


def _print_sim(
    *, title: str, schedule: str, counters: Counters, bound_cycles: int, seconds: float
) -> None:
    from rich import box
    from rich.table import Table

    from tilewright.host.registers import UNIT_COUNTER_STATES, UNIT_NAMES

    console = _console()
    console.print(title, highlight=False, markup=False, soft_wrap=True)
    console.print(f"schedule {schedule}", highlight=False, markup=False, soft_wrap=True)
    cycles = counters.cycles
    if cycles:
        console.print(
            f"{cycles:,} cycles; bound {bound_cycles:,}; {100 * bound_cycles / cycles:.1f} % of "
            f"the bound; simulated in {seconds:.2f} s ({cycles / max(seconds, 1e-9) / 1e6:.2f} "
            "M cycles/s)",
            highlight=False,
        )
        units = Table("cycles", *UNIT_NAMES, box=box.SIMPLE, pad_edge=False)
        for column in units.columns:
            column.no_wrap = True
            column.justify = "left" if column is units.columns[0] else "right"
        for state, _ in UNIT_COUNTER_STATES:
            cells = []
            for unit in UNIT_NAMES:
                count = counters.values.get(f"{unit}_{state}")
                share = "" if count is None else f"{count:,} {100 * count / cycles:5.1f} %"
                cells.append(share)
            units.add_row(state.replace("token_", "waits for "), *cells)
        console.print(units)
    else:
        console.print("cycles: the reference does not model time", highlight=False)
    unit_states = {f"{u}_{s}" for u in UNIT_NAMES for s, _ in UNIT_COUNTER_STATES}
    rest = [f"{k} {v:,}" for k, v in counters.values.items() if k not in unit_states]
    console.print(", ".join(rest), highlight=False, soft_wrap=True)


def _store(location: str, runs: Path) -> Path | str:
    """A store's URL, or the path of its SQLite file."""
    if "://" in location:
        return location
    return Path(location) if location else runs / STORE_FILE


def _executor(ray: str, workers: int | None) -> Executor:
    """Processes of this machine, or a cluster whose machines must run the same sources."""
    from tilewright.tuner.oracle import RETRIES, WALL_LIMIT_S, rtl_identity

    if ray:
        from tilewright.sim.ray_executor import RayExecutor

        return RayExecutor(
            ray, workers, wall_limit_s=WALL_LIMIT_S, retries=RETRIES, fingerprint=rtl_identity
        )
    from tilewright.sim.worker import WorkerPool

    return WorkerPool(workers or os.cpu_count() or 1, wall_limit_s=WALL_LIMIT_S, retries=RETRIES)


def _tune(
    settings: StudySettings,
    name: str,
    runs: Path,
    location: Path | str,
    *,
    fidelity: str,
    ray: str,
    workers: int | None,
) -> None:
    from tilewright.tuner.oracle import DeviceOracle
    from tilewright.tuner.progress import ProgressDisplay
    from tilewright.tuner.rules import host_rules
    from tilewright.tuner.store import Store
    from tilewright.tuner.study import run_study
    from tilewright.tuner.twin_oracle import TwinOracle

    console = _console()
    with Store(location) as store:
        screen = TwinOracle(workers) if settings.screen == "twin" else None
        oracle = DeviceOracle(fidelity, _executor(ray, workers))
        how = f"search on twin, confirmed on {fidelity}" if screen else f"every trial on {fidelity}"
        console.print(f"tuner {settings.tuner}, {how}", highlight=False)
        try:
            with ProgressDisplay(settings, console) as display:
                run_study(
                    name,
                    settings,
                    store=store,
                    oracle=oracle,
                    rules=host_rules(),
                    listener=display,
                    screen=screen,
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
        _report(store, name, None, runs)


def _report(store: Any, name: str, output: Path | None, runs: Path) -> None:

    from tilewright.tuner.report import print_summary
    from tilewright.tuner.report_html import write_html
    from tilewright.tuner.results import load_result

    console = _console()
    result = load_result(store, name)
    print_summary(result, console)
    path = write_html(result, output or runs / f"{name.replace('/', '_')}.html")
    console.print(f"report: {path}", highlight=False, markup=False, soft_wrap=True)
    if result.mismatches:
        raise typer.Exit(EXIT_CHECK_FAILED)


def main() -> None:
    """Entry point of the `tilewright` command."""
    app()


if __name__ == "__main__":
    main()
