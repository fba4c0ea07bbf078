# SPDX-License-Identifier: Apache-2.0
"""Refuse words that no command takes, before the command line is parsed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from tilewright.host.common.errors import TilewrightError


def check_words(words: Sequence[str]) -> None:
    """Refuse words that are no text, and options with an empty value.

    Python hands out bytes that the locale cannot decode as lone surrogates. No file, database or
    report takes them, and each would say so in its own way. An empty value is most often a shell
    variable that is not set; taken as "not given" it would start something else in silence.

    Raises:
        TilewrightError: one of the words.
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
        if not value and (equals or after_option):
            raise TilewrightError(
                "must not be empty", field=option, remedy="give a value or leave the option out"
            )
