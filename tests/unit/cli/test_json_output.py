# SPDX-License-Identifier: Apache-2.0
"""`--json`: one shape for every command, alone on standard output when that is asked for."""

import json
import shlex

import pytest
from support.command_line import call, commands, rows
from support.documents.json_members import COMMANDS, MAY_MISS, MORE, WORDS, meaning

from tilewright.host.common.result_document import rows_of
from tilewright.host.machine.board import named_boards
from tilewright.host.machine.hwconfig import named_configs
from tilewright.host.network.zoo import network_names
from tilewright.tuner.allocate import ALLOCATORS
from tilewright.tuner.search import TUNERS

pytestmark = pytest.mark.usefixtures("told_members")

WITHOUT = {
    "agent init", "export", "export-table", "bench allocate-tables",
    "bench tuners-page", "bench study-page",
    "synth-record record", "synth-record systems", "synth-record fit", "synth-record write",
    "synth-record timing",
}  # fmt: skip
"""Commands that print no table of results: a server, and those whose output is a file or a page."""


SINGLE = [(name, run) for name, run in commands() if not hasattr(run, "commands")]


def takes_json(command):
    """Whether a command has `--json`."""
    return any("--json" in parameter.opts for parameter in command.params)


def test_every_command_that_prints_a_table_takes_json():
    assert {name for name, run in SINGLE if not takes_json(run)} == WITHOUT


def test_the_page_tells_of_every_command_with_json_and_of_every_key():
    told = {command.split(" --")[0] for command in COMMANDS}
    assert told == {name for name, run in SINGLE if takes_json(run)}
    named = [
        (command, key.removesuffix(MAY_MISS))
        for command, members in COMMANDS.items()
        for keys in members.values()
        for key in keys
        if key != MORE
    ]
    assert all(meaning(WORDS, *each) for each in named)
    used = {key for _, key in named} | {
        f"{key}.{command.split(' --')[0]}" for command, key in named
    }
    assert set(WORDS) <= used


def test_the_error_of_the_area_model_is_a_row_for_each_configuration():
    found = rows("synth-record", "heldout")
    assert {"pynq-16x16", "edge-8x8"} <= {row["name"] for row in found if not row["fresh"]}
    assert max(abs(row["lut"]) for row in found) < 1


@pytest.mark.parametrize(
    ("command", "names"),
    [
        ("networks", network_names()),
        ("configs", named_configs()),
        ("boards", named_boards()),
        ("tuners", TUNERS),
        ("allocators", ALLOCATORS),
    ],
)
def test_listings_have_a_row_for_each_name(command, names):
    assert [row["name"] for row in rows(command)] == list(names)


def test_the_document_tells_its_command_and_the_table_goes_to_standard_error():
    result = call("configs", "--json", "-")
    document = json.loads(result.stdout)
    assert shlex.split(document["command"]) == ["tilewright", "configs", "--json", "-"]
    assert "pynq-16x16" in result.stderr
    assert rows_of(document) == document["rows"]


def test_a_file_leaves_standard_output_as_it_is(tmp_path):
    path = tmp_path / "new" / "configs.json"
    assert call("configs", "--json", str(path)).stdout == call("configs").stdout
    assert json.loads(path.read_text())["schema"] == 1


def test_an_exhausted_layer_and_a_certificate_are_rows(tmp_path):
    words = ["exhaust", "C10", "--hw", "tiny-4x4", "--confirm", "0", "--folder", str(tmp_path)]
    (row,) = rows(*words)
    assert 0 < row["optimum_cycles"] <= row["median_cycles"] <= row["worst_cycles"]
    words = ["certify", "vta-resnet18", "--layers", "C10", "--seconds", "0"]
    assert {row["verdict"] for row in rows(*words, code=2)} <= {"open", "pruned", "enumerated"}
