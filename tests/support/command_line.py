# SPDX-License-Identifier: Apache-2.0
"""Commands of `tilewright`, called in this process."""

import json
from typing import Any

from typer.testing import CliRunner, Result

from tilewright.cli import app


def call(*words: str) -> Result:
    """What a command line printed, and its exit code."""
    return CliRunner().invoke(app, list(words))


def rows(*words: str, code: int = 0) -> list[dict[str, Any]]:
    """The rows that a command writes to standard output with ``--json -``."""
    result = call(*words, "--json", "-")
    assert result.exit_code == code, result.output
    document = json.loads(result.stdout)
    assert {"schema", "command", "conditions", "rows"} <= set(document)
    assert document["schema"] == 1
    assert document["command"].startswith("tilewright ")
    return list(document["rows"])
