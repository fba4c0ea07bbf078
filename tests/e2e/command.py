# SPDX-License-Identifier: Apache-2.0
"""The `tilewright` command as a process of its own, which begins warm (`support.warm_python`)."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from support.warm_python import WARM

TIMEOUT_S = 300


def environment(**changes: str | None) -> dict[str, str]:
    """This process's environment with changes; None removes a variable."""
    merged = {**os.environ, **WARM, **{k: v for k, v in changes.items() if v is not None}}
    return {k: v for k, v in merged.items() if changes.get(k, "") is not None}


def arguments(*words: object) -> list[str]:
    """The command line of this interpreter's `tilewright`."""
    return [sys.executable, "-m", "tilewright.cli", *map(str, words)]


@contextmanager
def running(
    command: Sequence[object], cwd: Path, **options: Any
) -> Iterator[subprocess.Popen[str]]:
    """A process that goes on meanwhile, and is no more afterwards, whatever happened."""
    process = subprocess.Popen(
        [str(word) for word in command], cwd=cwd, env=environment(), text=True,
        **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@contextmanager
def serving_agent(command: Sequence[object], cwd: Path) -> Iterator[tuple[Any, str]]:
    """A process that serves a device, and its address."""
    with running(command, cwd) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r".* at (127\.0\.0\.1:\d+)\n", line)
        assert found, line + process.communicate(timeout=10)[1]
        yield process, found[1]


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
