# SPDX-License-Identifier: Apache-2.0
"""What commands do with a user's files and memories unless they are told otherwise."""

from __future__ import annotations

import inspect

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tilewright.cli.application import ORDER
from tilewright.cli.certify import certify
from tilewright.cli.commands import app
from tilewright.cli.exhaust import exhaust
from tilewright.cli.export import export_table
from tilewright.cli.run import run_command
from tilewright.cli.sim import sim
from tilewright.cli.tune import tune


@pytest.mark.parametrize("command", [certify, exhaust, export_table, run_command, sim, tune])
def test_the_memory_is_that_of_the_board_unless_another_is_asked_for(command):
    assert inspect.signature(command).parameters["memory"].default == "board"


def test_a_table_says_its_memory_and_that_it_replaces_a_file(tmp_path):
    output = tmp_path / "t.csv.gz"
    words = ["export-table", "C11", "--folder", str(tmp_path), "--output", str(output)]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 0, first.output
    assert "memory pynq-z2" in first.stdout
    assert "replaces" not in first.output
    again = CliRunner().invoke(app, words)
    assert again.exit_code == 0
    assert f"{output} exists: this replaces it" in again.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["tuners", "--json", "FILE"],
        ["report", "--runs", "FOLDER", "--output", "FILE"],
        ["bench", "tuners-page", "none.json", "--output", "page.md", "--html", "FILE"],
    ],
)
def test_a_file_that_an_option_names_is_replaced_aloud(tmp_path, words):
    file = tmp_path / "mine.html"
    file.write_text("mine", encoding="utf-8")
    names = {"FILE": str(file), "FOLDER": str(tmp_path)}
    done = CliRunner().invoke(app, [names.get(word, word) for word in words])
    assert f"{file} exists: this replaces it" in done.stderr


def test_every_command_has_its_place_in_the_help_and_tune_comes_before_report():
    assert len(set(ORDER)) == len(ORDER)
    assert set(get_command(app).commands) == set(ORDER)
    assert ORDER.index("tune") < ORDER.index("report") < ORDER.index("export")
