# SPDX-License-Identifier: Apache-2.0
"""A name that does not exist suggests the nearest one."""

import pytest

from tilewright.host.common.names import choices, counted, file_stems, nearest

KNOWN = ["pynq-z1", "pynq-z2", "zcu104"]


def test_suggests_what_is_near_whatever_its_case_and_nothing_else() -> None:
    assert nearest("PYNQZ2", KNOWN) == "pynq-z2"
    assert nearest("tile_c0", ["tile_ci", "tile_co", "tile_b"]) in ("tile_co", "tile_ci")
    assert nearest("qwertz", KNOWN) == ""
    assert nearest("", []) == ""


def test_lists_the_names_as_far_as_they_are_few() -> None:
    assert choices("zcu14", KNOWN) == "did you mean zcu104? use one of pynq-z1, pynq-z2, zcu104"
    assert choices("x", KNOWN, "boards", limit=1) == "boards: pynq-z1 and 2 more"
    assert choices("x", [], "boards") == "there are no boards yet"


def test_no_two_files_have_one_name() -> None:
    names = ["a/b", "a_b", "A b", "", "..", "-x", "a_b-2", "é" * 300, "l.timeloop", "l"]
    endings = (".yaml", ".timeloop.yaml")
    stems = file_stems(names, endings)
    files = [f"{stem}{ending}".casefold() for stem in stems for ending in endings]
    assert len(set(files)) == len(files)
    assert all(len(file.encode()) < 255 and "/" not in file for file in files)
    assert stems[:3] == ["a_b", "a_b-2", "A_b-3"]
    assert not any(stem.startswith((".", "-")) for stem in stems)


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 layers"), (1, "1 layer"), (2, "2 layers"), (2000, "2,000 layers")]
)
def test_a_number_agrees_with_its_noun(number, text) -> None:
    assert counted(number, "layer") == text
    assert counted(1, "study", "studies") == "1 study"
    assert counted(number, "study", "studies").endswith("study" if number == 1 else "studies")
