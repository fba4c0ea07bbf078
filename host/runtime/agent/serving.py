# SPDX-License-Identifier: Apache-2.0
"""Open the device of a board and serve it: what the commands that run on the board share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.bitstream import BitstreamManifest
from tilewright.host.machine.board import Board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.server import AgentServer, log_to_stderr, serve_until_signal
from tilewright.host.runtime.agent.tls import Identity, load_identity, make_identity
from tilewright.host.runtime.bitstreams import (
    ReconfigurableDevice,
    bit_file,
    file_digest,
    read_bitstreams,
)
from tilewright.host.runtime.device import Device
from tilewright.host.runtime.pynq_device import DEFAULT_MAX_SECONDS, PynqDevice

DEFAULT_LISTEN = "127.0.0.1:7425"


def open_board(
    hw: HwConfig,
    board: Board,
    bitstream: Path,
    *,
    ip: str = "",
    max_seconds: float = DEFAULT_MAX_SECONDS,
) -> PynqDevice:
    """Load a bitstream on this board and open its accelerator.

    Args:
        hw: the configuration that it was built for.
        board: says whether its memory port is coherent, and how much contiguous memory it has.
        bitstream: file that pynq loads.
        ip: see `PynqDevice`.
        max_seconds: longest run.

    Raises:
        ToolError, ConfigError, DeviceError: see `PynqDevice`.
    """
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
    """Open this board with one bitstream, or with a folder of them.

    Args:
        hw: configuration of ``bitstream``, or the one of the folder to begin with.
        board: see `open_board`.
        bitstream: the only one; or
        folder: of bitstreams and their manifests.
        ip: see `PynqDevice`.
        max_seconds: longest run.

    Returns:
        The device, and the digest of its only bitstream (empty for a folder).

    Raises:
        ToolError, ConfigError, DeviceError: see `open_board` and `open_bitstreams`.
    """
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
    """Open a device that loads whichever bitstream of a folder a client asks for.

    Args:
        folder: of bitstreams and their manifests.
        start: the configuration to begin with.
        open_one: loads a bitstream.

    Raises:
        ConfigError: the folder cannot be used, or has no bitstream of ``start``.
    """
    return ReconfigurableDevice(read_bitstreams(folder), f"{start.config_hash:08x}", open_one)


def open_identity(certificate: Path | None, *, plain: bool) -> Identity | None:
    """What an agent shows to its clients: that of a file, a new one, or None without TLS.

    Raises:
        ConfigError: the file cannot be used, or both were given.
        ToolError: see `make_identity`.
    """
    if plain and certificate is not None:
        raise ConfigError("give one of --certificate and --plain", field="agent")
    if plain:
        return None
    return make_identity() if certificate is None else load_identity(certificate)


def serve_device(
    device: Device,
    *,
    listen: str,
    token: bytes,
    identity: Identity | None,
    limits: Limits,
    max_cycles: int = 0,
    board: str = "",
    digest: str = "",
) -> None:
    """Serve a device until SIGINT or SIGTERM; says where it listens. The device stays open.

    The arguments are those of `AgentServer`.

    Raises:
        ConfigError: the address cannot be used.
    """
    server = AgentServer(
        device,
        listen=listen,
        token=token,
        identity=identity,
        limits=limits,
        max_cycles=max_cycles,
        board=board,
        digest=digest,
    )
    log_to_stderr()

    def ready(address: str) -> None:
        print(f"{device.hw.name} at {address}", flush=True)  # noqa: T201  (the command's output)

    serve_until_signal(server, ready)
