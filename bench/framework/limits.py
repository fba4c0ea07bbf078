# SPDX-License-Identifier: Apache-2.0
"""A measurement in a process of its own: whatever becomes of it, the study goes on."""

from __future__ import annotations

import re
import signal
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from tilewright.bench.framework.records import Row
from tilewright.host.common.children import end_with_parent, limit_memory, spawn_context
from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.printable import printable

_FRAMES: Final = 4
"""Last ones of a traceback that are told."""

_LEAVING: Final = 20.0
"""Seconds in which a child that has answered may clean up."""

_COLOUR: Final = re.compile(r"(?:\x1b|\\x1b)\[[\d;]*m")
"""Of a terminal, as it is or as `printable` shows it."""

_CHARACTERS: Final = 800
"""Of a line at most."""

_BEGINNING: Final = 200
"""Characters at most of the text of an error."""


def limited(measure: Callable[..., Row], *arguments: Any, seconds: float, memory_bytes: int) -> Row:
    """What a function of a module returns, or a row with an ``error`` of one line."""
    context = spawn_context()
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=_serve, args=(sender, measure, arguments, memory_bytes))
    child.start()
    sender.close()  # so that the end of the child is the end of the pipe
    try:
        if not receiver.poll(seconds):
            return {"error": f"not finished in {seconds:g} s"}
        row: Row = receiver.recv()
        child.join(_LEAVING)
    except EOFError:
        child.join()
        return {"error": f"ended without an answer ({_ending(child.exitcode)})"}
    finally:
        child.kill()
        child.join()
        receiver.close()
    return row


def _ending(code: int | None) -> str:
    """An exit code in words."""
    return f"exit code {code}" if code is None or code >= 0 else signal.Signals(-code).name


def _serve(
    sender: Connection, measure: Callable[..., Row], arguments: tuple[Any, ...], memory_bytes: int
) -> None:
    """Measure in the child; what fails is told."""
    end_with_parent()
    limit_memory(memory_bytes)
    try:
        row = measure(*arguments)
    except Exception as error:  # whatever libraries raise
        row = {"error": told(error)}
    sender.send(row)


def told(error: BaseException) -> str:
    """An error in a line; where nobody raised the first one on purpose, its last frames, too."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    text = str(error) if isinstance(error, TilewrightError) else _named(error)
    if not isinstance(cause, TilewrightError):
        frames = traceback.extract_tb(cause.__traceback__)[-_FRAMES:]
        at = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))
        text += f" [{_named(cause)} at {at}]" if cause is not error else f" [at {at}]"
    return printable(" ".join(_COLOUR.sub("", text).split()), limit=_CHARACTERS)


def _named(error: BaseException) -> str:
    """Kind and beginning of the text of an error that is not ours."""
    return f"{type(error).__name__}: {printable(str(error), limit=_BEGINNING)}"
