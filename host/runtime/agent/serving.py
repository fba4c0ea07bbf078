# SPDX-License-Identifier: Apache-2.0
"""Open the device of a board and serve it: what the commands that run on the board share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.bitstream import BitstreamManifest
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.runtime.agent.authentication import read_token
from tilewright.host.runtime.agent.events import log_to_stderr
from tilewright.host.runtime.agent.home import JOURNAL, identity_file, token_file
from tilewright.host.runtime.agent.journal import Journal
from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.server import AgentServer, serve_until_signal
from tilewright.host.runtime.agent.tls import Identity, load_identity, make_identity
from tilewright.host.runtime.bitstreams import (
    ReconfigurableDevice,
    bit_file,
    file_digest,
    read_bitstreams,
)
from tilewright.host.runtime.device import Device
from tilewright.host.runtime.polled_device import DEFAULT_MAX_SECONDS
from tilewright.host.runtime.pynq_device import PynqDevice


def open_board(
    hw: HwConfig,
    board: Board,
    bitstream: Path,
    *,
    ip: str = "",
    max_seconds: float = DEFAULT_MAX_SECONDS,
) -> PynqDevice:
    """Load a bitstream on this board and open its accelerator."""
    return PynqDevice(
        hw,
        bitstream=bitstream,
        ip=ip,
        coherent=board.coherent,
        memory_limit=int(board.cpu.contiguous_bytes),
        max_seconds=max_seconds,
    )


def open_boards(
    hw: HwConfig,
    board: Board,
    bitstream: Path | None,
    folder: Path | None,
    *,
    ip: str = "",
    max_seconds: float = DEFAULT_MAX_SECONDS,
) -> tuple[Device, str]:
    """Open this board with one bitstream, or with a folder of them."""
    if bitstream is not None:
        return (
            open_board(hw, board, bitstream, ip=ip, max_seconds=max_seconds),
            file_digest(bitstream),
        )
    assert folder is not None, "one of both is given"
    return (
        open_bitstreams(
            folder,
            hw,
            lambda each: open_board(
                each.hw, board, bit_file(each)[0], ip=ip, max_seconds=max_seconds
            ),
        ),
        "",
    )


def open_bitstreams(
    folder: Path, start: HwConfig, open_one: Callable[[BitstreamManifest], Device]
) -> ReconfigurableDevice:
    """Open a device that loads whichever bitstream of a folder a client asks for."""
    return ReconfigurableDevice(read_bitstreams(folder), f"{start.config_hash:08x}", open_one)


@dataclass(frozen=True, kw_only=True)
class Belongings:
    """What an agent has besides its device."""

    token: bytes = field(repr=False)  # shared secret
    identity: Identity | None  # for TLS; None: no TLS
    journal: Journal | None  # keeps results until they arrived; None: nothing does


def open_belongings(
    home: Path | None, token: Path | None, certificate: Path | None, *, plain: bool
) -> Belongings:
    """Open the files of an agent."""
    if home is None and token is None:
        raise ConfigError(
            "give one of --home and --token-file",
            field="agent",
            remedy="tilewright agent init FOLDER makes a home",
        )
    if plain and certificate is not None:
        raise ConfigError("give one of --certificate and --plain", field="agent")
    if home is not None:
        token = token or token_file(home)
        certificate = certificate or identity_file(home)
    assert token is not None, "one of both is given"
    secret = read_token(token)
    identity = None
    if not plain:
        identity = make_identity() if certificate is None else load_identity(certificate)
    return Belongings(
        token=secret,
        identity=identity,
        journal=None if home is None else Journal(home / JOURNAL),
    )


def serve_device(
    device: Device,
    *,
    listen: str,
    belongings: Belongings,
    limits: Limits,
    max_cycles: int = 0,
    board: str = "",
    digest: str = "",
    grace_seconds: float = 30,
    log: str = "text",
) -> None:
    """Serve a device until SIGINT or SIGTERM; says where it listens. The device stays open."""
    server = AgentServer(
        device,
        listen=listen,
        token=belongings.token,
        identity=belongings.identity,
        journal=belongings.journal,
        limits=limits,
        max_cycles=max_cycles,
        board=board,
        digest=digest,
    )
    log_to_stderr(log)

    def ready(address: str) -> None:
        print(f"{device.hw.name} at {address}", flush=True)  # noqa: T201  (the command's output)

    serve_until_signal(server, ready, grace_seconds=grace_seconds)
