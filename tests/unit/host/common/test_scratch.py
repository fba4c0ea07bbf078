# SPDX-License-Identifier: Apache-2.0
"""A folder for scratch goes with its owner, at the latest when the next one comes."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tilewright.host.common.scratch import scratch_folder

OWNER = """
import sys, time
from tilewright.host.common.scratch import scratch_folder
with scratch_folder() as folder:
    (folder / "data").write_text("x")
    print(folder, flush=True)
    time.sleep(600)
"""


@pytest.fixture
def temporary(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_killed_owners_folder_goes_and_nothing_else_does(temporary) -> None:
    (temporary / "tilewright-of-a-user").mkdir()
    (temporary / "tilewright-of-a-user" / "mine").write_text("kept")
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        left = Path(process.stdout.readline().strip())
        with scratch_folder():
            assert (left / "data").is_file(), "its owner is alive"
        process.send_signal(signal.SIGKILL)
    assert left.is_dir()
    with scratch_folder() as folder:
        assert not left.exists()
        assert folder.is_dir()
    assert [path.name for path in temporary.iterdir()] == ["tilewright-of-a-user"]
    assert (temporary / "tilewright-of-a-user" / "mine").read_text() == "kept"
