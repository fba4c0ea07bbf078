# SPDX-License-Identifier: Apache-2.0
"""Settings stated once: a frozen dataclass per action, whose fields are made by `option`.

They are the arguments of the Python call (`takes`) and the options of the command
(`tilewright.cli.common.options.from_fields`): one default, one text, one rule.
"""

from __future__ import annotations

import functools
import inspect
import sys
import textwrap
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from types import SimpleNamespace
from typing import Any, Final, ParamSpec, TypeVar, get_type_hints

KEY: Final = "option"
OWN: Final = object()
"""The kind of an option that is its field's type."""
_BEHIND: Final = "    Returns:\n"

A = ParamSpec("A")
S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Option:
    """What is known of a field beside its name, type and default."""

    help: str  # what it is for
    kind: Any = OWN  # type of the command line's value; None: the command has no such option
    parse: Callable[[Any], Any] | None = None  # from the command line's value to the field's
    metavar: str | None = None  # what stands for the value in the help
    low: float | None = None  # least number
    high: float | None = None  # largest
    flags: tuple[str, ...] = ()  # names of the option where they are not made of the field's
    argument: bool = False  # a word of the command line, not an option
    panel: str = ""  # heading of the help that it stands under; empty: with the common ones


def option(default: Any, text: str, **more: Any) -> Any:
    """A field with its default (``MISSING``: it must be given) and its `Option`."""
    return field(default=default, metadata={KEY: Option(help=text, **more)})


def option_of(of: Field[Any]) -> Option:
    """What `option` was told of a field."""
    found: Option = of.metadata[KEY]
    return found


def flag_of(name: str, told: Option) -> str:
    """How a field is typed on the command line."""
    if told.argument:
        return told.metavar or name.upper()
    return told.flags[0] if told.flags else f"--{name.replace('_', '-')}"


def kind_of(settings: type[Any], of: Field[Any]) -> Any:
    """The type of what the command line gives for a field; None: it has no such option."""
    kind = option_of(of).kind
    if kind is not OWN:
        return kind
    home = next(each for each in settings.__mro__ if of.name in vars(each)["__annotations__"])
    stated = SimpleNamespace(__annotations__={of.name: of.type})
    return get_type_hints(stated, vars(sys.modules[home.__module__]))[of.name]


def takes(settings: Callable[A, S]) -> Callable[[Callable[[S], R]], Callable[A, R]]:
    """A function of settings as one of their fields, which its documentation tells."""

    def decorate(function: Callable[[S], R]) -> Callable[A, R]:
        @functools.wraps(function)
        def called(*args: A.args, **kwargs: A.kwargs) -> R:
            return function(settings(*args, **kwargs))

        told: Any = called
        signature = inspect.signature(settings)
        returned = inspect.signature(function).return_annotation
        told.__signature__ = signature.replace(return_annotation=returned)
        told.__annotations__ = {
            **{name: each.annotation for name, each in signature.parameters.items()},
            "return": returned,
        }
        told.__doc__ = (function.__doc__ or "").replace(_BEHIND, _args(settings) + _BEHIND)
        return called

    return decorate


def _args(settings: Any) -> str:
    """A docstring's section Args."""
    return (
        "    Args:\n"
        + "".join(
            textwrap.fill(
                f"{each.name}: {option_of(each).help}",
                96,
                initial_indent=" " * 8,
                subsequent_indent=" " * 12,
            )
            + "\n"
            for each in fields(settings)
        )
        + "\n"
    )
