# SPDX-License-Identifier: Apache-2.0
"""Fields of settings are the arguments of a function and the options of a command, alike."""

import inspect
from dataclasses import KW_ONLY, MISSING, dataclass
from enum import StrEnum

import typer
from typer.testing import CliRunner

from tilewright.cli.common.application import Command
from tilewright.cli.common.options import from_fields
from tilewright.host.common.options import option, takes


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Paint:
    what: str = option(MISSING, "What is painted.", kind=str, argument=True, metavar="THING")
    _: KW_ONLY
    colour: str = option("red", "Its colour.", kind=Colour)
    coats: int = option(1, "How often.", kind=int, low=1, metavar="N", panel="Rare")
    dry: bool = option(False, "Wait for it.", kind=bool)
    names: tuple[str, ...] = option(
        (), "Who sees it.", kind=str | None, parse=lambda text: tuple((text or "").split()),
        metavar="NAMES",
    )  # fmt: skip
    secret: int = option(7, "For Python alone.")


@takes(Paint)
def paint(options: Paint) -> Paint:
    """Paint.

    Returns:
        What was asked for.
    """
    return options


def command(*words: str) -> tuple[object, str]:
    """What a command line makes of the settings, and what it prints."""
    app, made = typer.Typer(rich_markup_mode=None), []

    @app.command(cls=Command)
    @from_fields(Paint)
    def told(settings: Paint, loud: bool = False) -> None:
        """Paint."""
        made.append((settings, loud))

    done = CliRunner().invoke(app, list(words))
    return (made[0] if made else done.exit_code), done.output


def test_a_function_and_a_command_have_the_defaults_of_the_fields() -> None:
    assert paint("wall") == Paint("wall")
    assert command("wall")[0] == (Paint("wall"), False)


def test_values_arrive_as_the_fields_want_them() -> None:
    wanted = Paint("wall", colour="blue", coats=2, dry=True, names=("a", "b"))
    words = ("wall", "--colour", "blue", "--coats", "2", "--dry", "--names", "a b", "--loud")
    assert command(*words)[0] == (wanted, True)
    assert paint("wall", colour="blue", coats=2, dry=True, names=("a", "b")) == wanted


def test_a_value_below_the_least_is_refused() -> None:
    assert command("wall", "--coats", "0")[0] == 2


def test_the_function_tells_its_arguments_and_the_command_its_options() -> None:
    assert list(inspect.signature(paint).parameters) == [
        "what", "colour", "coats", "dry", "names", "secret",
    ]  # fmt: skip
    assert "    Args:\n        what: What is painted." in (paint.__doc__ or "")
    _, shown = command("--help")
    assert "--secret" not in shown
    assert shown.index("--names") < shown.index("Rare:") < shown.index("--coats")
