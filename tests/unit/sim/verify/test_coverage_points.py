# SPDX-License-Identifier: Apache-2.0
"""Reading Verilator's coverage data, totals by file, and waivers that must stay true."""

import pytest

from tilewright.host.common.errors import ConfigError, ToolError
from tilewright.sim.verify.coverage import WAIVERS
from tilewright.sim.verify.coverage_points import (
    Miss,
    Share,
    covers,
    load_waivers,
    merge,
    read_points,
    stale,
    summarise,
    unjustified,
)
from tilewright.sim.verilator.build import read_manifest

SOURCES = {"a.sv": ["if (x)", "  y = 1;", "else", "  y  = 2;", "assign z = x;", "else"]}


def point(kind, line, what, count, *, covered=None, instance="TOP.a", column=3):
    keys = {
        "f": "/rtl/a.sv", "l": line, "n": column, "t": kind, "page": f"v_{kind}/a__W4",
        "o": what, "S": covered or line, "h": instance,
    }  # fmt: skip
    text = "".join(f"\x01{key}\x02{value}" for key, value in keys.items())
    return f"C '{text}' {count}\n"


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "merged"
    path.write_text(
        "# SystemC::Coverage-3\n"
        + point("branch", 1, "if", 0, covered="1-2", instance="TOP.a")
        + point("branch", 1, "if", 4, covered="1-2", instance="TOP.b")
        + point("branch", 1, "else", 0, covered="3-4")
        + point("line", 5, "block", 9)
        + point("toggle", 5, "z:0->1", 1)
        + point("toggle", 5, "z:1->0", 0)
    )
    return path


def test_refuses_what_is_no_point(tmp_path):
    (tmp_path / "bad").write_text("C nothing 4\n")
    with pytest.raises(ToolError, match="coverage point"):
        read_points(tmp_path / "bad")


def test_one_instance_that_reaches_a_line_is_enough(data):
    (file,) = summarise(read_points(data), SOURCES)
    assert file.lines == Share(hit=3, total=5)
    assert file.branches == Share(hit=1, total=2)
    assert file.toggles == Share(hit=1, total=2)
    assert [(miss.line, miss.what) for miss in file.misses] == [
        (1, "else"),
        (3, "line"),
        (4, "line"),
    ]


def test_a_block_is_no_branch(data):
    assert [p.is_branch for p in read_points(data)] == [True, True, True, False, False, False]


def test_nothing_to_merge_is_an_error(tmp_path):
    with pytest.raises(ToolError, match="no simulation"):
        merge([], tmp_path / "merged")


# -- waivers ----------------------------------------------------------------------------------


def waivers(tmp_path, text):
    path = tmp_path / "waivers.yaml"
    path.write_text(text)
    return load_waivers(path)


ENTRY = "  - {file: a.sv, line: 'y = 2;', reason: never two}\n"
BLOCK = "  - {file: a.sv, line: 'y = 1;', through: 'y = 2;', reason: never}\n"


def miss(line):
    return Miss(file="a.sv", line=line, what="line", text=SOURCES["a.sv"][line - 1].strip())


def test_a_waiver_names_a_line_by_its_text_whatever_its_blanks(tmp_path):
    known = waivers(tmp_path, "waivers:\n" + ENTRY)
    assert covers(known[0], SOURCES) == {4}
    assert unjustified([miss(4), miss(5)], known, SOURCES) == [miss(5)]


def test_a_waiver_of_a_block_ends_with_its_last_line(tmp_path):
    (waiver,) = waivers(tmp_path, "waivers:\n" + BLOCK)
    assert covers(waiver, SOURCES) == {2, 3, 4}


@pytest.mark.parametrize(
    ("sources", "misses", "expected"),
    [
        (SOURCES, [4], 0),
        (SOURCES, [], 1),
        (SOURCES, [5], 1),
        ({"a.sv": ["y = 3;"]}, [], 1),
        ({}, [], 1),
    ],
)
def test_a_waiver_that_no_miss_needs_is_stale(tmp_path, sources, misses, expected):
    known = waivers(tmp_path, "waivers:\n" + ENTRY)
    assert len(stale([miss(line) for line in misses], known, sources)) == expected


@pytest.mark.parametrize(
    "text",
    [
        "waivers: 3\n",
        "other: []\n",
        "waivers:\n  - {file: a.sv, line: x}\n",
        "waivers:\n  - {file: a.sv, line: x, reason: ' '}\n",
        "waivers:\n  - {file: a.sv, line: x, reason: y, more: z}\n",
        "waivers:\n" + ENTRY + ENTRY,
    ],
)
def test_refuses_a_malformed_waiver_file(tmp_path, text):
    with pytest.raises(ConfigError):
        waivers(tmp_path, text)


def test_the_waivers_of_the_project_name_lines_that_exist():
    sources = {path.name: path.read_text().splitlines() for path in read_manifest()}
    assert [w for w in load_waivers(WAIVERS) if not covers(w, sources)] == []
