# SPDX-License-Identifier: Apache-2.0
"""Progress is for people in front of a terminal, and for nobody else."""

import io
import time

import pytest

from tilewright.cli.common import progress as module
from tilewright.cli.common.progress import progress


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
