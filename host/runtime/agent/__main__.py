# SPDX-License-Identifier: Apache-2.0
"""``python -m tilewright.host.runtime.agent``: the agent on a board.

It is `tilewright agent --bitstream` and `tilewright agent init` without the packages of the command
line, and with nothing that Python 3.10 lacks, the Python of the PYNQ image
(docs/how-to/boards.md).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import Field, fields
from pathlib import Path
from typing import Any, get_args

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.options import kind_of, option_of
from tilewright.host.common.printable import printable
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.runtime.agent.home import make_home
from tilewright.host.runtime.agent.options import AgentOptions, LogForm
from tilewright.host.runtime.agent.serving import open_belongings, open_boards, serve_device

_EXIT_USER_ERROR = 2


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
    parser = argparse.ArgumentParser(
        prog="python -m tilewright.host.runtime.agent",
        description="Serve the accelerator of this board to one client at a time.",
    )
    for each in fields(AgentOptions):
        _add(parser, each)
    given = AgentOptions(**vars(parser.parse_args(words)))
    if (given.bitstream is None) == (given.bitstreams is None):
        parser.error("give one of --bitstream and --bitstreams")
    belongings = open_belongings(given.home, given.token_file, given.certificate, plain=given.plain)
    limits = given.limits()
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


def _add(parser: argparse.ArgumentParser, field: Field[Any]) -> None:
    """The option of a field."""
    told, kind = option_of(field), kind_of(AgentOptions, field)
    more: dict[str, Any] = {"default": field.default, "help": told.help}
    if kind is bool:
        more["action"] = "store_true"
    elif kind is LogForm:
        more["choices"] = [form.value for form in LogForm]
    else:
        more |= {"type": (get_args(kind) or (kind,))[0], "metavar": told.metavar}
    name = f"--{field.name.replace('_', '-')}"
    parser.add_argument(name, required=field.name == "hw", **more)


if __name__ == "__main__":
    sys.exit(main())
