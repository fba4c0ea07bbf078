# SPDX-License-Identifier: Apache-2.0
"""Text of others cannot steer a terminal, whatever it holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.host.common.printable import printable, printable_document

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


@pytest.mark.parametrize(
    "text", ["", "resnet18 (1x16x16), 95 %", "grün/größe", "網路", "a\\b", "\U0001f600"]
)
def test_what_can_be_read_stays(text):
    assert printable(text) == text


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


def test_a_document_keeps_its_lines_and_spaces_alone() -> None:
    assert printable_document("a\n\t\u00a0b\u2009\x1b[2J\u202e") == (
        "a\n\t\u00a0b\u2009\\x1b[2J\\u202e"
    )
