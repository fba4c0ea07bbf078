# SPDX-License-Identifier: Apache-2.0
"""Errors as plain values: what a device raises at the agent, a client raises again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilewright.host.common.errors import TilewrightError, error_from_values, error_to_values
from tilewright.host.machine.registers import ErrorCode, ErrorUnit, WaitState
from tilewright.host.machine.status import DeviceStatusError


def encode_error(error: TilewrightError) -> dict[str, Any]:
    """An error as values for JSON (`error_to_values`); an error status with all its parts."""
    if isinstance(error, DeviceStatusError):
        return {
            "class": DeviceStatusError.__name__,
            "code": int(error.code),
            "unit": int(error.unit),
            "instruction": error.instruction,
            "wait_states": [int(state) for state in error.wait_states],
        }
    return error_to_values(error)


def decode_error(data: Mapping[str, Any]) -> TilewrightError:
    """The error that `encode_error` described (`error_from_values`)."""
    try:
        if data["class"] == DeviceStatusError.__name__:
            return DeviceStatusError(
                code=ErrorCode(data["code"]),
                unit=ErrorUnit(data["unit"]),
                instruction=int(data["instruction"]),
                wait_states=tuple(WaitState(state) for state in data["wait_states"]),
            )
    except (KeyError, TypeError, ValueError):
        pass
    return error_from_values(data, "the agent")
