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
