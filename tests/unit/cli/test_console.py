# SPDX-License-Identifier: Apache-2.0
"""What commands print is text: names of files, layers and studies steer no terminal."""

import ast
import io
import time
from pathlib import Path

import pytest
from rich.table import Table
from rich.text import Text
from support.command_line import call

from tilewright import bench, cli
from tilewright.cli.common import progress as module
from tilewright.cli.common.application import say
from tilewright.cli.common.console import PrintableConsole
from tilewright.cli.common.progress import progress

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


# -- no name from a file steers the terminal ------------------------------------------------------

EVIL = "evil\x1b]0;owned\x07\x1b[2J\r\u202e"
SPEAKER = Path("common/application.py")
"""The one module that may print."""


@pytest.mark.parametrize("package", [cli, bench])
def test_no_command_prints_past_the_sanitiser(package):
    root = Path(package.__file__).parent
    found = []
    for path in root.rglob("*.py"):
        if path.relative_to(root) == SPEAKER and package is cli:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            match node:
                case ast.Attribute(value=ast.Name(id="typer"), attr="echo" | "secho"):
                    found.append(f"{path.name}:{node.lineno}")
                case ast.Call(func=ast.Name(id="print")) if package is cli:
                    found.append(f"{path.name}:{node.lineno}")
    assert not found


def test_what_is_said_keeps_its_lines_and_no_control_characters(capsys):
    say(f"a\n{EVIL}")
    said = capsys.readouterr().out
    assert said.count("\n") == 2
    assert all(line.isprintable() for line in said.splitlines())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('name: "a\\e[2J"\n', ["synth", "FILE"]),
        ('"k\\e[2J": 1\n', ["sim", "C10", "--hw", "FILE"]),
        ('layers: [{kind: "\\e[2J"}]\n', ["map", "FILE"]),
        ('layers: [{name: "\\e[2J", "\\u202e": 1}]\n', ["sim", "L1", "--network", "FILE"]),
        ("name: !!\x1b[2J x\n", ["boards", "--json", "FILE"]),
    ],
)
def test_errors_about_a_file_hold_no_control_characters(tmp_path, text, words):
    path = tmp_path / f"{EVIL.replace('/', '')}.yaml"
    path.write_text(text, encoding="utf-8")
    done = call(*[str(path) if word == "FILE" else word for word in words])
    assert done.exit_code == 2, done.output
    assert "\x1b" not in done.output
    assert all(line.isprintable() for line in done.output.split("\n"))


# -- progress is for people in front of a terminal, and for nobody else ---------------------------


class Screen(io.StringIO):
    """A terminal that keeps what is shown."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def use_screen(monkeypatch, patience=0.0):
    """Called in a test, not before it: pytest sets standard error anew when a test begins."""
    shown = Screen()
    monkeypatch.setattr("sys.stderr", shown)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(module, "PATIENCE_SECONDS", patience)
    return shown


def test_a_terminal_sees_what_is_done_and_how_much_of_it(monkeypatch):
    screen = use_screen(monkeypatch)
    end = time.monotonic() + 60
    with progress("first", total=4) as steps:
        steps.at("third\x1b[2J", 2, 4)
        while "third" not in screen.getvalue() and time.monotonic() < end:
            time.sleep(0.01)
    text = screen.getvalue()
    assert "third" in text
    assert "2/4" in text
    assert "\x1b[2J" not in text, "a name steers no terminal"


def test_nothing_is_shown_with_json_or_without_a_terminal(monkeypatch):
    screen = use_screen(monkeypatch)
    with progress("first", quiet=True) as steps:
        steps.say("second")
        steps.advance()
        steps.at("third", 1, 2)
        time.sleep(0.2)
    assert screen.getvalue() == ""
    log = io.StringIO()
    monkeypatch.setattr("sys.stderr", log)
    with progress("first") as steps:
        steps.advance()
    assert log.getvalue() == ""


def test_what_ends_early_shows_nothing(monkeypatch):
    screen = use_screen(monkeypatch, patience=3600.0)
    with progress("first"):
        pass
    assert "first" not in screen.getvalue()


def test_an_error_passes_and_the_display_ends(monkeypatch):
    screen = use_screen(monkeypatch)
    with pytest.raises(ValueError, match="no"), progress("first"):
        raise ValueError("no")
    assert not screen.getvalue().endswith("first")
