# SPDX-License-Identifier: Apache-2.0
"""``python -m tilewright.host.runtime.agent``: the agent on a board.

It is `tilewright agent --bitstream` without the packages of the command line, and with nothing
that Python 3.10 lacks, the Python of the PYNQ image (docs/how-to/boards.md).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.printable import printable
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.runtime.agent.authentication import read_token
from tilewright.host.runtime.agent.limits import Limits, limits_of_options
from tilewright.host.runtime.agent.serving import (
    DEFAULT_LISTEN,
    open_boards,
    open_identity,
    serve_device,
)

_EXIT_USER_ERROR = 2
_MIB = 1 << 20


def main(arguments: list[str] | None = None) -> int:
    """Serve the board until SIGINT or SIGTERM; returns the exit status."""
    default = Limits()
    parser = argparse.ArgumentParser(
        prog="python -m tilewright.host.runtime.agent",
        description="Serve the accelerator of this board to one client at a time.",
    )
    parser.add_argument("--hw", required=True, help="named configuration or YAML file")
    loaded = parser.add_mutually_exclusive_group(required=True)
    loaded.add_argument("--bitstream", type=Path, help="file to load")
    loaded.add_argument("--bitstreams", type=Path, help="folder that clients choose from")
    parser.add_argument("--ip", default="", help="name of the accelerator in the bitstream")
    parser.add_argument("--board", default="pynq-z2", help="board by name or YAML file")
    parser.add_argument("--listen", default=DEFAULT_LISTEN, metavar="HOST:PORT")
    parser.add_argument("--token-file", required=True, type=Path, help="shared secret")
    parser.add_argument("--certificate", type=Path, help="PEM with key; default: a new one")
    parser.add_argument("--plain", action="store_true", help="no TLS, for this machine alone")
    parser.add_argument("--max-seconds", type=float, default=default.run_seconds)
    parser.add_argument("--max-program-mib", type=int, default=default.program_bytes // _MIB)
    parser.add_argument("--max-memory-mib", type=int, default=default.memory_bytes // _MIB)
    parser.add_argument("--lease-seconds", type=float, default=default.lease_seconds)
    parser.add_argument("--max-connections", type=int, default=default.connections)
    given = parser.parse_args(arguments)
    try:
        token = read_token(given.token_file)
        identity = open_identity(given.certificate, plain=given.plain)
        limits = limits_of_options(
            max_seconds=given.max_seconds,
            max_program_mib=given.max_program_mib,
            max_memory_mib=given.max_memory_mib,
            lease_seconds=given.lease_seconds,
            max_connections=given.max_connections,
        )
        device, digest = open_boards(
            load_hwconfig(given.hw),
            board := load_board(given.board),
            given.bitstream,
            given.bitstreams,
            ip=given.ip,
            max_seconds=limits.run_seconds,
        )
        try:
            serve_device(
                device,
                listen=given.listen,
                token=token,
                identity=identity,
                limits=limits,
                board=board.name,
                digest=digest,
            )
        finally:
            device.close()
    except TilewrightError as error:
        line = printable(" ".join(str(error).split()))
        print(f"error: {line}", file=sys.stderr)  # noqa: T201  (output)
        return _EXIT_USER_ERROR
    return 0


if __name__ == "__main__":
    sys.exit(main())
