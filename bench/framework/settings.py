# SPDX-License-Identifier: Apache-2.0
"""A field of a study's frozen settings is an option: its default, its help, what it may be.

The command line is made from these fields (`framework.commands`), and the settings that a command
line gives are checked here, so that a study gets values that make sense.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import FunctionType
from typing import Any, Final, get_args, get_origin, get_type_hints

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import choices
from tilewright.host.common.options import KEY, Option, flag_of, option_of
from tilewright.host.common.plugins import Registry

_SAME: Final = object()


@dataclass(frozen=True, kw_only=True)
class StudyOption(Option):
    """How the command line shows and checks a field of a study."""

    quick: Any = _SAME  # value that --quick gives where the option is not given
    # all names, or ``module:NAME`` of a collection or of a function that makes one
    known: str | tuple[str, ...] = ""
    of: str = ""  # what errors from below call the field, separated by commas
    separator: str | None = ","  # of several names
    only_with: str = ""  # a field whose option it needs, and ...
    not_with: str = ""  # ... one whose option it contradicts; --quick then leaves it as it is

    @property
    def has_quick(self) -> bool:
        """Whether --quick changes the default."""
        return self.quick is not _SAME

    def choices(self) -> Collection[str] | None:
        """The names that may be given; None: any."""
        if not isinstance(self.known, str):
            return self.known
        if not self.known:
            return None
        module, _, name = self.known.partition(":")
        found = getattr(importlib.import_module(module), name)
        names: Collection[str] = found() if isinstance(found, FunctionType) else found
        return names


def option(default: Any, text: str, **more: Any) -> Any:
    """A field of settings with its `StudyOption`. A tuple is text with separators."""
    return field(default=default, metadata={KEY: StudyOption(help=text, **more)})


def quick_option() -> Any:
    """`--quick`."""
    return option(False, "A smaller run, in minutes.")


def count_option(default: int | None, text: str, *, low: int = 1, **more: Any) -> Any:
    """A whole number of something."""
    return option(default, text, metavar=more.pop("metavar", "N"), low=low, **more)


def seed_option() -> Any:
    """`--seed`."""
    return option(0, "Seed of every random choice.", metavar="SEED", low=0)


def workers_option() -> Any:
    """`--workers`."""
    return count_option(2, "Worker processes.")


def jobs_option() -> Any:
    """`--jobs`: processes, of which one is this one."""
    return count_option(1, "Processes side by side.")


def hw_option(default: str) -> Any:
    """`--hw`."""
    return option(default, "Named configuration or YAML file.", metavar="HW")


def board_option(default: str = "pynq-z2") -> Any:
    """`--board`."""
    text = "Board, YAML file, or a bitstream's manifest."
    return option(default, text, metavar="BOARD", of="board")


def memory_option(default: str) -> Any:
    """`--memory`."""
    text = "Memory timing: 'ideal', a board's name or a YAML file."
    return option(default, text, metavar="MEMORY", of="memory")


def options_of(settings: type) -> Iterator[tuple[str, Any, Any, StudyOption]]:
    """Name, type, default and option of each field."""
    hints = get_type_hints(settings)
    for each in fields(settings):
        about = option_of(each)
        assert isinstance(about, StudyOption)
        yield each.name, hints[each.name], each.default, about


def fields_of_errors(settings: type) -> dict[str, str]:
    """What errors from below call a field, with its option."""
    return {
        of.strip(): flag_of(name, about)
        for name, _, _, about in options_of(settings)
        for of in about.of.split(",")
        if of
    }


def is_several(kind: Any) -> bool:
    """Whether a field holds several values."""
    return get_origin(kind) is tuple


def settings_of(settings: type[Any], given: Mapping[str, Any]) -> Any:
    """Settings from what the command line gave; None stands for what was not given."""
    values = {}
    quick = bool(given.get("quick"))
    for name, kind, default, about in options_of(settings):
        value, flag = given.get(name), flag_of(name, about)
        bound = bool(about.not_with) and given.get(about.not_with) is not None
        alone = bool(about.only_with) and given.get(about.only_with) is None
        if value is None:
            values[name] = about.quick if quick and about.has_quick and not bound else default
        elif value != default and (bound or alone):
            other = f"--{about.not_with or about.only_with}"
            rule = f"does not go with {other}" if bound else f"needs {other}"
            raise ConfigError(rule, field=flag, value=value, remedy="leave it out")
        elif isinstance(value, float) and math.isnan(value):
            raise ConfigError("must be a number", field=flag, value=value, remedy="give one")
        elif is_several(kind):
            values[name] = _several(value, get_args(kind)[0], about, flag) or default
        else:
            values[name] = value
        _require_known(values[name], about, flag)
    return settings(**values)


def _several(text: str, kind: type, about: StudyOption, flag: str) -> tuple[Any, ...]:
    parts = [part.strip() for part in text.split(about.separator)] if text else []
    if kind is str:
        if not all(parts):
            raise ConfigError(
                "must be names, separated by commas",
                field=flag, value=text, remedy="leave no name empty",
            )  # fmt: skip
        return tuple(dict.fromkeys(parts))
    try:
        numbers = [float(part) for part in parts]
        if not all(0 <= number < math.inf and number == kind(number) for number in numbers):
            raise ValueError
        return tuple(dict.fromkeys(kind(number) for number in numbers))
    except ValueError as error:
        raise ConfigError(
            "must be numbers of at least 0, separated by commas",
            field=flag, value=text, remedy="write them as in 64,128",
        ) from error  # fmt: skip


def _require_known(value: Any, about: StudyOption, flag: str) -> None:
    """Refuse a name that is not among those that there are."""
    given: Sequence[Any] = value if isinstance(value, tuple) else [value] if value else []
    known = about.choices() if given else None
    if known is not None:
        require_names(flag, given, known)


def require_names(flag: str, given: Iterable[Any], known: Iterable[Any]) -> None:
    """Refuse a name that is not known; the nearest is suggested."""
    names = [str(each) for each in known]
    for each in map(str, given):
        if each not in (known if isinstance(known, Registry) else names):
            raise ConfigError("no such choice", field=flag, value=each, remedy=choices(each, names))
