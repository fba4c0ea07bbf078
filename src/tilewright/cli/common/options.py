# SPDX-License-Identifier: Apache-2.0
"""A command's options from the fields of a settings dataclass (`host.common.options`)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from enum import Enum
from typing import Annotated, Any

import typer

from tilewright.host.common.errors import fields_named
from tilewright.host.common.options import Option, flag_of, kind_of, option_of


def from_fields(settings: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose parameter ``settings`` is made of the options of that dataclass."""
    kinds = {each: kind_of(settings, each) for each in fields(settings)}
    shown = {each.name: option_of(each) for each, kind in kinds.items() if kind is not None}
    parameters = [
        parameter(each.name, kind, each.default, option_of(each))
        for each, kind in kinds.items()
        if kind is not None
    ]
    typed = {name: flag_of(name, told) for name, told in shown.items()}

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def command(**given: Any) -> None:
            values = {name: _value(shown[name], given.pop(name)) for name in shown}
            with fields_named(typed):
                function(settings=settings(**values), **given)

        own = inspect.signature(function, eval_str=True).parameters
        every = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in own.values()]
        place = list(own).index("settings")
        every[place : place + 1] = parameters
        del command.__wrapped__
        return with_parameters(command, every)

    return decorate


def with_parameters(
    command: Callable[..., None], parameters: Sequence[inspect.Parameter]
) -> Callable[..., None]:
    """A function with the signature that Typer reads options from."""
    made: Any = command
    made.__signature__ = inspect.Signature(parameters)
    made.__annotations__ = {each.name: each.annotation for each in parameters}
    return command


def parameter(name: str, kind: Any, default: Any, told: Option) -> inspect.Parameter:
    """The parameter that Typer makes an option or an argument of."""
    more: dict[str, Any] = {"help": told.help, "metavar": told.metavar}
    value = inspect.Parameter.empty if default is MISSING else default
    if told.parse is not None:
        value = None  # what stands for the field's default is of another type
    if isinstance(kind, type) and issubclass(kind, Enum) and value is not None:
        value = kind(value)
    if told.argument:
        declared = typer.Argument(**more)
    else:
        both = kind is bool and default is not False  # Typer adds the second form
        flags = told.flags or (() if both else (flag_of(name, told),))
        declared = typer.Option(
            *flags, min=told.low, max=told.high, rich_help_panel=told.panel or None, **more
        )
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(name, keyword, default=value, annotation=Annotated[kind, declared])


def _value(told: Option, given: Any) -> Any:
    if told.parse is not None:
        return told.parse(given)
    return given.value if isinstance(given, Enum) else given
