# SPDX-License-Identifier: Apache-2.0
"""The help of every command reads alike."""

import re
from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tilewright.cli.commands import app
from tilewright.tuner.study.options import split_layers


def parameters(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every parameter of every command, with how it is typed."""
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from parameters(command, f"{path}{name} ")
        for parameter in command.params:
            yield f"{path}{name} {parameter.opts[0]}", parameter


EVERY = dict(parameters(get_command(app)))


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """The application and every command of it, with how it is typed."""
    yield path, command
    for name, part in getattr(command, "commands", {}).items():
        yield from commands(part, (*path, name))


COMMANDS = dict(commands(get_command(app)))
OPTION = r"--[a-z][a-z0-9-]*"


def takes_a_word(parameter: Any) -> bool:
    """Neither a switch nor one of the choices that Typer lists itself."""
    kind = parameter.type_descriptor.annotation
    kinds = {kind, *get_args(kind)}
    listed = any(isinstance(each, type) and issubclass(each, Enum) for each in kinds)
    return not (getattr(parameter, "is_flag", False) or listed)


def test_every_option_says_in_a_word_what_it_takes() -> None:
    found = {name: each.metavar or "" for name, each in EVERY.items() if takes_a_word(each)}
    assert len(found) > 200
    wrong = {name for name, word in found.items() if not word or word != word.upper()}
    assert {name for name in wrong if "|" not in found[name]} == set()


def test_the_help_of_every_option_is_a_sentence() -> None:
    assert [name for name, each in EVERY.items() if not (each.help or "").endswith(".")] == []


def test_a_switch_that_is_off_has_no_second_form() -> None:
    def offers_both(parameter: Any) -> bool:
        return parameter.default is False and bool(parameter.secondary_opts)

    assert [name for name, each in EVERY.items() if offers_both(each)] == []


@pytest.mark.parametrize(
    ("text", "names"),
    [("", ()), ("C1", ("C1",)), ("C1,C2", ("C1", "C2")), ('"a,b",c', ("a,b", "c"))],
)
def test_names_of_layers_may_have_commas(text: str, names: tuple[str, ...]) -> None:
    assert split_layers(text) == names


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_a_terminal_of_80_columns_cuts_no_word_of_the_help(path: tuple[str, ...]) -> None:
    done = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "80"})
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
    for part in getattr(command, "commands", {}).values():
        assert " ".join(part.get_short_help_str(limit=1000).split()) in told


def test_the_help_lists_commands_by_panel() -> None:
    shown = CliRunner().invoke(app, ["--help"], env={"COLUMNS": "80"}).stdout
    headings = re.findall(r"^(\w.*):$", shown, re.MULTILINE)
    assert headings == [
        "Options", "Measure", "Tune", "Networks", "Boards and configurations", "Verify", "Maintain",
    ]  # fmt: skip
