# SPDX-License-Identifier: Apache-2.0
"""`tilewright compile` and `tilewright run`: whole networks."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tilewright.cli.application import EXIT_CHECK_FAILED, UsageError, app, open_console
from tilewright.cli.arguments import (
    TrustModelOption,
    read_board,
    read_memory,
    require_readable,
    store_location,
)
from tilewright.host.common.errors import fields_named
from tilewright.host.common.printable import printable
from tilewright.host.machine.fidelity import Fidelity

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from tilewright.host.compiler.pack.artefact import CompiledNetwork
    from tilewright.host.compiler.read.calibration import Calibration
    from tilewright.host.compiler.run.runtime import NetworkRun
    from tilewright.host.machine.board import Board, MemoryModel
    from tilewright.host.machine.hwconfig import HwConfig
    from tilewright.host.runtime.device import Device
    from tilewright.tuner.study.schedule_lookup import ScheduleBook


class NetworkDevice(StrEnum):
    """What `run` runs on."""

    RTL = Fidelity.RTL
    DPI = Fidelity.DPI
    REFERENCE = "reference"
    TWIN = Fidelity.TWIN
    BOARD = Fidelity.BOARD


class CalibrationMethod(StrEnum):
    """How ranges of activations follow from calibration data (`QuantiseOptions.method`)."""

    MSE = "mse"
    MINMAX = "minmax"
    PERCENTILE = "percentile"


@app.command("compile")
def compile_command(
    model: Annotated[Path, typer.Argument(help="ONNX file or .pt2 file of torch.export.save.")],
    hw: Annotated[
        str, typer.Option("--hw", help="Named configuration or YAML file.")
    ] = "pynq-16x16",
    board: Annotated[str, typer.Option(help="Board: clock, memory and CPU.")] = "pynq-z2",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write; default: MODEL.tw.")
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(
            help="Inputs of a float model: folder of images, .npy, or .npz with an array an input."
        ),
    ] = None,
    random_calibration: Annotated[
        int, typer.Option(min=0, help="Calibrate with N random inputs (timing, not accuracy).")
    ] = 0,
    mean: Annotated[str, typer.Option(help="Of image channels in 0..1, comma-separated.")] = "0",
    std: Annotated[str, typer.Option(help="Of image channels, comma-separated.")] = "1",
    asymmetric: Annotated[
        bool, typer.Option(help="Activations with a zero point (uint8).")
    ] = False,
    calibration_method: Annotated[
        CalibrationMethod,
        typer.Option(
            help="Ranges of activations: least square error, all that occurs, or a percentile."
        ),
    ] = CalibrationMethod.MSE,
    percentile: Annotated[
        float, typer.Option(help="Of --calibration-method percentile: within the range.")
    ] = 99.99,
    equalisation: Annotated[
        bool, typer.Option(help="Scale channels of activations to similar ranges.")
    ] = True,
    bias_correction: Annotated[
        bool, typer.Option(help="Correct biases by the mean error of each layer.")
    ] = True,
    shape: Annotated[
        list[str] | None,
        typer.Option(help="Size of an input that the model leaves open: NAME=1,3,224,224."),
    ] = None,
    store: Annotated[
        str,
        typer.Option(metavar="PATH|URL", help="Trials of 'tune' whose schedules are used."),
    ] = "",
    search: Annotated[
        int,
        typer.Option(
            min=0, help="Measurements on the twin for a layer that the store does not know."
        ),
    ] = 16,
    keep_rounding: Annotated[
        bool, typer.Option(help="Keep every quantisation of the model: one rounding more a fusion.")
    ] = False,
    offload_all: Annotated[
        bool, typer.Option(help="Offload whatever can run on the accelerator, at any cost.")
    ] = False,
    trust_model: TrustModelOption = False,
) -> None:
    """Compile a network into one file: programs of the accelerator and what the CPU runs."""
    from tilewright.host.machine.hwconfig import load_hwconfig

    if model.suffix.lower() == ".tw":
        raise UsageError(
            "is compiled already",
            field="MODEL",
            value=str(model),
            remedy="give the ONNX or .pt2 file that it was made from, or 'tilewright run' it",
        )
    require_readable(model, "MODEL")
    if calibration is not None:
        require_readable(calibration, "--calibration")
    config, target = load_hwconfig(hw), read_board(board)
    shapes, source = (
        read_shapes(shape or []),
        "--calibration" if calibration else "--random-calibration",
    )

    from tilewright.host.compiler.compiled import compile_network
    from tilewright.host.compiler.frontend import ImportOptions, QuantiseOptions, import_network
    from tilewright.host.compiler.pack.artefact import save
    from tilewright.tuner.store.store import Store
    from tilewright.tuner.study.schedule_lookup import ScheduleBook

    console = open_console()
    started = time.perf_counter()
    trials = Store(store_location(store, Path()), must_exist=True) if store else None
    with fields_named({"percentile": "--percentile", **_calibration_options(source)}):
        network = import_network(
            model,
            calibration=read_calibration(calibration, random_calibration, mean, std),
            options=ImportOptions(
                quantise=QuantiseOptions(
                    asymmetric=asymmetric,
                    method=calibration_method.value,
                    percentile=percentile,
                    equalisation=equalisation,
                    bias_correction=bias_correction,
                ),
                input_shapes=shapes,
                trust_model=trust_model,
            ),
        )
    book = ScheduleBook(config, target.memory, budget=search, store=trials)
    imported = time.perf_counter()

    def progress(text: str) -> None:
        print(printable(text), file=sys.stderr)  # noqa: T201  (progress)

    try:
        compiled, _ = compile_network(
            network,
            config,
            target,
            book,
            keep_rounding=keep_rounding,
            offload_all=offload_all,
            conditions={
                "model": model.name,
                "board": target.name,
                "memory": target.memory.name,
                "clock_mhz": target.clock_mhz,
                "was_quantised": network.was_quantised,
                "calibration": str(calibration or (f"{random_calibration} random inputs")),
                "asymmetric": asymmetric,
                "calibration_method": calibration_method.value,
                "equalisation": equalisation,
                "bias_correction": bias_correction,
                "keep_rounding": keep_rounding,
            },
            progress=progress,
        )
    finally:
        book.close()
        if trials is not None:
            trials.close()
    path = output or model.with_suffix(".tw")
    save(compiled, path)
    finished = time.perf_counter()
    print_layers(compiled, target.memory, target, book)
    print_placements(compiled)
    stages = ", ".join(f"{name} {seconds:.1f} s" for name, seconds in network.seconds.items())
    console.print(f"import: {stages}", highlight=False, soft_wrap=True)
    console.print(
        f"compile: {finished - imported:.1f} s; all {finished - started:.1f} s", highlight=False
    )
    console.print(
        f"saved {path} ({path.stat().st_size:,} bytes)",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )


@app.command("run")
def run_command(
    network: Annotated[Path, typer.Argument(help="File of 'tilewright compile'.")],
    device: Annotated[
        NetworkDevice,
        typer.Option(
            help="The RTL in Verilator (rtl), with its data in C++ (dpi), the NumPy reference, "
            "the cycle-exact twin, or a board."
        ),
    ] = NetworkDevice.RTL,
    data: Annotated[
        Path | None,
        typer.Option("--input", help="Image, .npy, or .npz with an array an input."),
    ] = None,
    random_input: Annotated[
        bool, typer.Option("--random", help="Run on seeded noise instead of an input.")
    ] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the noise.")] = 0,
    mean: Annotated[str, typer.Option(help="Of image channels in 0..1, comma-separated.")] = "0",
    std: Annotated[str, typer.Option(help="Of image channels, comma-separated.")] = "1",
    board: Annotated[
        str,
        typer.Option(
            help="Board or YAML file: clock and memory; default: the board that the network was "
            "compiled for."
        ),
    ] = "",
    memory: Annotated[
        str, typer.Option(help="'board', 'ideal', a board's name or a YAML file.")
    ] = "board",
    check: Annotated[
        bool, typer.Option(help="Compare every output with the reference, bit by bit.")
    ] = True,
    cycles_only: Annotated[
        bool, typer.Option(help="Count cycles without data; what --device twin does.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the outputs to this .npz file.")
    ] = None,
    agent: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Board: where 'tilewright agent' serves it."),
    ] = "",
    token_file: Annotated[Path | None, typer.Option(help="Shared secret of the agent.")] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="No TLS: the agent was started so, on this machine.")
    ] = False,
    wait: Annotated[
        float, typer.Option(min=0, help="Seconds to wait while another client has the board.")
    ] = 0,
    bitstream: Annotated[
        Path | None, typer.Option(help="Board: this one, with this file loaded.")
    ] = None,
    ip: Annotated[str, typer.Option(help="Name of the accelerator in the bitstream.")] = "",
    trust_model: Annotated[
        bool,
        typer.Option(
            "--trust-model",
            help="Run the CPU's part in this process, without its limits of memory and time.",
        ),
    ] = False,
) -> None:
    """Run a compiled network, check it bit-exact, and print cycles and where the time goes."""
    require_readable(network, "NETWORK")
    if data is not None:
        require_readable(data, "--input")
    import numpy as np

    from tilewright.host.compiler.pack.artefact import load

    compiled = load(network)
    target = read_board(board) if board else compiled_board(compiled)
    timing = target.memory if memory == "board" else read_memory(memory, board)
    if device is NetworkDevice.TWIN and not cycles_only:
        raise UsageError("the twin has no data", field="--device twin", remedy="add --cycles-only")
    if cycles_only:
        if device is not NetworkDevice.TWIN:
            raise UsageError("needs the twin", field="--cycles-only", remedy="add --device twin")
        print_layers(compiled, timing, target, None)
        return
    if device is not NetworkDevice.BOARD and (agent or bitstream):
        raise UsageError("needs a board", field="--agent, --bitstream", remedy="add --device board")
    inputs = read_inputs(compiled, data, random_input=random_input, seed=seed, mean=mean, std=std)
    if device is NetworkDevice.BOARD:
        opened = open_board_device(
            compiled.hw, target, agent, token_file, wait, bitstream, ip, plain=plain
        )
        where, verb = f"board {agent or 'of this machine'}", "ran"
    else:
        opened = open_simulated(device, compiled.hw, timing)
        where, verb = f"{device.value}, memory {timing.name}", "simulated"
    run = execute(compiled, opened, inputs, trusted=trust_model)
    console = open_console()
    if run.cycles:
        milliseconds = run.cycles / (target.clock_mhz * 1e3)
        seconds = sum(result.host_seconds for result in run.results)
        console.print(
            f"{compiled.name} on {compiled.hw.name}, {where}: "
            f"{run.cycles:,} cycles on the accelerator, {milliseconds:.2f} ms at "
            f"{target.clock_mhz:g} MHz; {verb} in {seconds:.{1 if verb == 'simulated' else 4}f} s "
            f"({run.cycles / max(seconds, 1e-9) / 1e6:.2f} M cycles/s)",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    console.print(
        f"CPU operators: {1e3 * run.cpu_seconds:.1f} ms on this machine; {len(run.results)} "
        "programs of the accelerator",
        highlight=False,
    )
    for name, array in run.outputs.items():
        flat = np.asarray(array).reshape(-1)
        most = ", ".join(f"[{i}] {flat[i]:.4g}" for i in np.argsort(-flat, kind="stable")[:5])
        console.print(
            f"{name}: {array.dtype} {list(array.shape)}; largest {most}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    if output is not None:
        save_arrays(output, {_key(name): array for name, array in run.outputs.items()})
        console.print(f"saved {output}", highlight=False, markup=False, soft_wrap=True)
    if check and device is not NetworkDevice.REFERENCE:
        expected = execute(
            compiled,
            open_simulated(NetworkDevice.REFERENCE, compiled.hw, timing),
            inputs,
            trusted=trust_model,
        )
        wrong = {
            name: int(np.count_nonzero(array != expected.outputs[name]))
            for name, array in run.outputs.items()
        }
        if any(wrong.values()):
            print(  # noqa: T201  (output)
                f"WRONG RESULT: elements that differ from the reference: {wrong}; this is a defect "
                "of Tilewright: please report it with this command",
                file=sys.stderr,
            )
            raise typer.Exit(EXIT_CHECK_FAILED)
        console.print("outputs: bit-exact to the reference", highlight=False)


def save_arrays(path: Path, arrays: dict[str, Any]) -> None:
    """Write an .npz file of exactly this name, whole or not at all.

    Raises:
        UsageError: it cannot be written.
    """
    import io

    import numpy as np

    from tilewright.host.common.whole_file import write_whole

    content = io.BytesIO()
    np.savez(content, **arrays)
    try:
        write_whole(path, content.getvalue())
    except OSError as error:
        raise UsageError(
            f"the outputs cannot be written ({error.strerror or error})",
            field="--output",
            value=str(path),
            remedy="name a file in a folder that can be written",
        ) from error


def compiled_board(compiled: CompiledNetwork) -> Board:
    """The board that a network was compiled for, if it is a built-in one.

    The file says a name. It comes from anybody, so it is looked up and never opened as a path.

    Raises:
        UsageError: no built-in board has that name.
    """
    from tilewright.host.machine.board import named_boards

    name = str(compiled.conditions.get("board", "pynq-z2"))
    if name not in named_boards():
        raise UsageError(
            "the network was compiled for a board that is not built in",
            field="--board",
            value=name,
            remedy="give the YAML file of that board, or one of " + ", ".join(named_boards()),
        )
    return read_board(name)


def open_simulated(kind: NetworkDevice, hw: HwConfig, memory: MemoryModel) -> Device:
    """The device of a kind that needs no board."""
    from tilewright.cli.sim import DeviceKind, open_device

    device: Device = open_device(DeviceKind(kind.value), hw, memory)
    return device


def open_board_device(
    hw: HwConfig,
    board: Board,
    agent: str,
    token_file: Path | None,
    wait_seconds: float,
    bitstream: Path | None,
    ip: str,
    *,
    plain: bool,
) -> Device:
    """The board that an agent serves, or the one that this command runs on."""
    if bool(agent) == (bitstream is not None):
        raise UsageError("give one of --agent and --bitstream", field="--device board")
    if bitstream is not None:
        from tilewright.host.runtime.agent.serving import open_board

        return open_board(hw, board, bitstream, ip=ip)
    if token_file is None:
        raise UsageError(
            "needs the agent's secret", field="--agent", remedy="add --token-file FILE"
        )
    from tilewright.host.runtime.agent.authentication import read_token
    from tilewright.host.runtime.agent.client import RemoteDevice

    return RemoteDevice(agent, read_token(token_file), wait_seconds=wait_seconds, plain=plain)


def execute(
    compiled: CompiledNetwork, device: Device, inputs: Any, *, trusted: bool = False
) -> NetworkRun:
    """Run a network on a device, and close it."""
    from tilewright.host.compiler.run.runtime import NetworkRunner

    try:
        with NetworkRunner(compiled, device, trusted=trusted) as runner:
            return runner.run(inputs)
    finally:
        device.close()


def read_calibration(
    path: Path | None, random_inputs: int, mean: str, std: str
) -> Calibration | None:
    """Calibration data as the options state them; None: none."""
    from tilewright.host.compiler.read.calibration import Calibration

    if path is None and not random_inputs:
        return None
    if path is not None and random_inputs:
        raise UsageError(
            "leaves no use for random inputs", field="--calibration", remedy="give one of them"
        )
    return Calibration(
        path=path,
        random_samples=random_inputs or None,
        mean=read_numbers("--mean", mean),
        std=read_numbers("--std", std),
    )


def read_numbers(option: str, text: str) -> tuple[float, ...]:
    """Comma-separated numbers."""
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError as error:
        raise UsageError("must be numbers separated by commas", field=option, value=text) from error


def read_shapes(texts: list[str]) -> dict[str, tuple[int, ...]]:
    """Input sizes of the form NAME=1,3,224,224."""
    shapes = {}
    for text in texts:
        name, sign, sizes = text.rpartition("=")
        try:
            shape = tuple(int(part) for part in sizes.split(","))
        except ValueError:
            shape = ()
        if not (name and sign and shape and min(shape) > 0):
            raise UsageError("must look like NAME=1,3,224,224", field="--shape", value=text)
        shapes[name] = shape
    return shapes


def read_inputs(
    compiled: CompiledNetwork,
    path: Path | None,
    *,
    random_input: bool,
    seed: int,
    mean: str,
    std: str,
) -> dict[str, npt.NDArray[np.generic]]:
    """One set of inputs of a network: a file's first, or noise."""
    from tilewright.host.compiler.read.argument import Argument
    from tilewright.host.compiler.read.calibration import Calibration

    if (path is None) == (not random_input):
        raise UsageError("give one of --input and --random", field="--input, --random")
    ports = [Argument(name=p.name, shape=p.shape, dtype=p.dtype) for p in compiled.inputs]
    with fields_named(_calibration_options("--random" if random_input else "--input")):
        source = Calibration(
            path=path,
            random_samples=1 if random_input else None,
            seed=seed,
            mean=read_numbers("--mean", mean),
            std=read_numbers("--std", std),
        )
        return next(source.batches(ports))


