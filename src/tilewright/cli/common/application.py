# SPDX-License-Identifier: Apache-2.0
"""The application that commands register with: exit codes, errors as one line, the console."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer
from typer.core import TyperCommand, TyperGroup

from tilewright.cli.common.ending import interrupted, last_words
from tilewright.cli.common.parse_errors import UsageError, explained
from tilewright.host.common import extras
from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.names import choices
from tilewright.host.common.printable import printable, printable_lines

if TYPE_CHECKING:
    from tilewright.cli.common.console import PrintableConsole


def in_options(error: TilewrightError) -> TilewrightError:
    """An error whose remedy names options instead of parameters."""
    from tilewright.host.compiler.read.remedies import (
        CHOOSE_PERCENTILE,
        GIVE_ARRAYS,
        GIVE_CALIBRATION,
        GIVE_SHAPES,
    )

    remedy = {
        CHOOSE_PERCENTILE: "add --calibration-method percentile, or leave it out",
        GIVE_ARRAYS: "give --calibration with an .npz file",
        GIVE_SHAPES: "give its sizes with --shape NAME=1,3,224,224",
        GIVE_CALIBRATION: "give --calibration with a folder of images, an .npy or .npz file, or "
        "--random-calibration 8 for cycle counts without meaningful outputs",
    }.get(error.remedy)
    if remedy is None:
        return error
    return type(error)(error.rule, field=error.field, value=error.value, remedy=remedy)


def check_words(words: Sequence[str]) -> None:
    """Refuse words that are no text."""
    for number, word in enumerate(words):
        before = words[number - 1] if number else ""
        after_option = before.startswith("-") and before != "--" and "=" not in before
        option, equals, value = word.partition("=")
        if not (word.startswith("--") and equals):
            option, value = before if after_option else f"argument {number + 1}", word
        try:
            word.encode()
        except UnicodeEncodeError as error:
            encoding = sys.getfilesystemencoding()
            raise TilewrightError(
                f"must be text in {encoding}, the encoding of the locale",
                field=option,
                value=value,
                remedy="write it in plain ASCII"
                if encoding == "utf-8"
                else "set a UTF-8 locale, such as LC_ALL=C.UTF-8",
            ) from error


def check_empty(command: Any, context: Any, words: Sequence[str]) -> None:
    """Refuse empty options and arguments, most often a shell variable that is not set."""
    if all(word and not word.endswith("=") for word in words):
        return
    own = command.context_class(command, parent=context)
    given, _, order = command.make_parser(own).parse_args(args=list(words))
    for parameter in dict.fromkeys(order):
        value = given.get(parameter.name)
        if value != "" and not (isinstance(value, (list, tuple)) and "" in value):
            continue
        if parameter.param_type_name == "option":
            typed = [name for name in parameter.opts if _is_empty(name, words)]
            field, remedy = (typed or parameter.opts)[0], "give a value or leave the option out"
        else:
            field = str(parameter.metavar or parameter.name).strip("[].").upper()
            needed = parameter.required
            remedy = "give a value" if needed else "give a value or leave the argument out"
        raise TilewrightError("must not be empty", field=field, remedy=remedy)


def _is_empty(option: str, words: Sequence[str]) -> bool:
    """Whether an option is written with an empty value."""
    return f"{option}=" in words or (option, "") in pairwise(words)


EXIT_USER_ERROR: Final = 2
EXIT_CHECK_FAILED: Final = 1

LOG_WIDTH: Final = 120
"""Columns of tables when the output is no terminal."""

HELP_WIDTH: Final = 100
"""Columns of a help in a terminal that has as many."""

_WHOLE_SUMMARY: Final = 1000
"""Characters of a command's summary: more than any has, so that none is cut."""


WORDS: Final = "tilewright.words"
"""Key of a context's ``meta``: the words of the command line."""

LINE: Final[ContextVar[tuple[str, ...]]] = ContextVar("tilewright.line", default=())
"""The same, for what has no context at hand."""

COMMON: Final = "Common"
MEASURE: Final = "Measure"
TUNE: Final = "Tune"
BOARDS: Final = "Boards and configurations"
VERIFY: Final = "Verify"
MAINTAIN: Final = "Maintain"
ORDER: Final = (
    *("tune", "report", "compile", "run", "sim", "doctor"),
    *("exhaust", "certify", "export-table", "compare-rtl", "bench"),
    *("map", "multicore", "export", "tuners", "allocators", "networks"),
    *("configs", "boards", "synth", "timing", "pnr", "bitstream", "deploy", "agent", "board"),
    *("verify", "synth-record"),
)
"""Commands as the help lists them: each panel in the order in which one works."""

_COMPLETING: Final = "_TILEWRIGHT_COMPLETE"
"""Set in the environment by the shell that completes a line."""

_Usage: Final[type[Exception]] = typer.BadParameter.__base__ or Exception
"""What the parser of command lines raises."""


