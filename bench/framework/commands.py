# SPDX-License-Identifier: Apache-2.0
"""`tilewright bench NAME`: a command for each study, made from its settings."""

# ruff: noqa: PLC0415  (imports inside functions keep `--help` fast)

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeVar

import typer

from tilewright.bench.framework.settings import (
    StudyOption,
    fields_of_errors,
    is_several,
    options_of,
    settings_of,
)
from tilewright.cli.common.application import EXIT_CHECK_FAILED, Group, open_console, say
from tilewright.cli.common.arguments import claim, replacing, require_places
from tilewright.cli.common.json_output import JsonOption, JsonTarget
from tilewright.cli.common.options import parameter, with_parameters
from tilewright.host.common.errors import fields_named
from tilewright.host.common.printable import printable

if TYPE_CHECKING:
    from tilewright.bench.framework.study import BenchResult, Study

SPEED: Final = "How fast the toolkit is"
SEARCH: Final = "How well schedules are searched"
HARDWARE: Final = "What the accelerator does"

studies = typer.Typer(cls=Group, no_args_is_help=True)

T = TypeVar("T", bound=type)


def _claim_html(context: typer.Context, path: Path | None) -> Path | None:
    claim(context, path, "--html")
    return path


HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html", metavar="FILE", callback=_claim_html, help="Write the plots to this HTML file."
    ),
]


def command(
    name: str, panel: str, study: str, *, page: bool = False, more: str = ""
) -> Callable[[T], T]:
    """Make frozen settings a command, whose help is their docstring."""

    def register(settings: T) -> T:
        assert is_dataclass(settings)

        def run(**given: Any) -> None:
            with fields_named(fields_of_errors(settings)):
                chosen = settings_of(settings, given)
                run_command(_load(study)(chosen), given.get("html"), given["json"])

        parameters = [_parameter(*each) for each in options_of(settings)]
        if page:
            parameters.append(_optional("html", HtmlOption))
        parameters.append(_optional("json", JsonOption))
        run.__doc__ = f"{settings.__doc__}\n\n{more}" if more else settings.__doc__
        studies.command(name, rich_help_panel=panel)(with_parameters(run, parameters))
        return settings

    return register


def _load(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(importlib.import_module(module), name)


def _optional(name: str, annotation: Any) -> inspect.Parameter:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=None, annotation=annotation)


def _parameter(name: str, kind: Any, default: Any, about: StudyOption) -> inspect.Parameter:
    """The parameter of a field; None stands for what --quick or the default gives."""
    if kind is not bool and (is_several(kind) or about.has_quick):
        if "default:" not in about.help and _shown(default):
            quick_text = f"; quick: {_shown(about.quick)}" if about.has_quick else ""
            text = f"{about.help.rstrip('.')}; default: {_shown(default)}{quick_text}."
            about = replace(about, help=text)
        kind, default = (str if is_several(kind) else kind) | None, None
    return parameter(name, kind, default, about)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in value)
    return "" if value is None else str(value)


def run_command(study: Study, html: Path | None, json: JsonTarget | None) -> None:
    """Run a study, print what it says, and write its document and its page."""
    from tilewright.bench.framework.records import lines_beside
    from tilewright.bench.framework.study import run_study

    path = None if json is None else json.path
    kept = {**study.keeps, "the lines beside --json": lines_beside(path) if path else None}
    require_places(study.reads, {**study.writes, "--html": html, "--json": path}, kept)
    known = json.read() if json is not None and study.resumes else None
    try:
        result = run_study(
            study, path=path, known=known, write=None if json is None else _writer(json)
        )
    except KeyboardInterrupt:
        if study.kept:
            say(study.kept, err=True)
        elif study.resumes:
            _tell_interrupted(path)
        raise
    if text := study.text(result.document):
        say(text)
    if html is not None:
        from tilewright.host.common.whole_file import write_whole

        with replacing(html):
            write_whole(html, study.page(result.document))
    memory = result.conditions.get("memory")
    if memory:
        name = memory["name"] if isinstance(memory, Mapping) else memory
        open_console().say(f"memory: {name}")
    if not result.passed:
        raise typer.Exit(EXIT_CHECK_FAILED)


def _writer(json: JsonTarget) -> Callable[[BenchResult], None]:
    def write(result: BenchResult) -> None:
        json.write(result.rows, result.conditions, summary=dict(result.summary), **result.more)

    return write


def _tell_interrupted(path: Path | None) -> None:
    if path is None:
        say("nothing is kept; with --json FILE the same command could go on", err=True)
    elif path.is_file():
        kept = printable(str(path))
        say(f"{kept} holds what is finished; the same command goes on with it", err=True)
    else:
        say("stopped before anything was finished: nothing is kept", err=True)
