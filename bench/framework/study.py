# SPDX-License-Identifier: Apache-2.0
"""A study: its grid of cells, its measurement of one cell, and what its rows say."""

from __future__ import annotations

import json
import multiprocessing
import os
import platform
import re
import signal
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, ClassVar, Final, TypeVar

from tilewright.bench.framework.records import Cell, Records, Row, lines_beside
from tilewright.bench.framework.tables import FigureTable, worded
from tilewright.host.common.children import (
    begin_worker,
    end_with_parent,
    limit_memory,
    spawn_context,
)
from tilewright.host.common.errors import (
    ConfigError,
    EnvironmentFaultError,
    TilewrightError,
    reason_of,
)
from tilewright.host.common.printable import printable
from tilewright.host.common.whole_file import refuse_foreign

Files = Mapping[str, Path | None]
C = TypeVar("C")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class BenchResult:
    """Rows with what they hold under."""

    rows: Sequence[Row]  # one for each measurement; units stand in the names of their members
    conditions: Row  # configuration, memory, seed, tools, load of the machine
    summary: Row = field(default_factory=dict)  # the figures that the documents name
    more: Row = field(default_factory=dict)  # further members of the document
    passed: bool = True  # whether every check of the run held

    @property
    def document(self) -> dict[str, Any]:
        """What a page is made from."""
        shown = {"rows": self.rows, "summary": self.summary, "conditions": self.conditions}
        return {**shown, **self.more}


class Study:
    """Base of all studies; a study that resumes takes over the rows of an earlier document."""

    resumes: ClassVar[bool] = False
    """Whether cells that the document of an earlier run holds are left out."""

    kept: ClassVar[str] = ""
    """What Ctrl-C is answered with by a study that keeps its runs itself."""

    tells: ClassVar[bool] = True
    """Whether tables or figures are printed at the end; else the rows have told everything."""

    says: ClassVar[str | None] = None
    """What `line` tells of a row (`worded`); empty: nothing; None: every member."""

    def __init__(self, settings: Any) -> None:
        self.settings: Final = settings

    @property
    def reads(self) -> Files:
        """Files that the settings name, by what errors call them."""
        return {}

    @property
    def writes(self) -> Files:
        """Files that are made anew, beside the document and the page."""
        return {}

    @property
    def keeps(self) -> Files:
        """Files that are added to."""
        return {}

    @property
    def jobs(self) -> int:
        """Processes side by side; 1: cells are measured in this one."""
        return 1

    def cells(self) -> Iterable[Cell]:
        """The grid: of each cell the members of its rows that name it."""
        return ({},)

    def measure(self, cell: Cell) -> Iterable[Row]:
        """The rows of one cell; the cell's own members are added in front of them."""
        raise NotImplementedError

    def of_settings(self, *names: str) -> Row:
        """Some of the settings."""
        return {name: getattr(self.settings, name) for name in names}

    def conditions(self) -> Row:
        """What all rows hold under; rows of other conditions are refused."""
        return {}

    def environment(self) -> Row:
        """What else the document tells of a run, and may differ in the next one."""
        return {}

    def summarise(self, rows: Sequence[Row]) -> Row:
        """The figures that the documents name."""
        del rows
        return {}

    def line(self, row: Row) -> str:
        """A row as it is told when it is there; empty: it is not told."""
        if self.says is None:
            return " ".join(f"{name} {value}" for name, value in row.items())
        return worded(self.says, row)

    def passed(self, result: BenchResult) -> bool:
        """Whether every check held."""
        del result
        return True

    def tables(self, document: Row) -> Iterator[FigureTable]:
        """Tables of a document, which are printed at the end."""
        del document
        yield from ()

    def text(self, document: Row) -> str:
        """What is printed at the end: tables, or the figures of the summary."""
        if not self.tells:
            return ""
        tables = [f"**{t.title}**\n\n{t.markdown()}" for t in self.tables(document)]
        figures = [f"{k} = {json.dumps(v, default=str)}" for k, v in document["summary"].items()]
        return "\n\n".join(tables) if tables else "\n".join(figures)

    def page(self, document: Row) -> str:
        """The page with the charts, as HTML."""
        raise NotImplementedError

    def result(self, rows: Sequence[Row]) -> BenchResult:
        """A document's members from rows alone."""
        conditions = {**self.conditions(), **self.environment()}
        summary = self.summarise(rows) if rows else {}
        found = BenchResult(rows=rows, conditions=conditions, summary=summary)
        return BenchResult(**{**vars(found), "passed": self.passed(found)})

    def known(self, document: Row) -> Row:
        """A document of an earlier run with all rows that it was made from."""
        return document

    def rows_of_cell(self, cell: Cell) -> list[Row]:
        """`measure`, with the cell's members in front; each row is told as it comes."""
        rows: list[Row] = []
        for row in self.measure(cell):
            rows.append({**cell, **row})
            if self.jobs == 1:
                self.tell(rows[-1])
        return rows

    def tell(self, row: Row) -> None:
        """Print a row."""
        if text := self.line(row):
            print(text, flush=True)


