# SPDX-License-Identifier: Apache-2.0
"""Errors as plain values: what a device raises at the agent, a client raises again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tilewright.host.common import errors
from tilewright.host.common.errors import DeviceError, TilewrightError
from tilewright.host.machine.registers import ErrorCode, ErrorUnit, WaitState
from tilewright.host.machine.status import DeviceStatusError

_CLASSES: Final[dict[str, type[TilewrightError]]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, TilewrightError)
}
_PLAIN: Final = (str, int, float, bool)
_MAX_TEXT: Final = 4000


def encode_error(error: TilewrightError) -> dict[str, Any]:
    """An error as values for JSON.

    An error of a class that clients need not have becomes one of the nearest class of
    `host.common.errors`, with the same text.
    """
    if isinstance(error, DeviceStatusError):
        return {
            "class": DeviceStatusError.__name__,
            "code": int(error.code),
            "unit": int(error.unit),
            "instruction": error.instruction,
            "wait_states": [int(state) for state in error.wait_states],
        }
    name = next(kind.__name__ for kind in type(error).__mro__ if kind in _CLASSES.values())
    value = error.value
    plain = value is None or type(value) in _PLAIN
    return {
        "class": name,
        "rule": error.rule,
        "field": error.field,
        "value": value if plain else None,
        "shown": None if plain else repr(value),
        "remedy": error.remedy,
    }


def decode_error(data: Mapping[str, Any]) -> TilewrightError:
    """The error that `encode_error` described.

    Values of an unknown class or shape give a `DeviceError` that shows them.
    """
    try:
        if data["class"] == DeviceStatusError.__name__:
            return DeviceStatusError(
                code=ErrorCode(data["code"]),
                unit=ErrorUnit(data["unit"]),
                instruction=int(data["instruction"]),
                wait_states=tuple(WaitState(state) for state in data["wait_states"]),
            )
        kind, shown = _CLASSES[data["class"]], data["shown"]
        return kind(
            str(data["rule"])[:_MAX_TEXT],
            field=str(data["field"])[:_MAX_TEXT],
            value=_short(data["value"]) if shown is None else _Shown(shown),
            remedy=str(data["remedy"])[:_MAX_TEXT],
        )
    except (KeyError, TypeError, ValueError):
        return DeviceError("the agent reports an error of no known kind", value=_Shown(data))


def _short(value: Any) -> Any:
    return value[:_MAX_TEXT] if isinstance(value, str) else value


class _Shown:
    """A value of which only the text travelled."""

    def __init__(self, text: object) -> None:
        self._text = str(text)[:_MAX_TEXT]

    def __repr__(self) -> str:
        return self._text
