# SPDX-License-Identifier: Apache-2.0
"""Errors say rule, field, value and remedy, survive pickling, and suggest the nearest name."""

import inspect
import io
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich import box
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from tilewright.host.common import errors
from tilewright.host.common.errors import (
    DeviceError,
    DeviceTimeoutError,
    TilewrightError,
    fields_named,
    reason_of,
)
from tilewright.host.common.names import choices, counted, file_stems
from tilewright.host.common.print_table import print_table
from tilewright.host.common.printable import printable

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, TilewrightError)
]


@given(
    kind=st.sampled_from(KINDS),
    rule=st.text(),
    field=st.text(),
    value=st.none() | st.integers() | st.text() | st.tuples(st.integers()),
    remedy=st.text(),
)
def test_every_kind_survives_pickling_with_every_part(kind, rule, field, value, remedy):
    error = kind(rule, field=field, value=value, remedy=remedy)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (copy.rule, copy.field, copy.value, copy.remedy) == (rule, field, value, remedy)
    assert str(copy) == str(error)


def test_one_root_catches_every_kind():
    assert len(KINDS) >= 9
    assert all(issubclass(kind, TilewrightError) for kind in KINDS)
    assert issubclass(DeviceTimeoutError, DeviceError)


@pytest.mark.parametrize(
    ("field", "named"),
    [
        ("calibration", "--calibration"),
        ("calibration[input]", "--calibration (input)"),
        ("calibration.onnx", "calibration.onnx"),
        ("calibration.onnx: node 3", "calibration.onnx: node 3"),
    ],
)
def test_a_file_that_is_called_as_a_field_is_keeps_its_name(field, named):
    with pytest.raises(TilewrightError) as caught, fields_named({"calibration": "--calibration"}):
        raise TilewrightError("must be right", field=field)
    assert caught.value.field == named


# -- messages of other libraries lose their places in C++ sources, and nothing else ---------------

MODEL = "onnxruntime::Model::Model(onnx::ModelProto&&, const IOnnxRuntimeOpSchemaRegistryList*)"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "ValueError"),
        ("two\n  lines", "two lines"),
        ("no model.cc:3 here", "no model.cc:3 here"),
        (
            f"[ONNXRuntimeError] : 1 : FAIL : /src/core/model.cc:256 {MODEL} Unsupported (13)",
            "Unsupported (13)",
        ),
        (
            f"[ONNXRuntimeError] : 6 : FAIL : Reshape: /src/helper.h:45 {MODEL} a == b was false",
            "Reshape: a == b was false",
        ),
        ("what: /src/a.h:4 T& f::operator()(int (*)(int)) const a", "what: a"),
        ("http://a/b.h:80 (see c) rest", "http://a/b.h:80 (see c) rest"),
        ("/src/a.h:4 without parameters", "/src/a.h:4 without parameters"),
        ("/src/a.h:4 f()", "/src/a.h:4 f()"),
    ],
)
def test_the_reason_is_what_is_left(text: str, reason: str) -> None:
    assert reason_of(ValueError(text)) == reason


@pytest.mark.parametrize(
    "piece", ["/", "/x.cc:1 f() ", "/a.h:1 (", "[ONNXRuntimeError] : 1 : A : "]
)
def test_a_text_that_a_file_chose_takes_no_time(piece: str) -> None:
    assert len(reason_of(ValueError(piece * 100_000))) <= 160


# -- A name that does not exist suggests the nearest one
KNOWN = ["pynq-z1", "pynq-z2", "zcu104"]


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


# -- text of others cannot steer a terminal, whatever it holds ------------------------------------

STEERING = {
    "escape": "\x1b[2J",
    "bell": "\a",
    "carriage return": "right\rwrong",
    "newline": "one\nerror: two",
    "backspace": "a\b",
    "delete": "\x7f",
    "C1 control sequence": "\x9b31m",
    "next line": "\x85",
    "override of direction": "\u202etxt.exe",
    "isolate": "\u2066a\u2069",
    "Arabic letter mark": "\u061c",
    "no width": "\u200b",
    "byte order mark": "\ufeff",
    "line separator": "\u2028",
    "tag": "\U000e0041",
    "no-break space": "\xa0",
}


@pytest.mark.parametrize("text", STEERING.values(), ids=STEERING)
def test_what_steers_a_terminal_becomes_visible(text):
    assert not text.isprintable()
    shown = printable(text)
    assert shown.isprintable()
    assert "\\" in shown


def test_escapes_are_those_of_python():
    assert printable("a\x1b[2J\n\u202e\x9b") == r"a\x1b[2J\n\u202e\x9b"


def test_a_file_name_that_is_no_utf_8_can_be_printed():
    name = b"net\xff.onnx".decode("utf-8", "surrogateescape")
    assert printable(name).encode() == rb"net\udcff.onnx"


@given(text=st.text(st.characters()), limit=st.none() | st.integers(3, 30))
def test_any_text_becomes_one_line_within_its_limit(text, limit):
    shown = printable(text, limit=limit)
    assert shown.isprintable()
    assert limit is None or len(shown) <= limit
    shown.encode()  # no lone surrogate is left
    assert printable(shown, limit=limit) == shown
    if text.isprintable() and (limit is None or len(text) <= limit):
        assert shown == text


def test_a_text_that_is_cut_says_so():
    assert printable("x" * 100, limit=10) == "xxxxxxx..."
    assert printable("x" * 10, limit=10) == "x" * 10


# -- A table loses nothing, however narrow the terminal is ----------------------------------------

NUMBERS = ("1,234,567", "98.7 %", "7,654,321", "452,471", "3.14x")


@pytest.mark.parametrize("terminal", [False, True])
@pytest.mark.parametrize("width", [1, 20, 40, 60, 80])
def test_what_does_not_fit_runs_over_and_is_not_cut(width, terminal):
    table = Table(
        "layer", *(Column(f"heading{i}", justify="right") for i in range(len(NUMBERS))), "limit",
        box=box.SIMPLE, pad_edge=False,
    )  # fmt: skip
    table.add_row(Text("convolution_7"), *NUMBERS, "shared")
    console = Console(width=width, file=io.StringIO(), force_terminal=terminal, no_color=True)
    print_table(table, console)
    shown = console.file.getvalue()
    row = next(line for line in shown.splitlines() if NUMBERS[0] in line)
    assert row.split() == ["convolution_7", *" ".join(NUMBERS).split(), "shared"]
    assert all(f"heading{i}" in shown for i in range(len(NUMBERS)))


def test_text_folds_between_words_before_a_line_runs_over():
    table = Table(Column("cycles", justify="right"), "text", box=box.SIMPLE, pad_edge=False)
    table.add_row("1,234,567", "some words " * 9)
    console = Console(width=40, file=io.StringIO())
    print_table(table, console)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= 40
    assert " ".join(lines).split().count("words") == 9