def run_study(
    study: Study,
    *,
    path: Path | None = None,
    known: Row | None = None,
    write: Callable[[BenchResult], None] | None = None,
) -> BenchResult:
    """Measure the cells that an earlier run left, and tell what all rows say."""
    lines = None if path is None else lines_beside(path)
    if lines is not None:
        refuse_foreign(lines)
        if not study.resumes:
            lines.unlink(missing_ok=True)
    conditions = study.conditions()
    with _reading_rows():
        taken = study.known(known) if known is not None and study.resumes else None
        records = Records(conditions, lines, taken)
        for row in records.rows:
            study.line(row)
    cells = [cell for cell in study.cells() if not records.holds(cell)]
    found: dict[int, list[Row]] = {}

    def ended(place: int, rows: list[Row]) -> None:
        records.keep(rows)
        found[place] = rows
        if study.jobs > 1:
            for row in rows:
                study.tell(row)

    def result() -> BenchResult:
        return study.result([*records.rows, *(row for n in sorted(found) for row in found[n])])

    try:
        for place, rows in in_processes(study.rows_of_cell, cells, study.jobs):
            ended(place, rows)
    except BaseException:
        if not found and not records.rows:
            records.forget()
        elif path is not None and write is not None:
            with suppress(Exception):  # the first reason counts
                write(result())
                records.forget()
        raise
    with _reading_rows() if records.rows else nullcontext():
        last = result()
    if write is not None:
        write(last)
        records.forget()
    return last


@contextmanager
def _reading_rows() -> Iterator[None]:
    """Tell of rows that no run of the study has written, instead of what becomes of them."""
    try:
        yield
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise ConfigError(
            "the file must hold rows that an earlier run of this study wrote",
            field="--json",
            value=f"{type(error).__name__} {reason_of(error)}",
            remedy="name another file",
        ) from error


def in_processes(
    measure: Callable[[C], R],
    cells: Sequence[C],
    jobs: int,
    *,
    seconds: float = float("inf"),
    failed: Callable[[int, Exception], None] | None = None,
) -> Iterator[tuple[int, R]]:
    """Results by place, as they end."""
    ends = time.monotonic() + seconds
    if jobs == 1 and failed is None:
        for place, cell in enumerate(cells):
            if time.monotonic() >= ends:
                return
            yield place, measure(cell)
        return
    pool = ProcessPoolExecutor(jobs, mp_context=spawn_context(), initializer=begin_worker)
    pending = iter(enumerate(cells))
    running: dict[Future[R], int] = {}
    try:
        while True:
            while len(running) < 2 * jobs and time.monotonic() < ends:
                following = next(pending, None)
                if following is None:
                    break
                running[pool.submit(measure, following[1])] = following[0]
            if not running:
                return
            yield from _ended(running, failed)
    except BaseException:
        for child in multiprocessing.active_children():
            child.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _ended(
    running: dict[Future[R], int], failed: Callable[[int, Exception], None] | None
) -> Iterator[tuple[int, R]]:
    """Results of what has ended, which is taken out of what is running."""
    broken: BrokenProcessPool | None = None
    done = wait(running, return_when=FIRST_COMPLETED).done
    for future in sorted(done, key=running.__getitem__):
        place, error = running.pop(future), future.exception()
        if error is None:
            yield place, future.result()
        elif isinstance(error, BrokenProcessPool):  # whichever cell it was in
            broken = error
        elif failed is not None and isinstance(error, Exception):
            failed(place, error)
        else:
            raise error
    if broken is not None:
        raise EnvironmentFaultError(
            "a worker process was killed",
            field="workers",
            remedy="see who kills them (`dmesg` tells of a lack of memory), or take fewer; "
            "what had ended is kept, and the same command goes on from here",
        ) from broken


def machine() -> dict[str, Any]:
    """What a row of times depends on besides its settings."""
    load = round(os.getloadavg()[0], 2)
    return {"cpus": os.cpu_count(), "load": load, "python": platform.python_version()}


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
