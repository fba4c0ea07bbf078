# SPDX-License-Identifier: Apache-2.0
"""Refuse words that no command takes, before their command parses them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from tilewright.host.common.errors import TilewrightError


def check_words(words: Sequence[str]) -> None:
    """Refuse words that are no text.

    Python hands out bytes that the locale cannot decode as lone surrogates. No file, database or
    report takes them, and each would say so in its own way.
    """
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
    """Refuse empty options and arguments, most often a shell variable that is not set.

    Taken as "not given" it would start something else in silence; taken as a path it would be the
    current folder.
    """
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
