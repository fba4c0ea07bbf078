# SPDX-License-Identifier: Apache-2.0
"""`tilewright run`: a compiled network on a simulator or a board."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from tilewright.cli.common import application
from tilewright.cli.common.arguments import (
    RtlOption,
    data_fields,
    read_board,
    read_memory,
    refuse_given,
    replacing,
    require_places,
    require_readable,
)
from tilewright.cli.common.json_output import JsonOption, JsonTarget, json_path
from tilewright.cli.common.options import from_fields
from tilewright.cli.common.parse_errors import UsageError
from tilewright.cli.common.progress import progress
from tilewright.cli.look import LookCommandOptions, Pictures, Site, look
from tilewright.cli.partition_tables import print_latency, print_timed_layers, table_conditions
from tilewright.host.common.errors import fields_named
from tilewright.host.common.names import counted
from tilewright.host.common.options import option
from tilewright.host.machine.fidelity import Fidelity
from tilewright.interface.options import NetworkDevice, RunOptions

if TYPE_CHECKING:
    from tilewright.host.compiler.pack.artefact import CompiledNetwork
    from tilewright.host.compiler.run.network_runner import NetworkRun
    from tilewright.host.machine.board import Board
    from tilewright.host.machine.hwconfig import HwConfig
    from tilewright.host.runtime.device import Device


_BOARD: Final = "On a board"
_OF_BOARDS: Final = ("agent", "bitstream", "token_file", "plain", "wait", "ip")
_OF_DATA: Final = (
    "data",
    "random_input",
    "seed",
    "mean",
    "std",
    "fit",
    "check",
    "output",
    "trusted",
)
_OF_RTL: Final = (NetworkDevice.RTL, NetworkDevice.DPI)
_OF_PICTURES: Final = ("task", "labels", "head", "score", "overlap", "camera", "frames", "draw")


def _bit_file(given: Path | None) -> Path | None:
    from tilewright.host.machine.bitstream import bit_file

    return None if given is None else bit_file(given)


@dataclass(frozen=True, kw_only=True)
class CommandOptions(LookCommandOptions, RunOptions):
    """What a run is of, and where, besides what Python says of it."""

    data: Path | None = option(
        None,
        "Image, .npy, or .npz with one array per input; to look at also a video or a folder of "
        "images.",
        flags=("--input",),
        metavar="FILE",
    )
    random_input: bool = option(
        False, "Run on seeded noise instead of an input.", flags=("--random",)
    )
    seed: int = option(0, "Seed of the noise.", low=0, metavar="SEED")
    cycles_only: bool = option(False, "Count cycles without data: --device twin.")
    output: Path | None = option(
        None, "Write the outputs to this .npz file.", flags=("--output", "-o"), metavar="FILE"
    )
    agent: str = option(
        "",
        "Address of the 'tilewright agent' that serves the board.",
        metavar="HOST:PORT",
        panel=_BOARD,
    )
    token_file: Path | None = option(
        None, "File with the shared secret of the agent.", metavar="FILE", panel=_BOARD
    )
    plain: bool = option(
        False,
        "Without TLS, for an agent on this machine that was started with --plain.",
        panel=_BOARD,
    )
    wait: float = option(
        0,
        "Seconds to wait while another client has the board.",
        low=0,
        metavar="SECONDS",
        panel=_BOARD,
    )
    bitstream: Path | None = option(
        None,
        "Bitstream to load, or its manifest, when this command runs on the board.",
        parse=_bit_file,
        metavar="FILE",
        panel=_BOARD,
    )
    ip: str = option("", "Name of the accelerator in the bitstream.", metavar="NAME", panel=_BOARD)


@application.app.command("run", cls=application.Command, rich_help_panel=application.COMMON)
@from_fields(CommandOptions)
def run_command(
    context: typer.Context,
    settings: CommandOptions,
    rtl: RtlOption = None,
    json: JsonOption = None,
) -> None:
    """Run a compiled network, check it bit-exact, and print cycles and where the time goes."""
    network, device = Path(str(settings.network)), str(settings.device)
    data, output = settings.data, settings.output
    require_readable(network, "NETWORK")
    if data is not None:
        require_readable(data, "--input")
    labels = settings.labels if isinstance(settings.labels, Path) else None
    if labels is not None:
        require_readable(labels, "--labels")
    require_places(
        {"NETWORK": network, "--input": data, "--labels": labels},
        {"--output": output, "--json": json_path(json), "--draw": _drawn_file(settings.draw)},
    )
    from tilewright.host.compiler.pack.artefact import load
    from tilewright.sim.devices import REFERENCE, open_simulated

    compiled = load(network)
    target = _target(compiled, settings.board, settings.bitstream)
    timing = read_memory(str(settings.memory), target)
    if device == Fidelity.TWIN and not settings.cycles_only:
        raise UsageError("the twin has no data", field="--device twin", remedy="add --cycles-only")
    if settings.cycles_only:
        if device != Fidelity.TWIN:
            raise UsageError("needs the twin", field="--cycles-only", remedy="add --device twin")
        refuse_given(
            context,
            (*_OF_DATA, *_OF_PICTURES, *_OF_BOARDS, "rtl"),
            "is for a run with data, not --cycles-only",
        )
        layers = print_timed_layers(compiled, timing, target)
        if json is not None:
            json.write(layers, table_conditions(compiled, timing, target))
        return
    _refuse_without_effect(context, settings)
    if rtl is not None and device not in _OF_RTL:
        raise UsageError(
            f"is built for {' and '.join(_OF_RTL)}, not for {device}",
            field="--rtl",
            value=rtl,
            remedy="leave it out, or choose another --device",
        )
    pictures = _pictures(context, compiled, settings)
    inputs = {} if pictures else _inputs(compiled, settings)
    is_board = device == Fidelity.BOARD
    site = Site(
        compiled=compiled,
        target=target,
        memory=timing,
        where=f"board {settings.agent or 'of this machine'}"
        if is_board
        else f"{device}, memory {timing.name}" + (f", RTL {rtl}" if rtl else ""),
        is_board=is_board,
        checked=settings.check and device != REFERENCE and settings.camera is None,
        blame=application.blame(rtl),
        conditions={
            **table_conditions(compiled, timing, target),
            "fidelity": device,
            "input": "random" if settings.random_input else str(data),
            "seed": settings.seed,
            "rtl": str(rtl or ""),
        },
        json=json,
    )
    if is_board:
        opened = open_board_device(compiled.hw, target, settings)
    else:
        with progress(f"building {compiled.hw.name} in Verilator", quiet=json is not None):
            opened = open_simulated(device, compiled.hw, timing)
    with closing(opened):
        if pictures is not None:
            look(site, opened, settings, pictures)
        else:
            _run_once(site, opened, inputs, settings)


def _drawn_file(draw: Path | None) -> Path | None:
    """The file that one picture is drawn into; None: nothing is drawn, or into a folder."""
    return draw if draw is not None and draw.suffix.lower() == ".png" else None


def _run_once(site: Site, device: Device, inputs: dict[str, Any], settings: CommandOptions) -> None:
    """Run on one batch of tensors, and compare with the reference."""
    from tilewright.host.compiler.run.runtime import differing_elements, run_network, save_outputs
    from tilewright.sim.devices import REFERENCE, open_simulated

    compiled, output = site.compiled, settings.output
    with progress(f"{compiled.name} on {site.where}", quiet=site.quiet):
        run = run_network(compiled, device, inputs, trusted=settings.trusted)
    title = f"{compiled.name} on {compiled.hw.name}, {site.where}"
    verb = "ran" if site.is_board else "simulated"
    print_run(run, compiled, site.target, title=title, verb=verb)
    if output is not None:
        with replacing(output):
            save_outputs(run.outputs, output)
        application.open_console().say(f"saved {output}")
    wrong: dict[str, int] | None = None
    if site.checked:
        with (
            closing(open_simulated(REFERENCE, compiled.hw, site.memory)) as reference,
            progress(f"{compiled.name} on the reference", quiet=site.quiet),
        ):
            expected = run_network(compiled, reference, inputs, trusted=settings.trusted)
        wrong = differing_elements(run, expected)
    if site.json is not None:
        _write(site.json, run, wrong, site.conditions)
    _tell_check(wrong, site.blame)


def _target(compiled: CompiledNetwork, board: Any, bitstream: Path | None) -> Board:
    """The board to run on, at the clock of the bitstream that it loads."""
    from tilewright.host.compiler.pack.target import target_board
    from tilewright.host.machine.board import board_with_bitstream

    target = read_board(str(board)) if board else target_board(compiled)
    return board_with_bitstream(target, bitstream)


def _write(
    json: JsonTarget, run: NetworkRun, wrong: dict[str, int] | None, conditions: dict[str, Any]
) -> None:
    """Write the outputs of a run as rows; ``wrong`` is None when nothing was compared."""
    rows = [
        {
            "output": name,
            "dtype": str(array.dtype),
            "shape": list(array.shape),
            "wrong_elements": None if wrong is None else wrong[name],
        }
        for name, array in run.outputs.items()
    ]
    summary = {
        "cycles": run.cycles,
        "cpu_seconds": run.cpu_seconds,
        "simulation_seconds": sum(result.host_seconds for result in run.results),
    }
    json.write(rows, conditions, summary=summary)


def _refuse_without_effect(context: typer.Context, settings: CommandOptions) -> None:
    """Refuse options that do nothing on a device."""
    device, bitstream = settings.device, settings.bitstream
    if settings.data is not None:
        refuse_given(context, ("seed",), "is of --random")
    if device != Fidelity.BOARD:
        refuse_given(context, _OF_BOARDS, "needs a board", remedy="add --device board")
    elif settings.agent and bitstream is None:
        refuse_given(context, ("ip",), "is of --bitstream; the agent has chosen the accelerator")
    elif bitstream is not None and not settings.agent:
        refuse_given(context, ("token_file", "plain", "wait"), "is of --agent")
    if device == Fidelity.BOARD:
        refuse_given(context, ("memory",), "is for a simulation; a board has a memory of its own")
    if device == NetworkDevice.REFERENCE:
        refuse_given(context, ("memory",), "needs a device with time, not the reference")
        if settings.check:
            refuse_given(context, ("check",), "compares with the reference, which this run is")


def _pictures(
    context: typer.Context, compiled: CompiledNetwork, settings: CommandOptions
) -> Pictures | None:
    """The pictures to look at; None: the run is of tensors."""
    from tilewright.host.compiler.run.picture_network import stated_task
    from tilewright.host.vision.pictures import has_pictures

    data = settings.data
    states = bool(stated_task(compiled)[0]) and data is not None and has_pictures(data)
    if not settings.asked and not (states and settings.output is None):
        refuse_given(context, _OF_PICTURES, "is of --task", remedy="add --task")
        return None
    refuse_given(
        context, ("random_input", "output"), "is for tensors, not for pictures that are looked at"
    )
    return Pictures.of(data, settings)


def _inputs(compiled: CompiledNetwork, settings: CommandOptions) -> dict[str, Any]:
    """One batch of what a network takes, from a file or of noise."""
    from tilewright.host.compiler.read.calibration import Calibration

    data, random_input = settings.data, settings.random_input
    if (data is None) == (not random_input):
        raise UsageError(
            "give one of --input and --random",
            field="--input, --random",
            remedy="--random is noise: good for timing",
        )
    from tilewright.interface.networks import scaled_as_compiled

    with fields_named(data_fields("--random" if random_input else "--input")):
        source = Calibration(
            path=data, random_samples=1 if random_input else None, seed=settings.seed
        )
        source = scaled_as_compiled(source, compiled, settings)
        batches = source.batches(compiled.inputs)
        inputs = next(batches)
        if next(batches, None) is not None:
            raise UsageError(
                "holds more samples than the network takes at once",
                field="--input",
                value=str(data),
                remedy="give one image, or arrays with as many samples as the network's batch",
            )
    return inputs


def _tell_check(wrong: dict[str, int] | None, blame: str) -> None:
    """Say how the outputs compare with the reference."""
    if wrong is None:
        return
    if any(wrong.values()):
        application.fail_wrong(f"elements that differ from the reference: {wrong}", blame)
    application.open_console().say("outputs: bit-exact to the reference")


def print_run(
    run: NetworkRun, compiled: CompiledNetwork, target: Board, *, title: str, verb: str
) -> None:
    """Print what a run took, and the largest elements of its outputs."""
    import numpy as np

    console = application.open_console()
    if run.cycles:
        milliseconds = run.cycles / (target.clock_mhz * 1e3)
        seconds = sum(result.host_seconds for result in run.results)
        console.say(
            f"{title}: {run.cycles:,} cycles on the accelerator, {milliseconds:.2f} ms at "
            f"{target.clock_text(compiled.hw.config_hash)}; "
            f"{verb} in {seconds:.{1 if verb == 'simulated' else 4}f} s "
            f"({run.cycles / max(seconds, 1e-9) / 1e6:.2f} M cycles/s)"
        )
    console.say(
        f"CPU operators: {1e3 * run.cpu_seconds:.1f} ms on this machine; "
        f"{counted(len(run.results), 'program')} of the accelerator"
    )
    print_latency(compiled, target, run.cycles)
    for name, array in run.outputs.items():
        flat = np.asarray(array).reshape(-1)
        order = np.argsort(-flat.astype(np.float64), kind="stable")
        most = ", ".join(f"[{i}] {flat[i]:.4g}" for i in order[:5])
        console.say(f"{name}: {array.dtype} {list(array.shape)}; largest {most}")


def open_board_device(hw: HwConfig, board: Board, settings: CommandOptions) -> Device:
    """The board that an agent serves, or the one that this command runs on."""
    agent, bitstream = settings.agent, settings.bitstream
    if bool(agent) == (bitstream is not None):
        raise UsageError(
            "give one of --agent and --bitstream",
            field="--device board",
            remedy="--agent is a board elsewhere, --bitstream this one",
        )
    if bitstream is not None:
        from tilewright.host.runtime.agent.serving import open_board

        return open_board(hw, board, bitstream, ip=settings.ip)
    if settings.token_file is None:
        raise UsageError(
            "needs the agent's secret", field="--agent", remedy="add --token-file FILE"
        )
    from tilewright.host.runtime.agent.authentication import read_token
    from tilewright.host.runtime.agent.client import RemoteDevice

    token = read_token(settings.token_file)
    return RemoteDevice(agent, token, wait_seconds=settings.wait, plain=settings.plain)
