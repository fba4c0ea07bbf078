# SPDX-License-Identifier: Apache-2.0
"""`tilewright agent`: serve a device to other machines."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tilewright.cli.application import BOARDS, UsageError, app
from tilewright.cli.arguments import HwOption, read_board, read_memory
from tilewright.host.machine.fidelity import Fidelity

if TYPE_CHECKING:
    from tilewright.host.machine.board import MemoryModel
    from tilewright.host.machine.hwconfig import HwConfig

_REFERENCE_TILES_PER_SECOND: Final = 50_000
"""The reference knows no seconds: what it surely does in one bounds its runs."""


class ServedDevice(StrEnum):
    """What `agent` serves in the place of a board."""

    SIMULATED_BOARD = "simulated-board"
    RTL = Fidelity.RTL
    DPI = Fidelity.DPI
    REFERENCE = "reference"


@app.command(rich_help_panel=BOARDS)
def agent(
    token_file: Annotated[
        Path, typer.Option(help="File with the shared secret, readable by its owner alone.")
    ],
    hw: HwOption = "pynq-16x16",
    bitstream: Annotated[
        Path | None,
        typer.Option(help="On a board: bitstream to load, with its .hwh file beside it."),
    ] = None,
    bitstreams: Annotated[
        Path | None,
        typer.Option(
            help="Folder of bitstreams and their manifests: clients choose the configuration. "
            "Simulations build it; --hw names the first."
        ),
    ] = None,
    ip: Annotated[
        str, typer.Option(help="Name of the accelerator in the bitstream, if not found by itself.")
    ] = "",
    device: Annotated[
        ServedDevice | None,
        typer.Option(
            help="What to serve without a board: simulated-board (the board's runtime on the RTL), "
            "rtl (the RTL in Verilator), dpi (its data in C++) or reference (NumPy)."
        ),
    ] = None,
    board: Annotated[
        str, typer.Option(help="Board whose caches and contiguous memory count.")
    ] = "pynq-z2",
    memory: Annotated[
        str, typer.Option(help="DRAM of a simulation: 'board', 'ideal', a board or a YAML file.")
    ] = "board",
    noise_seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Give the DRAM of a simulated board a timing that differs from run to run.",
        ),
    ] = None,
    listen: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Address to listen on; port 0 takes any free port."),
    ] = "127.0.0.1:7425",
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="PEM file with private key and certificate for TLS, readable by its owner alone; "
            "default: the agent makes a new one."
        ),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Serve without TLS, to clients of this machine alone.")
    ] = False,
    max_seconds: Annotated[float, typer.Option(help="Longest run, in seconds.")] = 60,
    max_program_mib: Annotated[
        int, typer.Option(help="Most MiB of a program's instructions and constants.")
    ] = 128,
    max_memory_mib: Annotated[int, typer.Option(help="Most MiB of a program's memory.")] = 128,
    lease_seconds: Annotated[
        float, typer.Option(help="Seconds of silence after which a client loses the device.")
    ] = 30,
    max_connections: Annotated[
        int, typer.Option(help="Most clients at a time; waiting ones count.")
    ] = 64,
) -> None:
    """Serve a board, or a simulation, to one client at a time, until Ctrl-C.

    Agent and clients prove to each other that they know the token, and speak TLS 1.3 alone, bound
    to that proof: no certificate has to be copied.
    """
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.host.runtime.agent.authentication import read_token
    from tilewright.host.runtime.agent.limits import limits_of_options
    from tilewright.host.runtime.agent.serving import (
        open_bitstreams,
        open_boards,
        open_identity,
        serve_device,
    )

    if bitstream is not None and (device is not None or bitstreams is not None):
        raise UsageError("give --bitstream alone", field="--bitstream")
    if bitstream is None and bitstreams is None and device is None:
        raise UsageError(
            "give one of --bitstream, --bitstreams and --device", field="--bitstream, --device"
        )
    if noise_seed is not None and device is not ServedDevice.SIMULATED_BOARD:
        raise UsageError("needs --device simulated-board", field="--noise-seed")
    token = read_token(token_file)
    identity = open_identity(certificate, plain=plain)
    limits = limits_of_options(
        max_seconds=max_seconds,
        max_program_mib=max_program_mib,
        max_memory_mib=max_memory_mib,
        lease_seconds=lease_seconds,
        max_connections=max_connections,
    )
    config, target = load_hwconfig(hw), read_board(board)
    served: Any
    digest = ""
    if device is None:
        served, digest = open_boards(
            config, target, bitstream, bitstreams, ip=ip, max_seconds=max_seconds
        )
    else:
        kind, dram = device, read_memory(memory, board)

        def opened(hw: HwConfig) -> Any:
            return _open(kind, hw, dram, target, max_seconds, noise_seed)

        if bitstreams is None:
            served, digest = opened(config), _simulated_digest(kind)
        else:
            served = open_bitstreams(bitstreams, config, lambda each: opened(each.hw))
    cycles = int(max_seconds * _REFERENCE_TILES_PER_SECOND)
    try:
        serve_device(
            served,
            listen=listen,
            token=token,
            identity=identity,
            limits=limits,
            max_cycles=cycles if device is ServedDevice.REFERENCE else 0,
            board=target.name,
            digest=digest,
        )
    finally:
        served.close()


def _simulated_digest(kind: ServedDevice) -> str:
    """What stands for a bitstream's digest: the device and the RTL that it runs."""
    from tilewright.tuner.measure.oracle import rtl_identity

    return f"{kind.value}-{rtl_identity()}"


def _open(
    kind: ServedDevice,
    hw: HwConfig,
    memory: MemoryModel,
    board: Any,
    max_seconds: float,
    noise_seed: int | None,
) -> Any:
    if kind is ServedDevice.REFERENCE:
        from tilewright.sim.reference.device import ReferenceDevice

        return ReferenceDevice(hw)
    if kind is ServedDevice.SIMULATED_BOARD:
        from tilewright.sim.verilator.build import build_model
        from tilewright.sim.verilator.pynq_simulation import SimulatedBoard

        return SimulatedBoard(
            hw,
            memory,
            build_model(hw),
            coherent=board.coherent,
            contiguous_bytes=int(board.cpu.contiguous_bytes),
            memory_limit=int(board.cpu.contiguous_bytes),
            max_seconds=max_seconds,
            noise_seed=noise_seed,
        )
    from tilewright.sim.verilator.device import VerilatorDevice

    return VerilatorDevice(hw, memory, fidelity=Fidelity(kind.value), max_seconds=max_seconds)
