# SPDX-License-Identifier: Apache-2.0
"""Tables on a terminal of any width: text folds, numbers are whole."""

from __future__ import annotations

from typing import Final

from rich import box
from rich.console import Console
from rich.table import Table

_UNLIMITED: Final = 1 << 16
"""Columns of a terminal on which every table fits."""


def plain_table(*headings: str, left: int = 1) -> Table:
    """A table without borders: the first columns to the left, those of numbers to the right."""
    table = Table(box=box.SIMPLE, padding=(0, 1, 0, 0), pad_edge=False)
    for place, heading in enumerate(headings):
        table.add_column(heading, justify="left" if place < left else "right")
    return table


def print_table(table: Table, console: Console) -> None:
    """Print a table with all its data: on a narrow terminal its lines run over, none is cut."""
    for column in table.columns:
        column.overflow = "fold"
        column.no_wrap = column.justify == "right"
    unlimited = console.options.update(width=_UNLIMITED)  # a measure is never above the width
    least = console.measure(table, options=unlimited).minimum
    if least <= console.width:
        console.print(table)
        return
    table.width = least  # of the table itself: a console clamps every other width to its own
    console.print(table, soft_wrap=True, crop=False)
