# SPDX-License-Identifier: Apache-2.0
"""What commands print is text: names of files, layers and studies steer no terminal."""

import io

import pytest
from rich.table import Table
from rich.text import Text

from tilewright.cli.common.console import PrintableConsole

NASTY = "a\x1b[2J\x9b31m\u202eb"
SHOWN = r"a\x1b[2J\x9b31m\u202eb"


def console(*, terminal: bool) -> PrintableConsole:
    return PrintableConsole(file=io.StringIO(), width=200, force_terminal=terminal)


@pytest.mark.parametrize("terminal", [False, True])
def test_names_are_shown_in_lines_and_in_tables(terminal):
    found = console(terminal=terminal)
    found.print(f"saved {NASTY}", highlight=False, markup=False)
    table = Table("layer", NASTY)
    table.add_row(NASTY, "1")
    found.print(table)
    text = found.file.getvalue()
    assert text.count(SHOWN) == 3
    assert NASTY not in text
    assert "\x9b" not in text
    assert "\u202e" not in text


def test_a_text_that_was_made_elsewhere_is_shown_too():
    found = console(terminal=True)
    found.print(Text(NASTY))
    assert found.file.getvalue() == f"{SHOWN}\n"


def test_styles_of_the_command_itself_stay():
    found = console(terminal=True)
    found.print("[green]ok[/]", "x", sep="\n")
    assert found.file.getvalue() == "\x1b[32mok\x1b[0m\nx\n"
