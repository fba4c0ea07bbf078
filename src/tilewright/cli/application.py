# SPDX-License-Identifier: Apache-2.0
"""The application that commands register with: exit codes, errors as one line, the console."""

# ruff: noqa: PLC0415  (imports inside functions keep `tilewright --help` fast)

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperGroup

from tilewright.host import extras
from tilewright.host.errors import TilewrightError
from tilewright.host.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

EXIT_USER_ERROR: Final = 2
EXIT_CHECK_FAILED: Final = 1
EXIT_INTERRUPTED: Final = 130

LOG_WIDTH: Final = 120
"""Columns of tables when the output is no terminal."""


class UsageError(TilewrightError):
    """An argument of the command line cannot be used."""


class _Group(TyperGroup):
    """Turns errors that users can act on into one line and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except TilewrightError as error:
            self._fail(ctx, error)
        except ModuleNotFoundError as error:
            known = extras.explained(error)
            if known is None:
                raise
            self._fail(ctx, known)
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)  # noqa: T201  (output)
            ctx.exit(EXIT_INTERRUPTED)

    @staticmethod
    def _fail(ctx: Any, error: TilewrightError) -> None:
        line = printable(" ".join(str(error).split()))  # names of files may hold anything
        print(f"error: {line}", file=sys.stderr)  # noqa: T201  (the command's own stream)
        ctx.exit(EXIT_USER_ERROR)


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Co-design of an int8 GEMM accelerator: tune RTL parameters and layer schedules against "
    "cycle counts of the RTL itself, simulated in Verilator and checked bit-exact.",
)


def open_console() -> Console:
    """Standard output: as wide as the terminal, or `LOG_WIDTH` columns into a file."""
    from tilewright.cli.console import PrintableConsole

    console = PrintableConsole()
    return console if console.is_terminal else PrintableConsole(width=LOG_WIDTH)
