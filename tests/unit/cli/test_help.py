# SPDX-License-Identifier: Apache-2.0
"""The help of every command reads alike."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, get_args

import pytest
from typer.main import get_command

from tilewright.cli.arguments import split_layers
from tilewright.cli.commands import app


def parameters(group: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every parameter of every command, with how it is typed."""
    for name, command in group.commands.items():
        if getattr(command, "commands", None):
            yield from parameters(command, f"{path}{name} ")
        for parameter in command.params:
            yield f"{path}{name} {parameter.opts[0]}", parameter


EVERY = dict(parameters(get_command(app)))


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
