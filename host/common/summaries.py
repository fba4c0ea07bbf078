# SPDX-License-Identifier: Apache-2.0
"""`Summarised`: how results show themselves, in a line, as text and in notebooks."""

from __future__ import annotations

import html
from abc import abstractmethod
from collections.abc import Mapping
from typing import Final

from tilewright.host.common.plain_values import is_integer
from tilewright.host.common.printable import printable

_CHARACTERS: Final = 120
"""Of a value that is shown."""

_IN_A_LINE: Final = 3
"""Values that `repr` shows."""


class Summarised:
    """A result that tells what it holds instead of all of it; a dataclass adds ``repr=False``."""

    __slots__ = ()

    @abstractmethod
    def _told(self) -> Mapping[str, object]:
        """What it holds, the most important first: names to short values with their units."""

    def _lines(self) -> list[tuple[str, str]]:
        return [(k, printable(str(v), limit=_CHARACTERS)) for k, v in self._told().items()]

    def summary(self) -> str:
        """What it holds, as lines of text."""
        lines = self._lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join(f"{name:<{width}}  {value}" for name, value in lines)

    def __repr__(self) -> str:
        """Its kind and the first values."""
        told = list(self._told().items())[:_IN_A_LINE]
        values = (f"{name} {value}" if is_integer(value) else str(value) for name, value in told)
        return printable(f"<{type(self).__name__} {', '.join(values)}>", limit=_CHARACTERS)

    def _repr_html_(self) -> str:
        """The summary as a table, for notebooks."""
        rows = (
            f"<tr><th style='text-align: left'>{html.escape(name)}</th>"
            f"<td style='text-align: left'>{html.escape(value)}</td></tr>"
            for name, value in self._lines()
        )
        return f"<table>{''.join(rows)}</table>"
