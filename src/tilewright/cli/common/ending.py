# SPDX-License-Identifier: Apache-2.0
"""A signal ends a command like an error, so that each part of it can clean up."""

from __future__ import annotations

import signal
from typing import Final, NoReturn

_arrived: Final[set[int]] = set()
"""Signals that ended this process. A search that keeps what it has may swallow their exception."""


def _terminate(number: int, frame: object) -> NoReturn:
    del frame
    signal.signal(number, signal.SIG_DFL)  # a second one ends at once
    _arrived.add(number)
    raise KeyboardInterrupt


def end_by_sigterm() -> None:
    """Let SIGTERM raise, unless whoever started this process had it ignored."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def last_words() -> tuple[str, int]:
    """What to say of the end in a line, and the exit code, as shells have it."""
    if signal.SIGTERM in _arrived:
        return "terminated", 128 + signal.SIGTERM
    return "interrupted", 128 + signal.SIGINT


def interrupted(ended: SystemExit) -> bool:
    """Whether Typer made an exit with the code of Ctrl-C of a signal."""
    if ended.code != 128 + signal.SIGINT:
        return False
    error: BaseException | None = ended
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error is not None
