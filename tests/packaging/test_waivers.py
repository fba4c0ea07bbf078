# SPDX-License-Identifier: Apache-2.0
"""Each waiver of a check in the product says why it stands."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("host", "sim", "tuner", "src", "bench", "docs", "examples", "tests")
WAIVER = re.compile(
    r"# (?:ruff: )?(?:noqa\b(?:: [A-Z0-9, ]*[A-Z0-9])?|type: ignore(?:\[[\w, -]+\])?)"
)


def without_reason(line: str) -> bool:
    waivers = list(WAIVER.finditer(line))
    return bool(waivers) and not line[waivers[-1].end() :].strip()


@pytest.mark.parametrize(
    ("line", "bare"),
    [
        ("import a  # noqa: PLC0415", True),
        ("import a  # noqa: PLC0415  (heavy)", False),
        ("import a  # type: ignore[misc, x-y] # noqa: A1, B2", True),
        ("import a  # type: ignore[misc]  # ships no types", False),
        ("import a  # as noted", False),
    ],
)
def test_a_reason_is_found(line: str, bare: bool) -> None:
    assert without_reason(line) is bare


def test_every_waiver_has_its_reason() -> None:
    files = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    assert len(files) > 100
    bare = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in files
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if path != Path(__file__) and without_reason(line)
    ]
    assert bare == []
