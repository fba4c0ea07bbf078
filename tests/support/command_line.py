# SPDX-License-Identifier: Apache-2.0
"""Commands of `tilewright`, called in this process."""

import json
from collections.abc import Iterator
from typing import Any

from typer.main import get_command
from typer.testing import CliRunner, Result

from tilewright.cli.commands import app


def call(*words: str) -> Result:
    """What a command line printed, and its exit code."""
    return CliRunner().invoke(app, list(words))


def refusal(*words: str) -> str:
    """The one line that a command is refused with."""
    done = call(*words)
    assert (done.exit_code, type(done.exception)) == (2, SystemExit), done.output
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


def commands(command: Any = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The application, its groups and their commands, with how each is typed."""
    command = command or get_command(app)
    yield " ".join(path), command
    for name, part in getattr(command, "commands", {}).items():
        yield from commands(part, (*path, name))


def rows(*words: str, code: int = 0) -> list[dict[str, Any]]:
    """The rows that a command writes to standard output with ``--json -``."""
    result = call(*words, "--json", "-")
    assert result.exit_code == code, result.output
    document = json.loads(result.stdout)
    assert {"schema", "command", "conditions", "rows"} <= set(document)
    assert document["schema"] == 1
    assert document["command"].startswith("tilewright ")
    return list(document["rows"])
