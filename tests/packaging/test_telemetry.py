# SPDX-License-Identifier: Apache-2.0
"""ONNX Runtime, which keeps a queue of events in the user's home by default, keeps none here."""

from __future__ import annotations

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


@pytest.mark.parametrize(
    ("script", "told"), [(SESSION, False), (SESSION.replace("import tilewright\n", ""), True)]
)
def test_a_session_leaves_nothing_in_the_home(tmp_path: Path, script: str, told: bool) -> None:
    """Without Tilewright it does: a version that no longer listens to the variable is seen."""
    places = {"HOME": tmp_path, "TMPDIR": tmp_path, "XDG_CACHE_HOME": tmp_path / "cache"}
    known = {key: value for key, value in os.environ.items() if key != "ORT_DISABLE_TELEMETRY"}
    subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        cwd=ROOT,
        env={**known, **{key: str(place) for key, place in places.items()}},
    )
    assert bool([path for path in tmp_path.rglob("*") if path.is_file()]) is told
