# SPDX-License-Identifier: Apache-2.0
"""Time to the first cycle count: progress comes before the count, the count before the end."""

import subprocess
from pathlib import Path

import pytest

from tilewright.bench.framework.study import run_study
from tilewright.bench.speed import first_count
from tilewright.bench.speed.settings import FirstCountSettings

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


@pytest.mark.slow
def test_what_a_user_sees_is_timed() -> None:
    settings = FirstCountSettings(networks=(str(DIGITS),), hw="tiny-4x4", repeat=2)
    study = first_count.FirstCount(settings)
    result = run_study(study)
    (row,) = result.rows
    assert 0 < row["progress_seconds"] <= row["count_seconds"] <= row["whole_seconds"]
    for what in ("progress", "count", "whole", "cpu"):
        least, most = (row[f"{what}_seconds_{end}"] for end in ("least", "most"))
        assert 0 < least <= row[f"{what}_seconds"] <= most
    assert f"| {DIGITS} | " in study.text(result.document)


def test_a_command_that_fails_is_no_time(tmp_path) -> None:
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(subprocess.CalledProcessError):
        first_count.measure(tmp_path / "no.onnx", "tiny-4x4", tmp_path)
