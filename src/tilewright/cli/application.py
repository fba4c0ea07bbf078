# SPDX-License-Identifier: Apache-2.0
"""The application that commands register with: exit codes, errors as one line, the console."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

import contextlib
import errno
import os
import sys
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from typer.core import TyperGroup

from tilewright.cli.ending import interrupt_behind, last_words
from tilewright.cli.words import check_words
from tilewright.host.common import extras
from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.names import choices
from tilewright.host.common.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

EXIT_USER_ERROR: Final = 2
EXIT_CHECK_FAILED: Final = 1

LOG_WIDTH: Final = 120
"""Columns of tables when the output is no terminal."""


class UsageError(TilewrightError):
    """An argument of the command line cannot be used."""


class _Group(TyperGroup):
    """Turns errors that users can act on into one line and an exit code."""

    def main(self, *words: Any, **options: Any) -> Any:
        """Run the command; a signal, which Typer ends in silence, is told in a line."""
        try:
            return super().main(*words, **options)
        except SystemExit as ended:
            interrupt = interrupt_behind(ended)
            if interrupt is None:
                raise
        text, code = last_words(interrupt)
        print(text, file=sys.stderr)  # noqa: T201  (output)
        sys.exit(code)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the command line apart, once it is known to be words."""
        try:
            check_words(args)
        except TilewrightError as error:
            print_error(str(error))
            ctx.exit(EXIT_USER_ERROR)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TilewrightError as error:
            print_error(str(error))
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

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a command; the nearest one is suggested."""
        if args and self.get_command(ctx, args[0]) is None and not args[0].startswith("-"):
            raise UsageError(
                "no such command", field=args[0], remedy=choices(args[0], self.list_commands(ctx))
            )
        return super().resolve_command(ctx, args)


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


def print_error(text: str) -> None:
    """One line on standard error, where names of files may hold anything."""
    line = printable(" ".join(text.split()))
    with contextlib.suppress(OSError):
        print(f"error: {line}", file=sys.stderr, flush=True)  # noqa: T201  (the command's own stream)


def flush_output(code: str | int | None) -> str | int | None:
    """The exit code of the command, once its output has left the process.

    Python itself would tell of a full disk in a traceback, after everything else.
    """
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

        typer.echo(f"tilewright {__version__}")
        raise typer.Exit


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
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


def open_console() -> Console:
    """Standard output: as wide as the terminal, or `LOG_WIDTH` columns into a file."""
    from tilewright.cli.console import PrintableConsole

    console = PrintableConsole()
    return console if console.is_terminal else PrintableConsole(width=LOG_WIDTH)
