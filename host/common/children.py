# SPDX-License-Identifier: Apache-2.0
"""Child processes that run Python: none imports from the working directory.

A command is run beside files of others, such as a model that came with a ``pickle.py``. The
environment variable that is set here holds for every child, and for its own children.
"""

from __future__ import annotations

import os
import resource
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from multiprocessing.context import SpawnContext


def use_safe_path() -> None:
    """Let no Python that this process starts, however it does it, search its working directory."""
    os.environ["PYTHONSAFEPATH"] = "1"


def spawn_context() -> SpawnContext:
    """What `multiprocessing` starts fresh processes with."""
    import multiprocessing  # noqa: PLC0415  (after `leave_working_directory`)

    use_safe_path()
    return multiprocessing.get_context("spawn")


def begin_worker() -> None:
    """What a child of a pool does first: Ctrl-C, which reaches the whole group, is its parent's."""
    import signal  # noqa: PLC0415  (as below)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with_parent()


def end_with_parent() -> None:
    """Let this child, and the group that it leads, be killed when its parent ends, however."""
    import threading  # noqa: PLC0415  (as below)

    threading.Thread(target=_die_with_parent, daemon=True).start()


def _die_with_parent() -> None:
    """Wait for the parent's end, then kill this process and all that it started."""
    import multiprocessing.connection  # noqa: PLC0415  (after `leave_working_directory`)
    import signal  # noqa: PLC0415  (a worker alone needs it)

    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os._exit(1)


def python_command(*words: str) -> list[str]:
    """The words that start this Python as a child."""
    return [sys.executable, "-P", *words]


def python_environment(**more: str) -> dict[str, str]:
    """The environment of such a child, which finds the same packages.

    The working directory, where this process searches it, is left out.
    """
    paths = os.pathsep.join(_paths_elsewhere())
    return {**os.environ, "PYTHONSAFEPATH": "1", "PYTHONPATH": paths, **more}


def limit_memory(limit: int = 0) -> None:
    """Bound the address space of this process, in bytes; 0: 80 % of the machine's memory."""
    limit = limit or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * 4 // 5
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))


def leave_working_directory() -> None:
    """Stop searching the working directory, where ``python -m`` or ``PYTHONPATH`` put it."""
    sys.path[:] = _paths_elsewhere()


def _paths_elsewhere() -> list[str]:
    """Where Python searches, without the working directory."""
    here = os.path.realpath(os.curdir)
    return [entry for entry in sys.path if entry and os.path.realpath(entry) != here]
