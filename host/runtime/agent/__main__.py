# SPDX-License-Identifier: Apache-2.0
"""``python -m tilewright.host.runtime.agent``: the agent on a board.

It is `tilewright agent --bitstream` and `tilewright agent init` without the packages of the command
line, and with nothing that Python 3.10 lacks, the Python of the PYNQ image
(docs/how-to/boards.md).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.printable import printable
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.runtime.agent.events import FORMS
from tilewright.host.runtime.agent.home import DEFAULT_ADDRESS, make_home
from tilewright.host.runtime.agent.limits import Limits, limits_of_options
from tilewright.host.runtime.agent.serving import (
    DEFAULT_GRACE_SECONDS,
    open_belongings,
    open_boards,
    serve_device,
)

_EXIT_USER_ERROR = 2
_MIB = 1 << 20


def main(arguments: list[str] | None = None) -> int:
    """Serve the board until SIGINT or SIGTERM, or ``init``; returns the exit status."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        if words[:1] == ["init"]:
            _init(words[1:])
        else:
            _serve(words)
    except TilewrightError as error:
        line = printable(" ".join(str(error).split()))
        print(f"error: {line}", file=sys.stderr)  # noqa: T201  (output)
        return _EXIT_USER_ERROR
    return 0


def _init(words: list[str]) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tilewright.host.runtime.agent init",
        description="Make an agent's token, its key and certificate, and a file for clients.",
    )
    parser.add_argument("folder", type=Path, help="what is there stays as it is")
    parser.add_argument("--address", default="", metavar="HOST:PORT", help="as clients see it")
    given = parser.parse_args(words)
    for line in make_home(given.folder, address=given.address).lines():
        print(printable(line))  # noqa: T201  (output)


def _serve(words: list[str]) -> None:
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
    parser.add_argument("--listen", default=DEFAULT_ADDRESS, metavar="HOST:PORT")
    parser.add_argument("--home", type=Path, help="folder that init made")
    parser.add_argument("--token-file", type=Path, help="shared secret; default: the home's")
    parser.add_argument(
        "--certificate", type=Path, help="PEM with key; default: the home's, or a new one"
    )
    parser.add_argument("--plain", action="store_true", help="no TLS, for this machine alone")
    parser.add_argument("--max-seconds", type=float, default=default.run_seconds)
    parser.add_argument("--max-program-mib", type=int, default=default.program_bytes // _MIB)
    parser.add_argument("--max-memory-mib", type=int, default=default.memory_bytes // _MIB)
    parser.add_argument("--lease-seconds", type=float, default=default.lease_seconds)
    parser.add_argument("--max-connections", type=int, default=default.connections)
    parser.add_argument("--grace-seconds", type=float, default=DEFAULT_GRACE_SECONDS)
    parser.add_argument("--log", choices=FORMS, default=FORMS[0], help="form of the log")
    given = parser.parse_args(words)
    belongings = open_belongings(given.home, given.token_file, given.certificate, plain=given.plain)
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
            belongings=belongings,
            limits=limits,
            board=board.name,
            digest=digest,
            grace_seconds=given.grace_seconds,
            log=given.log,
        )
    finally:
        device.close()


if __name__ == "__main__":
    sys.exit(main())
