# SPDX-License-Identifier: Apache-2.0
"""An error that crossed the network is the error that was raised."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.host.common import errors
from tilewright.host.common.errors import DeviceError, TilewrightError
from tilewright.host.machine.registers import UNIT_NAMES, ErrorCode, ErrorUnit, WaitState
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.runtime.agent.error_codec import decode_error, encode_error
from tilewright.sim.verilator.library import SimulationError, Status

CLASSES = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)]
VALUES = (
    st.none() | st.booleans() | st.integers() | st.text() | st.tuples(st.integers()) | st.binary()
)


def travelled(error: TilewrightError) -> TilewrightError:
    return decode_error(json.loads(json.dumps(encode_error(error))))


@given(
    kind=st.sampled_from(CLASSES), rule=st.text(), field=st.text(), value=VALUES, remedy=st.text()
)
def test_class_parts_and_text_stay(kind, rule, field, value, remedy):
    error = kind(rule, field=field, value=value, remedy=remedy)
    found = travelled(error)
    assert type(found) is kind
    assert str(found) == str(error)
    assert (found.rule, found.field, found.remedy) == (rule, field, remedy)


@given(
    code=st.sampled_from(list(ErrorCode)),
    unit=st.sampled_from(list(ErrorUnit)),
    instruction=st.integers(0, 2**32 - 1),
    waits=st.just(()) | st.tuples(*[st.sampled_from(list(WaitState))] * len(UNIT_NAMES)),
)
def test_every_part_of_an_error_status_stays(code, unit, instruction, waits):
    error = DeviceStatusError(code=code, unit=unit, instruction=instruction, wait_states=waits)
    found = travelled(error)
    assert isinstance(found, DeviceStatusError)
    assert (found.code, found.unit, found.instruction, found.wait_states) == (
        code,
        unit,
        instruction,
        waits,
    )
    assert str(found) == str(error)


def test_a_class_that_clients_need_not_have_becomes_its_nearest_known_one():
    error = SimulationError(Status.RTL_STOPPED, "assertion")
    found = travelled(error)
    assert type(found) is DeviceError
    assert str(found) == str(error)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"class": "OSError", "rule": "", "field": "", "value": None, "shown": None, "remedy": ""},
        {"class": ["a"]},
        {"class": "DeviceStatusError", "code": 99, "unit": 0, "instruction": 0, "wait_states": []},
        {"class": "DeviceStatusError", "code": 1, "unit": 0, "instruction": 0, "wait_states": 1},
        {"class": "DeviceError"},
    ],
)
def test_an_error_of_no_known_kind_is_shown(data):
    found = decode_error(data)
    assert type(found) is DeviceError
    assert "no known kind" in str(found)
