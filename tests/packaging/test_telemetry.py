# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime, which keeps a queue of events in the user's home by default, keeps none here."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SESSION = """
import tilewright
import onnxruntime
onnxruntime.InferenceSession("examples/digits/digits.onnx")
"""


def _files_of_a_session(script: str, home: Path) -> list[Path]:
    """What a fresh interpreter leaves in a home that was empty."""
    home.mkdir()
    places = {"HOME": home, "TMPDIR": home, "XDG_CACHE_HOME": home / "cache"}
    known = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        cwd=ROOT,
        env={**known, **{key: str(place) for key, place in places.items()}},
    )
    return [path for path in home.rglob("*") if path.is_file()]


def test_a_session_leaves_nothing_in_the_home(tmp_path: Path) -> None:
    """Where ONNX Runtime alone leaves nothing either (it depends on the machine), that is told."""
    assert not _files_of_a_session(SESSION, tmp_path / "with")
    if not _files_of_a_session(SESSION.replace("import tilewright\n", ""), tmp_path / "without"):
        pytest.skip("ONNX Runtime keeps no events on this machine: nothing to turn off")
