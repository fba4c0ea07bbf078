# SPDX-License-Identifier: Apache-2.0
"""The table of exhausted layers shows names as they are."""

import io

import pytest
from typer.testing import CliRunner

from tilewright.cli import app
from tilewright.cli.common.console import PrintableConsole
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d
from tilewright.tuner.exhaustive.landscape_report import print_landscapes
from tilewright.tuner.measure import backends

LAYER = "[red]layer"


@pytest.fixture
def another_twin(tmp_path, monkeypatch):
    """Makes the twin one of other sources, for what asks for its identity."""
    source = tmp_path / "pipeline.cpp"
    source.write_text("// mended")

    def change() -> None:
        monkeypatch.setattr(backends, "twin_inputs", lambda: [source])
        backends._identity.cache_clear()

    yield change
    backends._identity.cache_clear()


def test_what_another_twin_counted_is_not_taken_for_the_truth(tmp_path, another_twin):
    folder = tmp_path / "landscapes"

    def found() -> int:
        print_landscapes(
            load_hwconfig("tiny-4x4"), [conv2d(LAYER, 4, 4, 4, 3, 1, 1)], load_memory("ideal"),
            kind="vta", confirm=0, confirm_cycles=1, seed=0, workers=1, folder=folder,
            console=PrintableConsole(file=io.StringIO()),
        )  # fmt: skip
        return len(list(folder.glob("*.cycles")))

    assert (found(), found()) == (1, 1)
    another_twin()
    assert found() == 2


def test_an_exported_table_is_of_the_twin_that_it_names(tmp_path, another_twin):
    words = ["export-table", "small", "--network", str(tmp_path / "net.yaml"), "--hw", "tiny-4x4"]
    words += ["--folder", str(tmp_path / "landscapes"), "--output", str(tmp_path / "t.csv.gz")]
    (tmp_path / "net.yaml").write_text(
        "layers: [{name: small, height: 4, width: 4, channels_in: 4, channels_out: 4}]"
    )
    for number in (1, 2):
        done = CliRunner().invoke(app, words)
        assert done.exit_code == 0, done.output
        assert len(list((tmp_path / "landscapes").glob("*.cycles"))) == number
        another_twin()


def test_names_are_no_markup(tmp_path):
    output = io.StringIO()
    (landscape,) = print_landscapes(
        load_hwconfig("tiny-4x4"),
        [conv2d(LAYER, 4, 4, 4, 3, 1, 1)],
        load_memory("ideal"),
        kind="vta",
        confirm=0,
        confirm_cycles=1,
        seed=0,
        workers=1,
        folder=tmp_path,
        console=PrintableConsole(file=output, width=200),
    )
    text = output.getvalue()
    assert "memory ideal, space vta" in text
    assert f"{LAYER}: {landscape.best[1]:,} cycles" in text
    row = next(line for line in text.splitlines() if LAYER in line and "0 equal" in line)
    assert f"{landscape.best[1]:,}" in row
