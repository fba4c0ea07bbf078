# SPDX-License-Identifier: Apache-2.0
"""A table loses nothing, however narrow the terminal is."""

import io

import pytest
from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from tilewright.host.common.print_table import print_table

NUMBERS = ("1,234,567", "98.7 %", "7,654,321", "452,471", "3.14x")


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("width", [1, 20, 40, 60, 80])
def test_what_does_not_fit_runs_over_and_is_not_cut(width, terminal):
    table = Table(
        "layer", *(Column(f"heading{i}", justify="right") for i in range(len(NUMBERS))), "limit",
        box=box.SIMPLE, pad_edge=False,
    )  # fmt: skip
    table.add_row(Text("convolution_7"), *NUMBERS, "shared")
    console = Console(width=width, file=io.StringIO(), force_terminal=terminal, no_color=True)
    print_table(table, console)
    shown = console.file.getvalue()
    row = next(line for line in shown.splitlines() if NUMBERS[0] in line)
    assert row.split() == ["convolution_7", *" ".join(NUMBERS).split(), "shared"]
    assert all(f"heading{i}" in shown for i in range(len(NUMBERS)))


def test_text_folds_between_words_before_a_line_runs_over():
    table = Table(Column("cycles", justify="right"), "text", box=box.SIMPLE, pad_edge=False)
    table.add_row("1,234,567", "some words " * 9)
    console = Console(width=40, file=io.StringIO())
    print_table(table, console)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(lines).split().count("words") == 9
