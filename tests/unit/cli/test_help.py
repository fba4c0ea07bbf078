# SPDX-License-Identifier: Apache-2.0
"""The help of every command reads alike."""

import contextlib
import inspect
import io
import re
from dataclasses import KW_ONLY, MISSING, dataclass
from enum import Enum, StrEnum
from typing import Any, get_args

import pytest
import typer
from support.command_line import commands
from typer.main import get_command
from typer.testing import CliRunner

from tilewright.cli.commands import app
from tilewright.cli.common.application import Command
from tilewright.cli.common.options import from_fields
from tilewright.host.common.options import option, takes
from tilewright.tuner.study.options import split_layers

COMMANDS = dict(commands())
EVERY = [(path, each) for path, command in COMMANDS.items() for each in command.params]
OPTION = r"--[a-z][a-z0-9-]*"


def takes_a_word(parameter: Any) -> bool:
    """Neither a switch nor one of the choices that Typer lists itself."""
    kind = parameter.type_descriptor.annotation
    kinds = {kind, *get_args(kind)}
    listed = any(isinstance(each, type) and issubclass(each, Enum) for each in kinds)
    return not (getattr(parameter, "is_flag", False) or listed)


def test_every_option_says_in_a_word_what_it_takes() -> None:
    found = [(path, each.opts[0], each.metavar or "") for path, each in EVERY if takes_a_word(each)]
    assert len(found) > 200
    wrong = [each for each in found if not each[-1] or each[-1] != each[-1].upper()]
    assert [each for each in wrong if "|" not in each[-1]] == []


def test_the_help_of_every_option_is_a_sentence() -> None:
    wrong = [(path, each.name) for path, each in EVERY if not (each.help or "").endswith(".")]
    assert wrong == []


def test_a_switch_that_is_off_has_no_second_form() -> None:
    def offers_both(parameter: Any) -> bool:
        return parameter.default is False and bool(parameter.secondary_opts)

    assert [(path, each.name) for path, each in EVERY if offers_both(each)] == []


@pytest.mark.parametrize(
    ("text", "names"),
    [("", ()), ("C1", ("C1",)), ("C1,C2", ("C1", "C2")), ('"a,b",c', ("a,b", "c"))],
)
def test_names_of_layers_may_have_commas(text: str, names: tuple[str, ...]) -> None:
    assert split_layers(text) == names


@pytest.mark.parametrize("path", COMMANDS)
def test_a_terminal_of_80_columns_cuts_no_word_of_the_help(path: str) -> None:
    done = CliRunner().invoke(app, [*path.split(), "--help"], env={"COLUMNS": "80"})
    assert done.exit_code == 0
    command, shown = COMMANDS[path], done.stdout
    assert max(map(len, shown.splitlines())) <= 80
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown
    words = shown.split()
    for word in re.findall(OPTION, command.help or ""):
        assert any(word in each for each in words), word
    for parameter in command.params:
        typed = [name for name in (*parameter.opts, *parameter.secondary_opts) if name[0] == "-"]
        named = re.findall(OPTION, parameter.help or "")
        for word in (*typed, *(parameter.metavar or "").split(), *named):
            assert any(word in each for each in words), word
    told = " ".join(words)
    assert path in told
    for part in getattr(command, "commands", {}).values():
        assert " ".join(part.get_short_help_str(limit=1000).split()) in told


def test_the_help_lists_commands_by_panel() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout
    headings = re.findall(r"^(\w.*):$", shown, re.MULTILINE)
    assert headings == [
        "Options", "Common", "Measure", "Tune", "Boards and configurations", "Verify", "Maintain",
    ]  # fmt: skip


# -- fields of settings are the arguments of a function and the options of a command, alike -------


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True)
class Paint:
    what: str = option(MISSING, "What is painted.", argument=True, metavar="THING")
    _: KW_ONLY
    colour: str = option("red", "Its colour.", kind=Colour)
    coats: int = option(1, "How often.", low=1, high=9, metavar="N", panel="Rare")
    dry: bool = option(False, "Wait for it.")
    names: tuple[str, ...] = option(
        (), "Who sees it.", kind=str | None, parse=lambda text: tuple((text or "").split()),
        metavar="NAMES",
    )  # fmt: skip
    secret: int = option(7, "For Python alone.", kind=None)


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


@pytest.mark.parametrize("coats", ["0", "10"])
def test_a_value_out_of_its_range_is_refused(coats: str) -> None:
    assert command("wall", "--coats", coats)[0] == 2


def test_the_function_tells_its_arguments_and_the_command_its_options() -> None:
    assert list(inspect.signature(paint).parameters) == [
        "what", "colour", "coats", "dry", "names", "secret",
    ]  # fmt: skip
    assert "    Args:\n        what: What is painted." in (paint.__doc__ or "")
    _, shown = command("--help")
    assert "--secret" not in shown
    assert shown.index("--names") < shown.index("Rare:") < shown.index("--coats")


# -- what the parser of command lines refuses is told in our words --------------------------------

RAW = ("input should", "unable to parse", "requires an argument", "unexpected extra", "not take")
"""Words of the libraries that parse."""


COMMAND: Any = get_command(app)
"""Made once: Typer's runner makes it for every call."""
NUMBERS = [
    (path, each)
    for path, each in EVERY
    if each.opts[0].startswith("-")
    and {kind := each.type_descriptor.annotation, *get_args(kind)} & {int, float}
]


def error_of(*words: str) -> str:
    told = io.StringIO()
    with contextlib.redirect_stderr(told), pytest.raises(SystemExit) as ended:
        COMMAND.main(list(words), prog_name="tilewright")
    assert ended.value.code == 2
    (line,) = told.getvalue().splitlines()
    assert not any(word in line.lower() for word in RAW)
    return line.removeprefix("error: ")


def test_every_option_that_is_a_number_says_so() -> None:
    assert len(NUMBERS) > 80
    for path, parameter in NUMBERS:
        option = parameter.opts[0]
        line = error_of(*path.split(), option, "many")
        assert line.startswith(f"{option}: must be a "), line
        assert "number" in line
        assert line.endswith(f", not 'many'; see 'tilewright {path} --help'")


@pytest.mark.parametrize("side", ["min", "max"])
def test_every_bound_of_an_option_is_told(side: str) -> None:
    bounded = [(path, each) for path, each in NUMBERS if getattr(each, side) is not None]
    assert bounded
    for path, parameter in bounded:
        bound = getattr(parameter, side)
        beyond = str(bound - 1 if side == "min" else bound + 1)
        line = error_of(*path.split(), parameter.opts[0], beyond)
        assert line.startswith(f"{parameter.opts[0]}: must be a "), line
        assert f" {bound}" in line.partition(", not ")[0]
        assert f"not '{beyond}'" in line


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("sim", "C2", "C3"), "C3: is more than "),
        (("sim", "C2", "--hw"), "--hw: needs a value; write one behind the option"),
        (("run", "m.tw", "--check=3"), "--check: is a switch without a value; write the option"),
        (("sim",), "LAYER: must be given; see "),
        (("sim", "C2", "--quik"), "--quik: "),
        (("compile", "m.onnx", "--calibration-method", "ms"), "--calibration-method: no such"),
    ],
)
def test_other_errors(words: tuple[str, ...], told: str) -> None:
    assert error_of(*words).startswith(told)