def _calibration_options(source: str) -> dict[str, str]:
    """The fields of a `Calibration` to the options that state them."""
    return {"calibration.mean": "--mean", "calibration.std": "--std", "calibration": source}


def print_layers(
    compiled: CompiledNetwork, memory: MemoryModel, board: Board, book: ScheduleBook | None
) -> None:
    """Print what each layer takes on the twin, and the sums."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from tilewright.host.common.print_table import print_table
    from tilewright.sim.twin.network_timing import time_layers

    console = open_console()
    table = Table(
        "layer", "kind", "output", "cycles", "bound", "utilisation", "limit",
        box=box.SIMPLE, pad_edge=False,
    )  # fmt: skip
    for column in table.columns[3:6]:
        column.justify = "right"
    total = bounds = alone = 0
    for program in compiled.programs:
        counters, timings = time_layers(program, memory)
        total += counters.cycles
        for timing in timings:
            bounds += timing.bound
            if book is not None:
                alone += book.entry(timing.workload).cycles or 0
            _, channels, height, width = timing.workload.output_shape
            table.add_row(
                Text(printable(timing.name, limit=40)),
                timing.workload.kind.value,
                f"{channels}x{height}x{width}",
                f"{timing.cycles:,}",
                f"{timing.bound:,}",
                f"{100 * timing.utilisation:.1f} %",
                timing.limiter,
            )
    print_table(table, console)
    share = 100 * bounds / total if total else 0.0
    console.print(
        f"{total:,} cycles on the twin, memory {memory.name}: "
        f"{total / (board.clock_mhz * 1e3):.2f} ms at {board.clock_mhz:g} MHz; {share:.1f} % of "
        "the sum of bounds",
        highlight=False,
        markup=False,
        soft_wrap=True,
    )
    if alone:
        console.print(
            f"sum of the layers measured alone: {alone:,}; chained they take "
            f"{100 * (total / alone - 1):+.2f} %",
            highlight=False,
        )
    for program in compiled.programs:
        sizes = {name: region.nbytes for name, region in program.program.regions.items()}
        console.print(
            f"{program.name}: {program.program.instruction_count:,} instructions, activations "
            f"{sizes['activations']:,} bytes (at least {program.activation_peak:,}), weights "
            f"{sizes['weights']:,}, micro-ops {sizes['uop']:,}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
    if book is not None:
        origins = ", ".join(f"{count} {name}" for name, count in book.origins.items())
        console.print(f"schedules: {origins}", highlight=False)


def print_placements(compiled: CompiledNetwork) -> None:
    """Print which operators run on the CPU, and why."""
    from collections import Counter

    console = open_console()
    placed = compiled.placements
    taken = sum(p.where == "accelerator" for p in placed)
    console.print(f"{taken} of {len(placed)} operators on the accelerator", highlight=False)
    reasons = Counter((p.kind, p.reason) for p in placed if p.where != "accelerator")
    for (kind, reason), count in reasons.items():
        console.print(
            f"  CPU: {count} x {kind}: {reason}", highlight=False, markup=False, soft_wrap=True
        )


def _key(name: str) -> str:
    return "".join(c if c.isalnum() or c in "_-." else "_" for c in name) or "output"
