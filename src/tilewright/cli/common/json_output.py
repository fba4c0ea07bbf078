# SPDX-License-Identifier: Apache-2.0
"""`--json FILE`: the rows of a table for programs, in the shape of `host.common.result_document`.

With ``--json -`` standard output holds the document alone. What is printed for people then goes to
standard error.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TextIO

import typer

from tilewright.cli.common.application import WORDS
from tilewright.cli.common.arguments import claim, tell_replaced
from tilewright.cli.common.parse_errors import UsageError
from tilewright.host.common.result_document import Row, result_document, rows_of, to_json

STDOUT: Final = "-"


@dataclass
class JsonTarget:
    """Where the document of a command goes."""

    name: str  # path of the file, or `STDOUT`
    command: str = "tilewright"  # the command line, as the document tells it
    stdout: TextIO | None = None  # standard output, from before it was led elsewhere
    replaces: bool = False

    @property
    def path(self) -> Path | None:
        """The file; None: standard output."""
        return None if self.name == STDOUT else Path(self.name)

    def read(self) -> dict[str, Any] | None:
        """The document that is in the file by now; None: there is none, or it is a device."""
        path = self.path
        if path is None or not path.is_file():  # a device such as /dev/stdout holds nothing
            return None
        self.replaces = False
        return read_document(path)

    def write(self, rows: Sequence[Row], conditions: Row, **more: Any) -> None:
        """Write the document, whole or not at all."""
        text = to_json(result_document(self.command, rows, conditions, **more))
        if self.path is None:
            (self.stdout or sys.stdout).write(text)
            return
        from tilewright.host.common.whole_file import write_whole

        write_whole(self.path, text)
        if self.replaces:
            tell_replaced(self.path)
            self.replaces = False


def json_path(target: JsonTarget | None) -> Path | None:
    """The file of ``--json``; None: there is none, or it is standard output."""
    return None if target is None else target.path


def read_document(path: Path) -> dict[str, Any]:
    """The document of a file."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        rows_of(document)
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise UsageError(
            "must be a JSON file that a command wrote",
            field="--json",
            value=str(path),
            remedy="name a new file, or one of an earlier run",
        ) from error
    return dict(document)


def _take(context: typer.Context, target: JsonTarget | None) -> JsonTarget | None:
    if target is None:
        return None
    command = shlex.join(["tilewright", *context.meta.get(WORDS, ())])
    stdout = sys.stdout
    if target.path is None:
        context.with_resource(contextlib.redirect_stdout(sys.stderr))
    claim(context, target.path, "--json")  # before anything long is run for it
    there = target.path is not None and target.path.is_file()
    return JsonTarget(target.name, command, stdout, replaces=there)


JsonOption = Annotated[
    JsonTarget | None,
    typer.Option(
        "--json",
        metavar="FILE",
        parser=JsonTarget,
        callback=_take,
        help="Also write the rows with their conditions to this file; '-': standard output.",
    ),
]
