# SPDX-License-Identifier: Apache-2.0
"""Progress of a running study: a live bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

from types import TracebackType
from typing import Final

from rich import progress
from rich.console import Console
from rich.markup import escape

from tilewright.tuner.measure.measurement import Measurement, Status
from tilewright.tuner.study.options import Mode
from tilewright.tuner.study.session import Proposal
from tilewright.tuner.study.settings import StudySettings

PLAIN_EVERY: Final = 10
"""Trials between two plain lines."""


class ProgressDisplay:
    """A `tuner.study.session.Listener` that shows what a study does."""

    def __init__(self, settings: StudySettings, console: Console) -> None:
        self._settings: Final = settings
        self._console: Final = console
        self._best: dict[tuple[str, str], int] = {}
        self._known = 0
        self._total = settings.budget
        self._what = ""
        self._failed = 0
        self._network: int | None = None
        self._bar: progress.Progress | None = None
        self._task: progress.TaskID | None = None
        if console.is_terminal:
            self._bar = progress.Progress(
                progress.TextColumn("{task.description}", markup=False),
                progress.BarColumn(bar_width=None),
                progress.MofNCompleteColumn(),
                progress.TimeElapsedColumn(),
                console=console,
            )

    def __enter__(self) -> ProgressDisplay:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def stage(self, what: str, total: int) -> None:
        """Begin a line of its own for a part of the study, which counts from 0."""
        self._known, self._total, self._what = 0, total, what
        if self._bar is not None:
            self._task = self._bar.add_task(what, total=total)

    def advance(self, known: int, text: str) -> None:
        """Move the bar."""
        self._known = known
        if self._bar is not None and self._task is not None:
            self._bar.update(self._task, completed=known, description=f"{self._what}: {text}")

    def note(self, text: str) -> None:
        """Print a line above the bar."""
        self._console.print(escape(text), highlight=False, soft_wrap=True)

    def trial(
        self, sequence: int, proposal: Proposal, measurement: Measurement, *, replayed: bool
    ) -> None:
        """Count a trial; a better network or a wrong result is worth a line."""
        self._known += 1
        if measurement.status is Status.MISMATCH:
            self._console.print(
                f"[bold red]WRONG RESULT[/] trial {sequence}: {escape(proposal.task.name)} on "
                f"{escape(proposal.hw.name)}: {escape(measurement.failure)}",
                soft_wrap=True,
            )
        if not measurement.valid:
            self._failed += 1
            if measurement.status is Status.FAILED and not replayed:
                self.note(f"trial {sequence}: {proposal.task.name}: {measurement.failure}")
        elif measurement.cycles is not None:
            self._improve(sequence, proposal, measurement.cycles)
        self.advance(self._known, self._text(proposal))
        if self._bar is None and not replayed and self._known % PLAIN_EVERY == 0:
            self.note(f"{self._what} [{self._known}/{self._total}] {self._text(proposal)}")

    def _improve(self, sequence: int, proposal: Proposal, cycles: int) -> None:
        arm = proposal.hw.name if self._settings.mode is Mode.SHARED else ""
        key = (arm, proposal.task.name)
        self._best[key] = min(cycles, self._best.get(key, cycles))
        total = 0
        for task in self._settings.tasks:
            best = self._best.get((arm, task.name))
            if best is None:
                return
            total += best * task.count
        if self._network is None or total < self._network:
            first = self._network is None
            self._network = total
            if first:
                self.note(f"first complete network after trial {sequence + 1}: {total:,} cycles")

    def _text(self, proposal: Proposal) -> str:
        network = "no network yet" if self._network is None else f"best {self._network:,} cycles"
        text = f"{network} | {proposal.task.name} on {proposal.hw.name}"
        return text + (f" | {self._failed} not valid" if self._failed else "")
