# SPDX-License-Identifier: Apache-2.0
"""A table of figures that is shown in a Markdown page, in a CSV file and in an HTML page."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.host.common.printable import printable
from tilewright.tuner.report.drawing.table import Cell, Column, Row, table


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
        return table(self.title, columns, [Row(cells=row) for row in self.rows])


def markdown_text(text: str) -> str:
    """A text that stays what it is in Markdown, whoever named a layer."""
    return re.sub(r"[|\[]|<(?=[A-Za-z/!?])", lambda found: f"&#{ord(found[0])};", printable(text))


def _text(cell: str | Cell) -> str:
    return cell.text if isinstance(cell, Cell) else cell
