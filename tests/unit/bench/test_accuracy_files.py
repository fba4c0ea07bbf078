# SPDX-License-Identifier: Apache-2.0
"""Files for the classifier of files: only their ends are read, and no file is there twice."""

import importlib
from pathlib import Path

import numpy as np
import pytest
from support.randomness import fresh_rng

pytest.importorskip("torch")  # `networks.public` has networks of it

from tilewright.bench.accuracy import data as accuracy_data

public = importlib.import_module("networks.public")


@pytest.mark.parametrize("size", [10, 4095, 5000, 8192, 8193, 30_000])
def test_the_ends_are_those_of_the_whole_file(size: int, tmp_path: Path) -> None:
    content = b" \n" * 700 + fresh_rng().bytes(size) + b"\n" * 900
    path = tmp_path / "file"
    path.write_bytes(content)
    np.testing.assert_array_equal(accuracy_data.file_ends(path), public.file_bytes(content))


def test_copies_count_once_and_calibration_files_are_no_tests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    contents = [bytes([65 + i]) * 300 for i in range(30)]
    paths = {"c": [], "python": []}
    for number, content in enumerate(contents * 2):  # Python files are copies of the others
        kind = "c" if number < len(contents) else "python"
        paths[kind].append(tmp_path / str(number))
        paths[kind][-1].write_bytes(content)
    monkeypatch.setattr(accuracy_data, "files_by_kind", lambda: paths)
    monkeypatch.setattr(public, "file_kinds", lambda: ("c", "python"))
    found = accuracy_data.file_classifier()
    known = [bytes(row[:1].astype(np.uint8)) for row in found.calibration]
    tests = [bytes(row[:1].astype(np.uint8)) for row in found.images]
    assert known == [b"A", b"E", b"I"] * 2
    assert sorted(known[:3] + tests) == sorted(content[:1] for content in contents)
    assert found.truths == [0] * 27
