# SPDX-License-Identifier: Apache-2.0
"""Generated files say what the tables say; stale ones are found."""

import pytest

from tilewright.host.common import generated_files
from tilewright.host.common.generated_files import stale_files
from tilewright.host.lowering.native import records
from tilewright.host.machine import codegen

COMMANDS = (codegen, records)
OUTPUTS = {**codegen.OUTPUTS, **records.OUTPUTS}


@pytest.fixture
def written(tmp_path, monkeypatch):
    """A folder with freshly written files, which the commands take for the repository."""
    monkeypatch.setattr(generated_files, "ROOT", tmp_path)
    assert [command.main(["--write"]) for command in COMMANDS] == [0, 0]
    return tmp_path


def test_the_files_of_the_repository_are_fresh():
    assert stale_files(OUTPUTS) == []


def test_written_files_are_fresh(written, capsys):
    assert stale_files(OUTPUTS, written) == []
    assert [command.main(["--check"]) for command in COMMANDS] == [0, 0]
    assert all((written / name).read_text() == generate() for name, generate in OUTPUTS.items())


@pytest.mark.parametrize("name", OUTPUTS)
def test_a_changed_or_missing_file_is_stale_and_rewritten(written, capsys, name):
    command = next(command for command in COMMANDS if name in command.OUTPUTS)
    capsys.readouterr()
    path = written / name
    path.write_text(path.read_text() + "\n")
    assert stale_files(OUTPUTS, written) == [name]
    assert command.main(["--check"]) == 1
    assert f"stale: {name}; run `make generate`" in capsys.readouterr().err
    path.unlink()
    assert stale_files(OUTPUTS, written) == [name]
    assert command.main(["--write"]) == 0
    assert capsys.readouterr().out == f"wrote {name}\n"
    assert stale_files(OUTPUTS, written) == []


@pytest.mark.parametrize("name", OUTPUTS)
def test_every_file_says_that_it_is_generated(name):
    assert "make generate" in "\n".join(OUTPUTS[name]().splitlines()[:4])
