# SPDX-License-Identifier: Apache-2.0
"""A room over its budget, and a folder that is too full, are named."""

from pathlib import PurePosixPath

from house import ROOT, complaints, room_of, sources

FILES = {PurePosixPath(f"a/b/{n}.py"): 10 for n in range(5)} | {PurePosixPath("a/c.py"): 7}


def test_a_file_belongs_to_the_innermost_room() -> None:
    rooms = {"a": 10, "a/b": 50}
    assert room_of(PurePosixPath("a/b/1.py"), rooms) == "a/b"
    assert room_of(PurePosixPath("a/c.py"), rooms) == "a"
    assert room_of(PurePosixPath("d.py"), rooms) is None


def test_rooms_over_their_budget_and_full_folders_are_named() -> None:
    assert complaints(FILES, {"a": 7, "a/b": 50}, 5) == []
    assert complaints(FILES, {"a": 7, "a/b": 49}, 5) == ["a/b: 50 lines, its budget is 49"]
    assert complaints(FILES, {}, 4) == ["a/b: 5 files in a folder, at most 4"]


def test_links_of_the_package_are_not_counted_twice() -> None:
    found = sources(ROOT)
    assert PurePosixPath("host/common/errors.py") in found
    assert PurePosixPath("src/tilewright/host/common/errors.py") not in found
