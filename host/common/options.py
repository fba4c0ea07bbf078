# SPDX-License-Identifier: Apache-2.0
"""Settings stated once: a frozen dataclass per action, whose fields are made by `option`.

They are the arguments of the Python call (`takes`) and the options of the command
(`tilewright.cli.common.options.from_fields`): one default, one text, one rule.
"""

from __future__ import annotations

import functools
import inspect
import textwrap
from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from typing import Any, Final, ParamSpec, TypeVar

KEY: Final = "option"
_BEHIND: Final = "    Returns:\n"

A = ParamSpec("A")
S = TypeVar("S")
R = TypeVar("R")


@dataclass(frozen=True, kw_only=True)
class Option:
    """What is known of a field beside its name, type and default."""

    help: str  # what it is for
    kind: Any = None  # type of the command line's value; None: the command has no such option
    parse: Callable[[Any], Any] | None = None  # from the command line's value to the field's
    metavar: str | None = None  # what stands for the value in the help
    low: float | None = None  # least number
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
