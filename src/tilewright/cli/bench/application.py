# SPDX-License-Identifier: Apache-2.0
"""The sub-application that benchmarks register with, and how each of them ends."""

from __future__ import annotations

import contextlib
import importlib.util
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from tilewright.cli.application import EXIT_CHECK_FAILED, MEASURE, Group, app, open_console, say
from tilewright.cli.arguments import claim, one_of
from tilewright.cli.json_output import JsonTarget
from tilewright.cli.parse_errors import UsageError
from tilewright.host.common.printable import printable

if TYPE_CHECKING:
    from tilewright.bench.result import BenchResult

SPEED: Final = "How fast the toolkit is"
SEARCH: Final = "How well schedules are searched"
HARDWARE: Final = "What the accelerator does"

bench_app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Measure what the documents claim: speed, search, cycles, accuracy.",
)
app.add_typer(bench_app, name="bench", rich_help_panel=MEASURE)


@bench_app.callback()
def _require_clone() -> None:
    if importlib.util.find_spec("tilewright.bench") is None:
        raise UsageError(
            "is part of a clone, not of an installed package",
            field="bench",
            remedy="clone the repository and run it there",
        )


def _claim_html(context: typer.Context, path: Path | None) -> Path | None:
    claim(context, path, "--html")
    return path


HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        metavar="FILE",
        callback=_claim_html,
        help="Write the plots to this HTML file.",
    ),
]


def names(text: str, field: str, known: Iterable[str] = ()) -> list[str]:
    """Names that are separated by commas; each one of the known, if some are given.

    Raises:
        UsageError: a name is empty, or not known.
    """
    found = [part.strip() for part in text.split(",")] if text else []
    if not all(found):
        raise UsageError(
            "must be names, separated by commas",
            field=field,
            value=text,
            remedy="leave no name empty",
        )
    known = list(known)
    return [one_of(name, known, field) for name in found] if known else found


def numbers(text: str, field: str) -> list[float]:
    """Numbers of at least 0 that are separated by commas.

    Raises:
        UsageError: one of them is none.
    """
    try:
        found = [float(part) for part in text.split(",")]
        if not all(0 <= number < math.inf for number in found):
            raise ValueError
        return found
    except ValueError as error:
        raise UsageError(
            "must be numbers of at least 0, separated by commas",
            field=field,
            value=text,
            remedy="write them as in 64,128",
        ) from error


def known_rows(json: JsonTarget | None) -> Mapping[str, Any] | None:
    """The document of a stopped run, which a benchmark goes on with; None: there is none."""
    return None if json is None else json.read()


def keeper(json: JsonTarget | None) -> Callable[[BenchResult], None] | None:
    """Who writes the document after each step; None: nobody can."""
    if json is None or json.path is None:
        return None
    return lambda result: _write(result, json)


@contextlib.contextmanager
def resumable(json: JsonTarget | None) -> Iterator[None]:
    """Work of which `keeper` keeps each step: whoever stops it is told how it goes on."""
    try:
        yield
    except KeyboardInterrupt:
        if json is None or json.path is None:
            say("nothing is kept; with --json FILE the same command could go on", err=True)
        elif json.path.is_file():
            kept = printable(str(json.path))
            say(f"{kept} holds what is finished; the same command goes on with it", err=True)
        else:
            say("stopped before anything was finished: nothing is kept", err=True)
        raise


def finish(result: BenchResult, json: JsonTarget | None) -> None:
    """Say the memory, write the document, and end with whether every check held."""
    memory = result.conditions.get("memory")
    if memory:
        name = memory["name"] if isinstance(memory, Mapping) else memory
        open_console().say(f"memory: {name}")
    if json is not None:
        _write(result, json)
    if not result.passed:
        raise typer.Exit(EXIT_CHECK_FAILED)


def _write(result: BenchResult, json: JsonTarget) -> None:
    json.write(result.rows, result.conditions, summary=dict(result.summary), **result.more)
