# SPDX-License-Identifier: Apache-2.0
"""What the parser of command lines refuses is told in our words: rule, field, value, remedy."""

import contextlib
import io
from typing import Any, get_args

import pytest
from typer.main import get_command

from tilewright.cli.commands import app

RAW = ("input should", "unable to parse", "requires an argument", "unexpected extra", "not take")
"""Words of the libraries that parse."""


def numbers(command: Any, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    """Every option of every command that is a number, with the command."""
    found = [
        (path, parameter)
        for parameter in command.params
        for kind in [parameter.type_descriptor.annotation]
        if parameter.opts[0].startswith("-") and {kind, *get_args(kind)} & {int, float}
    ]
    for name, part in getattr(command, "commands", {}).items():
        found += numbers(part, (*path, name))
    return found


COMMAND: Any = get_command(app)
"""Made once: Typer's runner makes it for every call."""
NUMBERS = numbers(COMMAND)


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
        line = error_of(*path, option, "many")
        assert line.startswith(f"{option}: must be a "), line
        assert "number" in line
        assert line.endswith(f", not 'many'; see 'tilewright {' '.join(path)} --help'")


@pytest.mark.parametrize("side", ["min", "max"])
def test_every_bound_of_an_option_is_told(side: str) -> None:
    bounded = [(path, each) for path, each in NUMBERS if getattr(each, side) is not None]
    assert bounded
    for path, parameter in bounded:
        bound = getattr(parameter, side)
        beyond = str(bound - 1 if side == "min" else bound + 1)
        line = error_of(*path, parameter.opts[0], beyond)
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
