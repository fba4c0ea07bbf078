# SPDX-License-Identifier: Apache-2.0
"""`Stage`: runs the commands of a rehearsal, checks them, and ends whatever it started.

Every process has a session of its own, so that it ends with all that it started in turn. Ctrl-C
reaches the rehearsal alone, which then ends the others.
"""

from __future__ import annotations

import os
import queue
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_ENDS_SECONDS = 60
_COMMAND_SECONDS = 900
"""Beyond what any command may take on a busy machine."""


class StepError(Exception):
    """What a step promised does not hold."""


class RehearsalError(Exception):
    """A step failed; the text names it, why, and what to do."""


@dataclass(frozen=True, kw_only=True)
class Done:
    """A step that went well."""

    title: str
    here: str  # what stood for the board's part; empty: nothing did
    seconds: float
    checks: tuple[str, ...]  # what was checked


class Stage:
    """Where a rehearsal plays; leaving it ends every process that it started."""

    def __init__(
        self, folder: Path, environment: dict[str, str], programs: dict[str, list[str]]
    ) -> None:
        self.folder = folder
        self.done: list[Done] = []
        self._environment = environment
        self._programs = programs
        self._running: list[tuple[str, subprocess.Popen[str]]] = []
        self._checks: list[str] = []

    def __enter__(self) -> Stage:
        return self

    def __exit__(self, *_: object) -> None:
        for _, process in reversed(self._running):
            _end(process)
        self._running.clear()

    @contextmanager
    def step(self, title: str, *, remedy: str, here: str = "") -> Iterator[None]:
        """A step; what goes wrong in it is told with its name, as a `RehearsalError`."""
        number, begin = len(self.done) + 1, time.monotonic()
        say(f"\n{number}. {title}")
        if here:
            say(f"   here: {here}")
        self._checks = []
        try:
            yield
        except KeyboardInterrupt:
            say(f"\nstep {number} ({title}) was interrupted: ending what it and others started")
            raise
        except Exception as error:
            known = isinstance(error, StepError)
            text = str(error) if known else f"{type(error).__name__}: {error}"
            raise RehearsalError(f"step {number} ({title}) failed: {text}; {remedy}") from error
        seconds = time.monotonic() - begin
        say(f"   {seconds:.1f} s")
        self.done.append(Done(title=title, here=here, seconds=seconds, checks=(*self._checks,)))

    def check(self, what: str, holds: bool) -> None:
        """Hold a step to something, or raise `StepError`."""
        if not holds:
            raise StepError(f"not so: {what}")
        self._checks.append(what)
        say(f"   checked: {what}")

    def run(self, command: str) -> str:
        """Run a command to its end, without failure and in time; what it printed."""
        say(f"   $ {command}")
        process = self._open(command, subprocess.STDOUT)
        try:
            out, _ = process.communicate(timeout=_COMMAND_SECONDS)
        except subprocess.TimeoutExpired as error:
            raise StepError(f"it did not end within {_COMMAND_SECONDS} s") from error
        finally:
            _end(process)
        for line in out.splitlines():
            say(f"   | {line}")
        if process.returncode:
            raise StepError(f"exit code {process.returncode}")
        return out

    def start(self, command: str) -> str:
        """Start a command that goes on; its first line."""
        say(f"   $ {command} &")
        log = self.folder / f"log-{len(self._running) + 1}.txt"
        with log.open("w") as errors:
            process = self._open(command, errors)
        self._running.append((command, process))
        lines: queue.Queue[str] = queue.Queue()
        assert process.stdout is not None
        threading.Thread(
            target=lambda stream: lines.put(stream.readline()), args=(process.stdout,), daemon=True
        ).start()
        try:
            line = lines.get(timeout=_COMMAND_SECONDS)
        except queue.Empty as error:
            raise StepError(f"it said nothing within {_COMMAND_SECONDS} s") from error
        if not line:
            process.wait()
            raise StepError(" ".join(log.read_text().split()[-60:]) or "it ended at once")
        say(f"   | {line.rstrip()}")
        return line

    def keep(self, command: str, process: subprocess.Popen[str]) -> None:
        """End a process with the others that was started elsewhere, in a session of its own."""
        self._running.append((command, process))

    def stop(self, word: str) -> dict[str, int]:
        """End the processes whose command begins with a word, politely; their exit codes."""
        codes = {}
        for command, process in [each for each in self._running if each[0].startswith(word)]:
            say(f"   $ kill %%  # {command}")
            process.send_signal(signal.SIGTERM)
            try:
                codes[command] = process.wait(_ENDS_SECONDS)
            except subprocess.TimeoutExpired as error:
                raise StepError(f"{command} did not end within {_ENDS_SECONDS} s") from error
            _end(process)
            self._running.remove((command, process))
        return codes

    def _open(self, command: str, errors: object) -> subprocess.Popen[str]:
        first, *others = shlex.split(command)
        return subprocess.Popen(
            [*self._programs.get(first, [first]), *others],
            cwd=self.folder, env=self._environment, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace",
            start_new_session=True,
        )  # type: ignore[call-overload]  # fmt: skip


def _end(process: subprocess.Popen[str]) -> None:
    """End a process and all of its session's group: politely, and then not."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_ENDS_SECONDS / 6)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def say(text: str) -> None:
    """Print a line now."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()
