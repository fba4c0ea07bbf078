# SPDX-License-Identifier: Apache-2.0
"""Files of reports: no two studies share one, and none lies outside its folder."""

from pathlib import Path

import pytest

from tilewright.tuner.report.result_json import report_path

RUNS = Path("runs")


def test_names_that_differ_in_a_slash_have_files_of_their_own() -> None:
    names = ("a/b", "a_b", "x/screen", "x_screen")
    assert len({report_path(name, RUNS) for name in names}) == len(names)
    assert report_path("a/b", RUNS) == RUNS / "a" / "b.html"


@pytest.mark.parametrize("name", ["/etc/x", "../../x", "a/../../x", "..", ".", "/"])
def test_no_name_leaves_the_folder(name: str) -> None:
    assert ".." not in report_path(name, RUNS).parts
    assert report_path(name, RUNS).is_relative_to(RUNS)


def test_control_characters_are_not_in_the_name_of_a_file() -> None:
    assert report_path("a\x1b[2Jb", RUNS) == RUNS / "a_[2Jb.html"
