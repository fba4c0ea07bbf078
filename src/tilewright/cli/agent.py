# SPDX-License-Identifier: Apache-2.0
"""`tilewright agent`: serve a device to other machines, and look after those who do."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tilewright.cli.common.application import BOARDS, EXIT_CHECK_FAILED, Group, app, open_console
from tilewright.cli.common.arguments import read_board, read_memory
from tilewright.cli.common.json_output import JsonOption
from tilewright.cli.common.options import from_fields
from tilewright.cli.common.parse_errors import UsageError
from tilewright.host.common.errors import TilewrightError, fields_named
from tilewright.host.common.printable import printable
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.runtime.agent.options import AgentOptions

if TYPE_CHECKING:
    from tilewright.host.machine.board import MemoryModel
    from tilewright.host.machine.hwconfig import HwConfig
    from tilewright.host.runtime.agent.health import AgentStatus

agent_app = typer.Typer(cls=Group)
app.add_typer(agent_app, name="agent", rich_help_panel=BOARDS)

_REFERENCE_TILES_PER_SECOND: Final = 50_000
"""The reference knows no seconds: what it surely does in one bounds its runs."""


class ServedDevice(StrEnum):
    """What `agent` serves in the place of a board."""

    SIMULATED_BOARD = "simulated-board"
    RTL = Fidelity.RTL
    DPI = Fidelity.DPI
    REFERENCE = "reference"


@agent_app.callback(invoke_without_command=True)
@from_fields(AgentOptions)
def agent(
    context: typer.Context,
    settings: AgentOptions,
    device: Annotated[
        ServedDevice | None,
        typer.Option(
            help="What to serve without a board: simulated-board (the board's runtime on the RTL), "
            "rtl (the RTL in Verilator), dpi (its data in C++) or reference (NumPy)."
        ),
    ] = None,
    memory: Annotated[
        str,
        typer.Option(
            metavar="MEMORY", help="DRAM of a simulation: 'board', 'ideal', a board or a YAML file."
        ),
    ] = "board",
    noise_seed: Annotated[
        int | None,
        typer.Option(
            metavar="SEED",
            min=0,
            help="Give the DRAM of a simulated board a timing that differs from run to run.",
        ),
    ] = None,
) -> None:
    """Serve a board, or a simulation, to one client at a time, until Ctrl-C.

    Agent and clients prove to each other that they know the token, and speak TLS 1.3 alone, bound
    to that proof: no certificate has to be copied.
    """
    from tilewright.host.machine.bitstream import bit_file
    from tilewright.host.machine.hwconfig import load_hwconfig
    from tilewright.host.runtime.agent.serving import (
        open_belongings,
        open_bitstreams,
        open_boards,
        serve_device,
    )

    if context.invoked_subcommand is not None:
        return

    bitstream = None if settings.bitstream is None else bit_file(settings.bitstream)
    bitstreams = settings.bitstreams
    if bitstream is not None and (device is not None or bitstreams is not None):
        raise UsageError(
            "give --bitstream alone",
            field="--bitstream",
            remedy="leave --bitstreams and --device out",
        )
    if bitstream is None and bitstreams is None and device is None:
        raise UsageError(
            "give one of --bitstream, --bitstreams and --device",
            field="--bitstream, --device",
            remedy="--device simulated-board needs no board",
        )
    if noise_seed is not None and device is not ServedDevice.SIMULATED_BOARD:
        raise UsageError(
            "needs --device simulated-board", field="--noise-seed", remedy="leave it out"
        )
    belongings = open_belongings(
        settings.home, settings.token_file, settings.certificate, plain=settings.plain
    )
    limits = settings.limits()
    config, target = load_hwconfig(settings.hw), read_board(settings.board)
    served: Any
    digest = ""
    if device is None:
        served, digest = open_boards(
            config, target, bitstream, bitstreams, ip=settings.ip, max_seconds=limits.run_seconds
        )
    else:
        kind, dram = device, read_memory(memory, settings.board)

        def opened(hw: HwConfig) -> Any:
            return _open(kind, hw, dram, target, limits.run_seconds, noise_seed)

        if bitstreams is None:
            served, digest = opened(config), _simulated_digest(kind)
        else:
            served = open_bitstreams(bitstreams, config, lambda each: opened(each.hw))
    cycles = int(limits.run_seconds * _REFERENCE_TILES_PER_SECOND)
    try:
        serve_device(
            served,
            listen=settings.listen,
            belongings=belongings,
            limits=limits,
            max_cycles=cycles if device is ServedDevice.REFERENCE else 0,
            board=target.name,
            digest=digest,
            grace_seconds=settings.grace_seconds,
            log=settings.log,
        )
    finally:
        served.close()


@agent_app.command()
def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER", help="The agent's home: made as needed; what is there stays."
        ),
    ],
    address: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT",
            help="Where clients reach the agent; default: 127.0.0.1:7425, or what is there.",
        ),
    ] = "",
) -> None:
    """Make an agent's token, its private key and certificate, and a file for its clients.

    Only their owner may read them. A file that is there is checked and never changed.
    """
    from tilewright.host.runtime.agent.home import make_home

    console = open_console()
    with fields_named({"address": "--address"}):
        home = make_home(folder, address=address)
    for line in home.lines():
        console.print(printable(line), highlight=False, markup=False, soft_wrap=True)


@agent_app.command()
def status(
    hosts: Annotated[
        list[str] | None, typer.Argument(metavar="HOST:PORT...", help="Agents to ask.")
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Their token, or the file for clients of 'agent init'."),
    ] = None,
    pool: Annotated[
        Path | None,
        typer.Option("--boards", metavar="POOL", help="Ask the agents of a pool instead."),
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="Without TLS, as the agents do on this machine.")
    ] = False,
    json: JsonOption = None,
) -> None:
    """Ask agents how they are; exit code 1 if one does not answer.

    It takes the device from nobody, and waits for nobody.
    """
    from tilewright.host.common.print_table import print_table
    from tilewright.host.runtime.agent.authentication import read_token
    from tilewright.host.runtime.agent.reach import ask_status
    from tilewright.host.runtime.board_pool import BoardAddress, load_board_pool

    if bool(hosts) == (pool is not None):
        raise UsageError(
            "give agents, or --boards alone",
            field="HOST:PORT, --boards",
            remedy="an agent is named as in 127.0.0.1:7425",
        )
    if pool is not None:
        for given, option in ((token_file is not None, "--token-file"), (plain, "--plain")):
            if given:
                raise UsageError(
                    "goes without --boards: each entry of a pool has its own",
                    field=option,
                    remedy="leave it out",
                )
        addresses = load_board_pool(pool)
    elif token_file is None:
        raise UsageError(
            "must be given with HOST:PORT",
            field="--token-file",
            remedy="name a file that 'tilewright agent init' has made",
        )
    else:
        addresses = tuple(
            BoardAddress(name=host, agent=host, token_file=token_file, plain=plain)
            for host in hosts or ()
        )
    found: list[tuple[str, AgentStatus | str]] = []
    for each in addresses:
        try:
            token = read_token(each.token_file)
            with fields_named({"agent": "HOST:PORT"}):
                answer: AgentStatus | str = ask_status(each.agent, token, plain=each.plain)
        except TilewrightError as error:
            answer = str(error)
        found.append((each.name, answer))
    console = open_console()
    print_table(_status_table(found), console)
    for name, answer in found:
        trouble = answer if isinstance(answer, str) else answer.last_error
        if trouble:
            what = "no answer" if isinstance(answer, str) else "last error"
            text = printable(f"{name}: {what}: {trouble}")
            console.print(text, highlight=False, markup=False, soft_wrap=True)
    if json is not None:
        json.write(
            [
                {"agent": name, "answers": False, "error": answer}
                if isinstance(answer, str)
                else {"agent": name, "answers": True, **answer.to_fields()}
                for name, answer in found
            ],
            {},
        )
    if any(isinstance(answer, str) for _, answer in found):
        raise typer.Exit(EXIT_CHECK_FAILED)


def _status_table(found: list[tuple[str, AgentStatus | str]]) -> Any:
    from rich.text import Text

    from tilewright.host.common.print_table import plain_table

    texts = ("agent", "device", "version", "configuration", "board")
    table = plain_table(*texts, "waiting", "trials", "up, h", "°C", left=len(texts))
    for name, status in found:
        if isinstance(status, str):
            table.add_row(Text(printable(name)), "no answer")
            continue
        state = "closing" if status.closing else "leased" if status.leased else "free"
        table.add_row(
            Text(printable(name)),
            state,
            Text(status.version),
            Text(f"{status.hw} {status.config_hash}"),
            Text(status.board),
            f"{status.waiting:,}",
            f"{status.trials:,}",
            f"{status.uptime_seconds / 3600:.1f}",
            "" if status.temperature is None else f"{status.temperature:.0f}",
        )
    return table


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
