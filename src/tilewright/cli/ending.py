# SPDX-License-Identifier: Apache-2.0
"""A signal ends a command like an error, so that each part of it can clean up."""

from __future__ import annotations

import signal
from typing import NoReturn


class TerminatedError(KeyboardInterrupt):
    """SIGTERM arrived. It ends a command as Ctrl-C does."""


def _terminate(number: int, frame: object) -> NoReturn:
    del frame
    signal.signal(number, signal.SIG_DFL)  # a second one ends at once
    raise TerminatedError


def end_by_sigterm() -> None:
    """Let SIGTERM raise, unless whoever started this process had it ignored."""
    if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
        signal.signal(signal.SIGTERM, _terminate)


def last_words(ended: KeyboardInterrupt) -> tuple[str, int]:
    """What to say of it in a line, and the exit code, as shells have it."""
    if isinstance(ended, TerminatedError):
        return "terminated", 128 + signal.SIGTERM
    return "interrupted", 128 + signal.SIGINT


def interrupt_behind(ended: SystemExit) -> KeyboardInterrupt | None:
    """The signal that Typer made an exit with the code of Ctrl-C of."""
    if ended.code != 128 + signal.SIGINT:
        return None
    error: BaseException | None = ended
    while error is not None and not isinstance(error, KeyboardInterrupt):
        error = error.__cause__ or error.__context__
    return error
