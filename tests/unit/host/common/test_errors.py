# SPDX-License-Identifier: Apache-2.0
"""Errors say rule, field, value and remedy, in that order of meaning, and survive pickling."""

import inspect
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.host.common import errors
from tilewright.host.common.errors import (
    DeviceError,
    DeviceTimeoutError,
    TilewrightError,
    fields_named,
    reason_of,
)

KINDS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, TilewrightError)
]


@pytest.mark.parametrize(
    ("parts", "text"),
    [
        ({}, "must be even"),
        ({"field": "batch"}, "batch: must be even"),
        ({"value": 3}, "must be even, not 3"),
        ({"value": 0}, "must be even, not 0"),
        ({"value": "x"}, "must be even, not 'x'"),
        ({"remedy": "add one"}, "must be even; add one"),
        (
            {"field": "batch", "value": 3, "remedy": "add one"},
            "batch: must be even, not 3; add one",
        ),
    ],
)
def test_text_names_what_is_given_and_nothing_else(parts, text):
    assert str(TilewrightError("must be even", **parts)) == text


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


def test_a_reason_has_a_longest_length() -> None:
    assert reason_of(ValueError("x" * 300), limit=7) == "x" * 7
