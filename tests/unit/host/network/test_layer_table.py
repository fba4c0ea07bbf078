# SPDX-License-Identifier: Apache-2.0
"""A table of layers in YAML is a network, wherever one is named."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from tilewright.cli import app
from tilewright.host.common.errors import WorkloadError
from tilewright.host.compiler.tasks import load_network
from tilewright.host.machine.board import load_board, load_memory
from tilewright.host.network.layer_table import load_layer_table

EXAMPLE = Path(__file__).resolve().parents[4] / "examples" / "plugin" / "tilewright_example"
ONE = "{name: a, height: 4, width: 4, channels_in: 8, channels_out: 8}"


@pytest.fixture
def write(tmp_path):
    def written(text: str) -> Path:
        path = tmp_path / "mine.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


def test_layers_are_read_merged_and_counted(write) -> None:
    path = write(f"layers:\n  - {ONE}\n  - {ONE.replace('name: a', 'name: b, count: 2')}\n")
    table = load_network(path)
    assert (table.name, [w.name for w in table.workloads]) == ("mine", ["a"])
    assert table["a"].count == 3


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("name: x\n", "layers: must be a list of layers"),
        ("layers: []\n", "must be a list of layers"),
        ("layers: [3]\n", "layer 1: must be a mapping"),
        (f"layers: [{ONE}]\nlayer: 1\n", "layer: unknown key; did you mean layers"),
        (
            f"layers: [{ONE.replace('width', 'widht')}]\n",
            "widht: unknown key .*; did you mean width",
        ),
        (
            f"layers: [{ONE.replace('width: 4, ', '')}]\n",
            "layer 1: width: must be stated",
        ),
        (f"layers: [{ONE.replace('width: 4', 'width: 0')}]\n", r"layer 1: a\.width: must be an"),
        (f"layers: [{ONE.replace('name: a', 'name: 7')}]\n", "layer 1: name: must be text"),
        (f"layers: [{ONE}, {ONE.replace('8}', '9}')}]\n", "must differ in name"),
    ],
)
def test_what_is_wrong_is_told_with_its_layer(write, text, wrong) -> None:
    path = write(text)
    with pytest.raises(WorkloadError, match=wrong) as caught:
        load_layer_table(path)
    assert caught.value.field.startswith(f"{path}: ") or caught.value.field == str(path)


def test_a_layer_of_a_table_runs_on_the_memory_of_a_boards_file(write) -> None:
    path, board = write(f"layers: [{ONE}]\n"), EXAMPLE / "zybo-z7-10.yaml"
    assert load_memory(board) == load_board(board).memory
    words = ["sim", "a", "--network", str(path), "--hw", "tiny-4x4", "--memory", str(board)]
    done = CliRunner().invoke(app, [*words, "--device", "twin"])
    assert done.exit_code == 0, done.output
    assert "bit-exact" in done.output
