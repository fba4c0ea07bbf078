# SPDX-License-Identifier: Apache-2.0
"""Child processes that run Python: none imports from the working directory.

A command is run beside files of others, such as a model that came with a ``pickle.py``. The
environment variable that is set here holds for every child, and for its own children.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from multiprocessing.context import SpawnContext
from pathlib import Path


def use_safe_path() -> None:
    """Let no Python that this process starts, however it does it, search its working directory."""
    os.environ["PYTHONSAFEPATH"] = "1"


def spawn_context() -> SpawnContext:
    """What `multiprocessing` starts fresh processes with."""
    use_safe_path()
    return multiprocessing.get_context("spawn")


def python_command(*words: str) -> list[str]:
    """The words that start this Python as a child."""
    return [sys.executable, "-P", *words]


def python_environment(**more: str) -> dict[str, str]:
    """The environment of such a child, which finds the same packages.

    The working directory, where this process searches it, is left out.
    """
    here = Path.cwd()
    paths = [entry for entry in sys.path if entry and Path(entry).resolve() != here]
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": os.pathsep.join(paths), **more}


def leave_working_directory() -> None:
    """Stop searching the working directory, where ``python -m`` put it."""
    if sys.path and not sys.flags.safe_path and Path(sys.path[0]).resolve() == Path.cwd():
        del sys.path[0]
