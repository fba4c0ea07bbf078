# SPDX-License-Identifier: Apache-2.0
"""An error status names code, unit, instruction and what each unit waited for."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.host.common.errors import DeviceError
from tilewright.host.machine.registers import (
    ERROR_TEXT,
    UNIT_NAMES,
    ErrorCode,
    ErrorUnit,
    WaitState,
)
from tilewright.host.machine.status import DeviceStatusError

CODES = st.sampled_from(list(ErrorCode))
UNITS = st.sampled_from(list(ErrorUnit))
WAITS = st.lists(
    st.sampled_from(list(WaitState)), min_size=len(UNIT_NAMES), max_size=len(UNIT_NAMES)
).map(tuple)


@given(code=CODES, unit=UNITS, instruction=st.integers(0, 2**32 - 1), waits=WAITS | st.just(()))
def test_text_and_values_survive_pickling(code, unit, instruction, waits):
    error = DeviceStatusError(code=code, unit=unit, instruction=instruction, wait_states=waits)
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, DeviceError)
    assert str(copy) == str(error)
    parts = (copy.code, copy.unit, copy.instruction, copy.wait_states)
    assert parts == (code, unit, instruction, waits)
    assert ERROR_TEXT[code] in str(error)
    assert f"{unit.name.lower()}, instruction {instruction}: " in str(error)


@given(waits=WAITS)
def test_every_unit_is_named_in_order_with_its_state(waits):
    error = DeviceStatusError(
        code=ErrorCode.WATCHDOG, unit=ErrorUnit.LOAD, instruction=0, wait_states=waits
    )
    inside = str(error).partition("(")[2].partition(")")[0].split(", ")
    assert [text.split()[0] for text in inside] == list(UNIT_NAMES)
    for text, state in zip(inside, waits, strict=True):
        assert text.split()[-1] == state.name.lower().removeprefix("token_"), text
        assert ("waits for" in text) == (state not in (WaitState.IDLE, WaitState.BUSY))


@pytest.mark.parametrize("code", [c for c in ErrorCode if "RANGE" in c.name])
def test_errors_that_users_can_act_on_have_a_remedy(code):
    assert DeviceStatusError(code=code, unit=ErrorUnit.LOAD, instruction=1).remedy
