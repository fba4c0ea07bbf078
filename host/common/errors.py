# SPDX-License-Identifier: Apache-2.0
"""The exception hierarchy: one root, one message format (rule, field, value, remedy)."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

_CODE: Final = re.compile(r"\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ")
_SOURCE: Final = re.compile(r"(?<!\S)/[\w./+-]{1,200}\.(?:cc|cpp|h):\d+ ")

_MOST_CHARACTERS: Final = 4000
"""Of a message that are read: it may quote what a user's file holds."""


def reason_of(error: BaseException, limit: int = 160) -> str:
    """The message of an error in one line, without the places in C++ sources that it names."""
    text = " ".join(str(error)[:_MOST_CHARACTERS].split())
    return _without_source(_CODE.sub("", text))[:limit] or type(error).__name__


def _without_source(text: str) -> str:
    """A text without the first ``file.cc:12 type name(parameters) const`` of ONNX Runtime."""
    found = _SOURCE.search(text)
    if found is None:
        return text
    depth = 0
    for place in range(found.end(), len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if text[place] == ")" and depth == 0 and not text.startswith("(", place + 1):
            rest = text[place + 1 :].removeprefix(" const").lstrip()
            return text[: found.start()] + (rest or text[found.start() :])
    return text


_SHOWN: Final = 400
"""Characters of a value in a message."""


_FAILED: Final = re.compile(r"(no|cannot|only|there is no) ")
"""How rules begin that say what is wrong with a value; others say what it must be."""


class TilewrightError(Exception):
    """Root of every error that Tilewright raises on purpose.

    Args:
        rule: what must hold, as a sentence.
        field: the input that breaks it (a YAML key, a file, an instruction field); may be empty.
        value: the offending value; omitted from the text when ``None``.
        remedy: what the user can do about it.

    Example:
        >>> import tilewright as tw
        >>> try:
        ...     tw.load_hwconfig("tiny-4x4").with_(block_in=5)
        ... except tw.TilewrightError as error:
        ...     print(error.field, error.value, error.remedy, sep=" | ")
        block_in | 5 | round it to the nearest power of two
    """

    def __init__(
        self, rule: str, *, field: str = "", value: object = None, remedy: str = ""
    ) -> None:
        self.rule = rule
        self.field = field
        self.value = value
        self.remedy = remedy
        text = f"{field}: {rule}" if field else rule
        if value is not None:
            text += f"{':' if _FAILED.match(rule) else ', not'} {_shown(value)}"
        if remedy:
            text += f"; {remedy}"
        super().__init__(text)

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between worker processes with every part intact."""
        return (
            _rebuild,
            (type(self), self.rule, self.field, self.value, self.remedy),
        )


def _shown(value: object) -> str:
    """A value as a message may hold it: what a user wrote may be of any length."""
    try:
        text = repr(str(value) if isinstance(value, os.PathLike) else value)
    except ValueError:  # Python writes no integer of thousands of digits
        text = "a number of thousands of digits"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _rebuild(
    kind: type[TilewrightError], rule: str, field: str, value: object, remedy: str
) -> TilewrightError:
    return kind(rule, field=field, value=value, remedy=remedy)


@contextlib.contextmanager
def fields_named(names: Mapping[str, str]) -> Iterator[None]:
    """Errors inside name their fields as the user wrote them, such as by an option."""
    try:
        yield
    except TilewrightError as error:
        for field, name in names.items():
            if error.field == field or error.field.startswith(f"{field}["):
                part = error.field[len(field) + 1 : -1]
                raise type(error)(
                    error.rule,
                    field=f"{name} ({part})" if part else name,
                    value=error.value,
                    remedy=error.remedy,
                ) from error
        raise


@contextlib.contextmanager
def errors_in(place: str) -> Iterator[None]:
    """Errors inside name the file, or the part of one, that holds their fields."""
    try:
        yield
    except TilewrightError as error:
        field = ": ".join(part for part in (place, error.field) if part)
        raise type(error)(
            error.rule, field=field, value=error.value, remedy=error.remedy
        ) from error


class ConfigError(TilewrightError):
    """A HwConfig, Board or memory-model description is malformed or illegal."""


class WorkloadError(TilewrightError):
    """A workload or a model cannot be expressed for the accelerator."""


class ScheduleError(TilewrightError):
    """A schedule does not lower on the given configuration and workload."""


class ProgramError(TilewrightError):
    """A program is malformed or was built for another configuration."""


class BuildError(TilewrightError):
    """The simulator could not be built."""


class ToolError(TilewrightError):
    """A required tool is missing or unusable."""


class DeviceError(TilewrightError):
    """The device stopped with an error status (see the rule for the status)."""


class DeviceTimeoutError(DeviceError):
    """The device exceeded its cycle or wall-clock limit."""


class StoreError(TilewrightError):
    """A trial store cannot be opened, read or written."""


class EnvironmentFaultError(TilewrightError):
    """The machine, not what was asked of it, failed: tools, disk, memory, worker processes.

    It says nothing about a trial, so nothing is stored and the same command goes on later.
    """


_CLASSES: Final[dict[str, type[TilewrightError]]] = {
    name: kind
    for name, kind in dict(globals()).items()
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
