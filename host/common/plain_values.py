# SPDX-License-Identifier: Apache-2.0
"""Rules for values that were read from JSON of unknown hands.

A rule takes a value and returns the one to use; it raises `PlainValueError` for any other. Nothing
that has not passed a rule gets out of the file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeGuard

from tilewright.host.common.errors import ConfigError, TilewrightError, errors_in
from tilewright.host.common.names import choices


def refuse_unknown(
    values: Iterable[object],
    known: Iterable[str],
    *,
    of: str = "",
    where: str = "",
    error: type[TilewrightError] = ConfigError,
) -> None:
    """Refuse a key that is not known; the nearest is suggested.

    Args:
        values: a mapping, or its keys.
        known: the keys that it may have.
        of: what it describes.
        where: the file, or the part of one, that holds it.
        error: what is raised.
    """
    names = list(known)
    for key in values:
        if key not in names:
            raise error(
                f"unknown key of {of}" if of else "unknown key",
                field=f"{where}: {key}" if where else str(key),
                remedy=choices(key, names, "known keys", limit=None),
            )


def require_keys(
    record: type,
    values: Collection[object],
    *,
    of: str = "",
    error: type[TilewrightError] = ConfigError,
) -> None:
    """Refuse keys that are not exactly the fields of a data class, defaults left out or not."""
    known = fields(record)
    refuse_unknown(values, [each.name for each in known], of=of, error=error)
    required = [
        each.name for each in known if each.default is MISSING and each.default_factory is MISSING
    ]
    missing = [name for name in required if name not in values]
    if missing:
        raise error(
            f"must be stated in {of}" if of else "must be stated",
            field=", ".join(missing),
            remedy=f"fields without a default: {', '.join(required)}",
        )


def build_record(cls: type, values: Mapping[str, Any], origin: str) -> Any:
    """A dataclass of a file's values: no key unknown, none missing that has no default."""
    with errors_in(origin):
        require_keys(cls, values)
        return cls(**values)


def is_integer(value: object, low: float = -math.inf, high: float = math.inf) -> TypeGuard[int]:
    """Whether a value is an integer of a range; a boolean is none."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def plain_integer(value: object) -> object:
    """A text of at most 18 digits, the first of them not 0, as an integer; the rest as it is."""
    digits = isinstance(value, str) and re.fullmatch("0|[1-9][0-9]{0,17}", value)
    return int(str(value)) if digits else value


def is_number(value: object, low: float = -math.inf, high: float = math.inf) -> TypeGuard[float]:
    """Whether a value is an integer or a float of a range; neither a boolean nor NaN is."""
    return isinstance(value, int | float) and not isinstance(value, bool) and low <= value <= high


def check_integer(name: str, value: object, low: int, high: int) -> None:
    """Refuse anything but an integer of a range."""
    if not is_integer(value, low, high):
        raise ConfigError(
            f"must be an integer from {low} to {high}",
            field=name,
            value=value,
            remedy="choose a value in that range",
        )


Rule = Callable[[Any], Any]


class PlainValueError(ValueError):
    """A value that its rule does not allow."""


def plain(*kinds: type) -> Rule:
    """A value of exactly one of these types: a boolean is no integer."""

    def rule(value: Any) -> Any:
        if type(value) not in kinds:
            raise PlainValueError(f"{str(value)[:60]!r} where {kinds[0].__name__} is expected")
        return value

    return rule


def text(pattern: str) -> Rule:
    """A string that matches in full; classes are those of ASCII."""
    compiled = re.compile(pattern, re.ASCII)

    def rule(value: Any) -> str:
        if not isinstance(value, str) or not compiled.fullmatch(value):
            raise PlainValueError(f"text {str(value)[:60]!r} where a plain name is expected")
        return value

    return rule


def integer(low: int, high: int) -> Rule:
    """An integer from ``low`` to ``high``."""

    def rule(value: Any) -> int:
        if type(value) is not int or not low <= value <= high:
            raise PlainValueError(f"{str(value)[:60]} where an integer {low}..{high} is expected")
        return value

    return rule


def real(value: Any) -> float:
    """A finite number."""
    if type(value) not in (float, int) or not math.isfinite(value):
        raise PlainValueError(f"{str(value)[:60]} where a finite number is expected")
    return float(value)


def refused(what: str) -> Rule:
    """No value at all."""

    def rule(_: Any) -> None:
        raise PlainValueError(what)

    return rule


def always(result: Any) -> Rule:
    """Whatever the file says, this."""
    return lambda _: result


def optional(rule: Rule) -> Rule:
    """None, or by a rule."""
    return lambda value: None if value is None else rule(value)


def each(rule: Rule, most: int = 1 << 24) -> Rule:
    """A list of at most so many."""

    def check(values: Any) -> list[Any]:
        if len(plain(list)(values)) > most:
            raise PlainValueError(f"{len(values)} values where at most {most} are expected")
        return [rule(value) for value in values]

    return check


def mapping(key: Rule, value: Rule) -> Rule:
    """Keys and values by rules."""
    return lambda values: {key(k): value(v) for k, v in plain(dict)(values).items()}


def record(**fields: Rule) -> Rule:
    """Known fields, each optional: whoever needs one misses it; unknown ones are refused."""

    def rule(values: Any) -> dict[str, Any]:
        unknown = set(plain(dict)(values)) - set(fields)
        if unknown:
            raise PlainValueError(f"unknown field {str(min(unknown))[:60]!r}")
        return {name: fields[name](value) for name, value in values.items()}

    return rule


def one_of(**cases: Rule) -> Rule:
    """A union: one known case, named."""
    known = record(**cases)

    def rule(values: Any) -> dict[str, Any]:
        if len(plain(dict)(values)) != 1:
            raise PlainValueError("a union of several values")
        found: dict[str, Any] = known(values)
        return found

    return rule
