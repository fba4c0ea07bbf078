# SPDX-License-Identifier: Apache-2.0
"""A study as one small file beside its page, and the tables of the page from that file alone.

The file holds what each run came to; every table of the page is computed from it anew, which a test
does. Prose is written by hand around the tables.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tilewright.bench.framework.tables import FigureTable
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.whole_file import refuse_foreign, write_whole

Row = dict[str, Any]
Document = Mapping[str, Any]

_REGION: Final = re.compile(
    r"(<!-- table: ([\w, .:=-]+) -->\n).*?(<!-- end of table -->)", re.DOTALL
)

DIGITS: Final = 8
"""Of a number that is kept."""


def packed(rows: Iterable[Mapping[str, Any]], members: Sequence[str]) -> dict[str, Any]:
    """Rows with some of their members, each name once."""
    kept = [[_short(row[member]) for member in members] for row in rows]
    names: dict[str, list[str]] = {}
    for place, member in enumerate(members):
        if all(isinstance(row[place], str) for row in kept):
            names[member] = list(dict.fromkeys(row[place] for row in kept))
            for row in kept:
                row[place] = names[member].index(row[place])
    return {"columns": list(members), "names": names, "rows": kept}


def unpacked(table: Document) -> Iterator[Row]:
    """The rows of `packed`."""
    names = table["names"]
    for row in table["rows"]:
        whole = dict(zip(table["columns"], row, strict=True))
        yield {**whole, **{member: names[member][whole[member]] for member in names}}


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    return [_short(each) for each in value] if isinstance(value, list) else value


def renewed(page: str, tables: Mapping[str, FigureTable]) -> str:
    """A page with its tables made anew.

    Raises:
        ConfigError: the page has no place for a table, or names one that there is not.
    """

    def replaced(region: re.Match[str]) -> str:
        if region[2] not in tables:
            raise ConfigError(
                "no such table", field="--page", value=region[2],
                remedy=f"one of {', '.join(tables)}",
            )  # fmt: skip
        return f"{region[1]}\n{tables[region[2]].markdown()}\n\n{region[3]}"

    text, count = _REGION.subn(replaced, page)
    if not count:
        example = f"'<!-- table: {next(iter(tables))} -->' and '<!-- end of table -->'"
        raise ConfigError(
            "the page has no place for a table",
            field="--page",
            remedy=f"write {example} into it",
        )
    return text


def write_page(page: Path, document: Document, tables: Mapping[str, FigureTable]) -> None:
    """Write the file of a study beside its page, and the page's tables."""
    data = page.with_suffix(".json")
    text = renewed(page.read_text(encoding="utf-8"), tables)
    refuse_foreign(data)
    write_whole(data, json.dumps(document, indent=None, separators=(",", ":")) + "\n")
    page.write_text(text, encoding="utf-8")
