# SPDX-License-Identifier: Apache-2.0
"""The `tilewright` command as a real process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TIMEOUT_S = 300


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment with changes; None removes a variable."""
    merged = {**os.environ, **{k: v for k, v in changes.items() if v is not None}}
    return {k: v for k, v in merged.items() if changes.get(k, "") is not None}


def arguments(*words: object) -> list[str]:
    """The command line of this interpreter's `tilewright`."""
    return [sys.executable, "-m", "tilewright.cli", *map(str, words)]


def tilewright(*words: object, cwd: Path, **changes: str | None):
    """Run to the end; stdout and stderr as text."""
    return subprocess.run(
        arguments(*words),
        capture_output=True,
        text=True,
        check=False,
        cwd=cwd,
        env=environment(**changes),
        timeout=TIMEOUT_S,
    )
