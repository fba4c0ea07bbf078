# SPDX-License-Identifier: Apache-2.0
"""A name that does not exist suggests the nearest one."""

from __future__ import annotations

import pytest

from tilewright.host.common.names import choices, counted, nearest

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


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 layers"), (1, "1 layer"), (2, "2 layers"), (2000, "2,000 layers")]
)
def test_a_number_agrees_with_its_noun(number, text) -> None:
    assert counted(number, "layer") == text
    assert counted(1, "study", "studies") == "1 study"
    assert counted(number, "study", "studies").endswith("study" if number == 1 else "studies")
