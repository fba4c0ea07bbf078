# SPDX-License-Identifier: Apache-2.0
"""What commands do with a user's files and memories unless they are told otherwise."""

import inspect

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from tilewright.cli.certify import certify, exhaust
from tilewright.cli.commands import app
from tilewright.cli.common.application import ORDER
from tilewright.cli.common.json_output import JsonTarget
from tilewright.cli.report import export_table
from tilewright.cli.run import run_command
from tilewright.cli.sim import sim
from tilewright.cli.tune import tune
from tilewright.host.common.whole_file import MARK

MINE = f"<!-- {MARK} -->\nan earlier page"


@pytest.mark.parametrize("command", [certify, exhaust, export_table, run_command, sim, tune])
def test_the_memory_is_that_of_the_board_unless_another_is_asked_for(command):
    assert inspect.signature(command).parameters["memory"].default == "board"


@pytest.mark.parametrize(
    ("words", "replaced"),
    [
        (["tuners", "--json", "FILE"], True),
        (["certify", "no-such-network", "--json", "FILE"], False),
        (["report", "--runs", "FOLDER", "--output", "FILE"], False),
        (["compile", "FILE", "--hw", "no-such-hw", "--output", "FILE"], False),
        (["bench", "tuners-page", "none.json", "--output", "page.md", "--html", "FILE"], False),
    ],
)
def test_a_file_is_said_to_be_replaced_once_it_is_and_never_before(tmp_path, words, replaced):
    file = tmp_path / "mine.html"
    file.write_text(MINE, encoding="utf-8")
    names = {"FILE": str(file), "FOLDER": str(tmp_path)}
    done = CliRunner().invoke(app, [names.get(word, word) for word in words])
    assert (done.exit_code == 0) == replaced, done.output
    assert (file.read_text(encoding="utf-8") == MINE) != replaced
    assert (f"{file}: replaced the file that was there" in done.stderr) == replaced


def test_the_json_file_of_a_run_that_goes_on_is_not_said_to_be_replaced(tmp_path, capsys):
    path = tmp_path / "rows.json"
    for replaces, reads in ((True, False), (True, True), (False, False)):
        target = JsonTarget(str(path), replaces=replaces)
        path.write_text(f'{{"generator": "{MARK}", "rows": []}}', encoding="utf-8")
        if reads:
            target.read()
        target.write([], {})
        target.write([], {})  # a benchmark keeps its rows after each step
        assert capsys.readouterr().err.count("replaced") == (replaces and not reads)


def test_a_device_holds_no_rows_of_an_earlier_run():
    """``/dev/full`` and ``/dev/zero`` can be read for ever."""
    assert JsonTarget("/dev/null").read() is None


def test_every_command_has_its_place_in_the_help_and_tune_comes_before_report():
    assert len(set(ORDER)) == len(ORDER)
    assert set(get_command(app).commands) == set(ORDER)
    assert ORDER.index("tune") < ORDER.index("report") < ORDER.index("export")
