# SPDX-License-Identifier: Apache-2.0
"""Tables on a terminal of any width: text folds, numbers are whole."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table


def print_table(table: Table, console: Console) -> None:
    """Print a table with all its data: on a narrow terminal its lines run over, none is cut.

    Args:
        table: its columns of numbers are those to the right.
        console: where to print.
    """
    for column in table.columns:
        column.overflow = "fold"
        column.no_wrap = column.justify == "right"
    least = console.measure(table).minimum
    console.print(
        table, width=max(console.width, least), soft_wrap=least > console.width, crop=False
    )
