# SPDX-License-Identifier: Apache-2.0
"""Errors as plain values: what one process raises, another one raises again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from tilewright.host.common import errors
from tilewright.host.common.errors import DeviceError, TilewrightError

_CLASSES: Final[dict[str, type[TilewrightError]]] = {
    name: kind
    for name, kind in vars(errors).items()
    if isinstance(kind, type) and issubclass(kind, TilewrightError)
}
_PLAIN: Final = (str, int, float, bool)
_MAX_TEXT: Final = 4000


def error_to_values(error: TilewrightError) -> dict[str, Any]:
    """An error as values for JSON.

    An error of a class that the other side need not have becomes one of the nearest class of
    `host.common.errors`, with the same text.
    """
    value = error.value
    plain = value is None or type(value) in _PLAIN
    return {
        "class": next(k.__name__ for k in type(error).__mro__ if k in _CLASSES.values()),
        "rule": error.rule,
        "field": error.field,
        "value": value if plain else None,
        "shown": None if plain else repr(value),
        "remedy": error.remedy,
    }


def error_from_values(data: Mapping[str, Any], reporter: str) -> TilewrightError:
    """The error that `error_to_values` described.

    Values of an unknown class or shape give a `DeviceError` that shows them, and names who reported
    them.
    """
    try:
        kind, shown = _CLASSES[data["class"]], data["shown"]
        return kind(
            str(data["rule"])[:_MAX_TEXT],
            field=str(data["field"])[:_MAX_TEXT],
            value=_short(data["value"]) if shown is None else _Shown(shown),
            remedy=str(data["remedy"])[:_MAX_TEXT],
        )
    except (KeyError, TypeError, ValueError):
        return DeviceError(f"{reporter} reports an error of no known kind", value=_Shown(data))


def _short(value: Any) -> Any:
    return value[:_MAX_TEXT] if isinstance(value, str) else value


class _Shown:
    """A value of which only the text travelled."""

    def __init__(self, text: object) -> None:
        self._text = str(text)[:_MAX_TEXT]

    def __repr__(self) -> str:
        return self._text
