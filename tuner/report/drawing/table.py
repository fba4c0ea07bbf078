# SPDX-License-Identifier: Apache-2.0
"""Tables of a page: sortable where JavaScript runs, scrolled inside of themselves on a phone."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from tilewright.tuner.report.drawing.marks import element


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column."""

    title: str  # its heading
    number: bool = False  # to the right, and sorted by value
    explained: str = ""  # said when the heading is pointed at; empty: nothing
    wide: bool = False  # a text of several words, which gets room for them


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A cell that says more than its text."""

    text: str  # shown
    explained: str = ""  # said when it is pointed at; empty: nothing
    value: float | None = None  # what it is sorted by; None: its text


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row."""

    cells: Sequence[str | Cell]  # one per column
    strong: bool = False  # emphasised
    total: bool = False  # stands below the others, however they are sorted


T = TypeVar("T")


def term(text: str, explained: str) -> str:
    """A word with its explanation, for pointer, touch and keyboard."""
    if not explained:
        return html.escape(text)
    return element(
        "span", html.escape(text), class_="term", tabindex=0, data_tip=explained,
        aria_description=explained,
    )  # fmt: skip


def table(caption: str, columns: Sequence[Column], rows: Sequence[Row]) -> str:
    """A table; a box of its own scrolls when the page is narrower."""
    head = "".join(
        element(
            "th", term(each.title, each.explained), scope="col",
            class_=" ".join(filter(None, ["n" if each.number else "", "w" if each.wide else ""])),
        )
        for each in columns
    )  # fmt: skip
    body = "".join(_row(columns, row) for row in rows if not row.total)
    foot = "".join(_row(columns, row) for row in rows if row.total)
    inner = f"<caption>{html.escape(caption)}</caption><thead><tr>{head}</tr></thead>"
    inner += f"<tbody>{body}</tbody>" + (f"<tfoot>{foot}</tfoot>" if foot else "")
    return element(
        "div", f"<table>{inner}</table>", class_="scroll", role="region", aria_label=caption,
        tabindex=0,
    )  # fmt: skip


def table_of(
    caption: str,
    rows: Iterable[T],
    columns: Mapping[str | Column, Callable[[T], str | Cell]],
    *,
    strong: Callable[[T], bool] = lambda _: False,
    total: Sequence[Row] = (),
) -> str:
    """A table whose columns say of each row what stands in them; a text heads one of figures."""
    heads = [Column(title=each, number=True) if isinstance(each, str) else each for each in columns]
    found = [Row(cells=[of(row) for of in columns.values()], strong=strong(row)) for row in rows]
    return table(caption, heads, [*found, *total])


def _row(columns: Sequence[Column], row: Row) -> str:
    cells = []
    for place, (column, given) in enumerate(zip(columns, row.cells, strict=True)):
        cell = given if isinstance(given, Cell) else Cell(text=given)
        kinds = ["n" if column.number else "", "w" if column.wide else ""]
        name, scope = ("th", "row") if place == 0 else ("td", None)
        value = None if cell.value is None else f"{cell.value:.10g}"
        cells.append(
            element(
                name, term(cell.text, cell.explained), scope=scope, data_value=value,
                class_=" ".join(filter(None, kinds)),
            )
        )  # fmt: skip
    return element("tr", "".join(cells), class_="strong" if row.strong or row.total else "")
