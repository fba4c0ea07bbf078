# SPDX-License-Identifier: Apache-2.0
"""What Tab gives behind a command line, asked as a shell asks."""

import os
import subprocess
import sys

import pytest

from tilewright.host.machine.board import named_boards

_COMMAND = "import sys; sys.argv[0] = 'tilewright'; from tilewright.cli import main; main()"


def completed(line: str, folder: str) -> list[str]:
    """The words that bash is given for a line whose last word is not ended."""
    words = line.split(" ")
    asked = {
        "_TILEWRIGHT_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(len(words) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", _COMMAND],
        capture_output=True, text=True, check=False, cwd=folder, env={**os.environ, **asked},
    )  # fmt: skip
    return done.stdout.split()


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("tilewright synth pynq-16x16-", {"pynq-16x16-act", "pynq-16x16-rows"}),
        ("tilewright compile m.onnx --board ", set(named_boards())),
        ("tilewright tune --tuner rand", {"random"}),
        ("tilewright tune resnet1", {"resnet18"}),
        ("tilewright tune ./o", {"./own.onnx"}),
        ("tilewright run --head yolov5", {"yolov5", "yolov5-raw"}),
        ("tilewright comp", {"compile", "compare-rtl"}),
    ],
)  # fmt: skip
def test_names_and_files_are_completed(line: str, wanted: set[str], tmp_path) -> None:
    (tmp_path / "own.onnx").write_bytes(b"")
    found = completed(line, str(tmp_path))
    assert wanted <= set(found)
    assert all(each.startswith(line.rsplit(" ", maxsplit=1)[-1]) for each in found)