class Command(TyperCommand):
    """A command whose rare options stand behind headings of their own."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, then options; those with a panel under its heading."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            row = parameter.get_help_record(ctx)
            if row is not None:
                own = "Arguments" if parameter.param_type_name == "argument" else "Options"
                panels.setdefault(getattr(parameter, "rich_help_panel", None) or own, []).append(
                    row
                )
        for panel in sorted(panels, key=("Arguments", "Options", *panels).index):
            with formatter.section(panel):
                formatter.write_dl(panels[panel])


class Group(TyperGroup):
    """Commands in panels of the help; an unknown one is answered with the nearest."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, each panel under a heading, with the first sentence of their help."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for name in self.list_commands(ctx):
            command: Any = self.get_command(ctx, name)
            summary = command.get_short_help_str(limit=_WHOLE_SUMMARY)
            panels.setdefault(command.rich_help_panel or "Commands", []).append((name, summary))
        for panel, rows in panels.items():
            with formatter.section(panel):
                formatter.write_dl(rows)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Find a command; while a shell completes a line, with the values of its options."""
        found = super().get_command(ctx, cmd_name)
        if found is not None and _COMPLETING in os.environ:
            from tilewright.cli.common.completion import complete

            complete(found)
        return found

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command, and refuse empty words behind it; the nearest one is suggested."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise UsageError(
                "no such command" if args[0] else "must not be empty",
                field=args[0] or "COMMAND",
                remedy=choices(args[0], self.list_commands(ctx)),
            )
        name, command, words = super().resolve_command(ctx, args)
        if command is not None:
            check_empty(command, ctx, words)
        return name, command, words


class _Root(Group):
    """Turns errors that users can act on into one line and an exit code."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The commands in the order of the help."""
        return sorted(super().list_commands(ctx), key=ORDER.index)

    def main(self, *words: Any, **options: Any) -> Any:
        """Run the command; a signal, which Typer ends in silence, is told in a line."""
        try:
            return super().main(*words, **options)
        except SystemExit as ended:
            if not interrupted(ended):
                raise
        text, code = last_words()
        print(text, file=sys.stderr)  # noqa: T201  (output)
        sys.exit(code)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the command line apart, once it is known to be words."""
        try:
            check_words(args)
            ctx.meta[WORDS] = list(args)
            LINE.set(tuple(args))
            return super().parse_args(ctx, args)
        except TilewrightError as error:
            print_error(str(error))
        except _Usage as error:
            print_error(str(explained(error)))
        ctx.exit(EXIT_USER_ERROR)
        return []

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TilewrightError as error:
            print_error(str(in_options(error)))
        except _Usage as error:
            print_error(str(explained(error)))
        except ModuleNotFoundError as error:
            known = extras.explained(error)
            if known is None:
                raise
            print_error(str(known))
        except MemoryError:
            print_error("memory is exhausted; lower --workers or close other programs")
        except OSError as error:
            if error.errno == errno.EPIPE:
                raise  # click ends in silence: the reader of a pipe has seen enough
            print_system_error(error)
        return ctx.exit(EXIT_USER_ERROR)


_REMEDIES: Final = {
    errno.ENOSPC: "free disk space, or write elsewhere",
    errno.EDQUOT: "free disk space, or write elsewhere",
    errno.EROFS: "write elsewhere",
    errno.EACCES: "check the permissions, or name another place",
    errno.EPERM: "check the permissions, or name another place",
    errno.EMFILE: "raise the limit of open files (ulimit -n)",
    errno.ENOMEM: "lower --workers or close other programs",
    errno.EAGAIN: "raise the limit of processes (ulimit -u) or lower --workers",
}


def print_system_error(error: OSError) -> None:
    """An error of the operating system in one line, like ours."""
    place = error.filename or "the system or standard output"
    remedy = _REMEDIES.get(error.errno or 0, "")
    text = f"{place}: {error.strerror or error}"
    print_error(f"{text}; {remedy}" if remedy else text)


def say(text: str, *, err: bool = False) -> None:
    """Print lines in which names may hold anything; commands speak so, or through a console."""
    typer.echo(printable_lines(text), err=err)


def print_error(text: str) -> None:
    """One line on standard error, where names of files may hold anything."""
    line = printable(" ".join(text.split()))
    with contextlib.suppress(OSError):
        print(f"error: {line}", file=sys.stderr, flush=True)  # noqa: T201  (the command's own stream)


def flush_output(code: str | int | None) -> str | int | None:
    """The exit code of the command, once its output has left the process."""
    try:
        sys.stdout.flush()
    except OSError as error:
        with contextlib.suppress(OSError):  # what is left in the buffer goes nowhere
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno == errno.EPIPE:
            return code or EXIT_CHECK_FAILED
        if not code:
            print_system_error(error)
        return code or EXIT_USER_ERROR
    return code


def _version(wanted: bool) -> None:
    if wanted:
        from tilewright import __version__

        say(f"tilewright {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Root,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # Rich's tables cut the names of options where a terminal is narrow
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": HELP_WIDTH,
    },
    help="Co-design of an int8 GEMM accelerator: tune RTL parameters and layer schedules against "
    "cycle counts of the RTL itself, simulated in Verilator and checked bit-exact.",
)


@app.callback()
def root(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """What stands before the commands."""
    del version


def open_console() -> PrintableConsole:
    """Standard output: as wide as the terminal, or `LOG_WIDTH` columns into a file."""
    from tilewright.cli.common.console import PrintableConsole

    console = PrintableConsole()
    return console if console.is_terminal else PrintableConsole(width=LOG_WIDTH)


def require_passed(passed: object) -> None:
    """End with the exit code of a check that failed, if it did."""
    if not passed:
        raise typer.Exit(EXIT_CHECK_FAILED)


def blame(rtl: object = None) -> str:
    """What to do about a result that is wrong."""
    if rtl:
        return f"mend the RTL of {printable(str(rtl))}; a copy must be of this version"
    return "this is a defect of Tilewright: please report it with this command"


def fail_wrong(wrong: str, remedy: str = "") -> NoReturn:
    """Tell of a result that differs from what it must be, and end."""
    say(f"WRONG RESULT: {wrong}; {remedy or blame()}", err=True)
    raise typer.Exit(EXIT_CHECK_FAILED)
