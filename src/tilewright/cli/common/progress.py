# SPDX-License-Identifier: Apache-2.0
"""Progress of what takes seconds: on standard error, to people only."""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from tilewright.host.common.printable import printable

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID


PATIENCE_SECONDS: Final = 0.3
"""Of a user in front of an empty terminal, who sees progress within the first second."""


class Steps:
    """What a command tells of its progress; without a display, nothing comes of it."""

    def __init__(self, display: Progress | None = None, task: TaskID | None = None) -> None:
        self._display, self._task = display, task

    def say(self, text: str) -> None:
        """What is done now."""
        if self._display is not None and self._task is not None:
            self._display.update(self._task, description=printable(text))

    def at(self, text: str, done: int, parts: int) -> None:
        """What is done now, and how many of its parts are done."""
        if self._display is not None and self._task is not None:
            self._display.update(
                self._task, description=printable(text), completed=done, total=parts
            )

    def advance(self, parts: int = 1) -> None:
        """So many parts are done."""
        if self._display is not None and self._task is not None:
            self._display.advance(self._task, parts)


@contextlib.contextmanager
def progress(text: str, *, total: int | None = None, quiet: bool = False) -> Iterator[Steps]:
    """Show what a command is at, how long it has been, and how many of its parts are done."""
    if quiet or not sys.stderr.isatty():
        yield Steps()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )
    from rich.progress import Progress as Display

    display = Display(
        SpinnerColumn(),
        TimeElapsedColumn(),
        *((BarColumn(), MofNCompleteColumn()) if total is not None else ()),
        TextColumn("{task.description}", markup=False),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=sys.stdout.isatty(),
    )
    steps = Steps(display, display.add_task(printable(text), total=total))
    timer = threading.Timer(PATIENCE_SECONDS, display.start)
    timer.daemon = True
    timer.start()
    try:
        yield steps
    finally:
        timer.cancel()
        timer.join()
        display.stop()
