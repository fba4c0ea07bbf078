# SPDX-License-Identifier: Apache-2.0
"""A table of figures that is shown in a Markdown page, in a CSV file and in an HTML page.

A published study is one small file beside its page: it holds what each run came to, and every table
of the page is computed from it anew, which a test does. Prose is written by hand around the tables.
"""

from __future__ import annotations

import csv
import io
import json
import re
import string
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.printable import printable
from tilewright.host.common.whole_file import refuse_foreign, write_whole
from tilewright.tuner.report.drawing.table import Cell, Column, table
from tilewright.tuner.report.drawing.table import Row as TableRow

Document = Mapping[str, Any]
R = TypeVar("R", bound=Mapping[str, Any])


def grouped(rows: Iterable[R], *members: str) -> dict[Any, list[R]]:
    """Rows by one of their members, or by several, in order of first appearance."""
    found: dict[Any, list[R]] = {}
    for row in rows:
        values = tuple(row[member] for member in members)
        found.setdefault(values if len(members) > 1 else values[0], []).append(row)
    return found


class _Words(string.Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec.endswith(" %"):
            return f"{100 * value:{format_spec[:-2]}f} %"
        return str(super().format_field(value, format_spec))


def worded(form: str, members: Mapping[str, Any]) -> str:
    """A text with members, as `str.format`; ``{share:.1 %}`` is a share in percent."""
    return _Words().vformat(form, (), members)


def shown(interval: Mapping[str, float] | None, digits: int = 2, scale: float = 1) -> str:
    """An estimate with its interval; the estimate stands first in it."""
    if interval is None:
        return "-"
    ends = (next(iter(interval.values())), interval["low"], interval["high"])
    value, low, high = (f"{scale * each:.{digits}f}" for each in ends)
    return f"{value} ({low} to {high})"


@dataclass(frozen=True, kw_only=True)
class FigureTable:
    """Rows of figures under a title; the first column holds names."""

    title: str  # what it shows; not used twice on a page
    header: Sequence[str]  # of the columns
    rows: Sequence[Sequence[str | Cell]]  # a text or a `Cell` per column

    def markdown(self) -> str:
        """The table alone: names to the left, figures to the right."""
        lines: list[Sequence[str | Cell]] = [self.header]
        lines += [["---", *["--:"] * (len(self.header) - 1)], *self.rows]
        return "\n".join(
            f"| {' | '.join(markdown_text(_text(cell)) for cell in line)} |" for line in lines
        )

    @property
    def file_name(self) -> str:
        """The title as the name of a file."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")

    def csv(self) -> str:
        """The table for other programs, texts as in the other forms."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows([_text(cell) for cell in row] for row in self.rows)
        return text.getvalue()

    def html(self) -> str:
        """The table alone, sortable."""
        columns = [Column(title=name, number=place > 0) for place, name in enumerate(self.header)]
        return table(self.title, columns, [TableRow(cells=row) for row in self.rows])


def table_of(
    title: str,
    rows: Iterable[Any],
    columns: Mapping[str, str | Callable[[Any], str | Cell]],
) -> FigureTable:
    """A table of rows: columns by their headings, each a text (`worded`) or a function of a row."""
    return FigureTable(
        title=title,
        header=list(columns),
        rows=[
            tuple(worded(of, row) if isinstance(of, str) else of(row) for of in columns.values())
            for row in rows
        ],
    )


def markdown_text(text: str) -> str:
    """A text that stays what it is in Markdown, whoever named a layer."""
    return re.sub(r"[|\[]|<(?=[A-Za-z/!?])", lambda found: f"&#{ord(found[0])};", printable(text))


def _text(cell: str | Cell) -> str:
    return cell.text if isinstance(cell, Cell) else cell


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


def unpacked(table: Document) -> Iterator[dict[str, Any]]:
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
    """A page with its tables made anew."""

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
