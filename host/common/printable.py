# SPDX-License-Identifier: Apache-2.0
"""Text of others (a wire, a file name, a name in a store) made safe to show in a terminal."""

from __future__ import annotations

import unicodedata
from typing import Final

_CUT: Final = "..."


def printable(text: str, *, limit: int | None = None) -> str:
    r"""A text with a visible escape in the place of each character that a terminal acts on.

    Escaped are the control characters (ESC, newline and tab among them), C1 controls, marks that
    turn the direction of text or have no width, line separators, and the lone surrogates of file
    names that are not UTF-8: whatever `str.isprintable` denies. A backslash stays as it is, so
    the result is to be read, not to be decoded.
    """
    beginning = text if limit is None else text[: limit + 1]  # an escape is never shorter
    shown = (
        beginning
        if beginning.isprintable()
        else "".join(c if c.isprintable() else _escape(c) for c in beginning)
    )
    if limit is None or len(shown) <= limit:
        return shown
    return shown[: limit - len(_CUT)] + _CUT


def printable_lines(text: str) -> str:
    """`printable` for a text of several lines, which stay lines."""
    return "\n".join(map(printable, text.split("\n")))


def printable_document(text: str) -> str:
    """`printable` for a whole file: lines, tabs and spaces of every width stay as they are."""
    return "".join(
        c if c.isprintable() or c in "\n\t" or unicodedata.category(c) == "Zs" else _escape(c)
        for c in text
    )


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
