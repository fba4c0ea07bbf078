# SPDX-License-Identifier: Apache-2.0
"""What commands do with a user's files and memories unless they are told otherwise."""

from __future__ import annotations

import inspect

import pytest
from typer.testing import CliRunner

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
