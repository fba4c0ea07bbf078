# SPDX-License-Identifier: Apache-2.0
"""A command's options from the fields of a settings dataclass (`host.common.options`)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields
from enum import Enum
from typing import Annotated, Any

import typer

from tilewright.host.common.options import Option, option_of


def from_fields(settings: type[Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """A command whose parameter ``settings`` is made of the options of that dataclass."""
    shown = {f.name: option_of(f) for f in fields(settings) if option_of(f).kind is not None}
    parameters = [_parameter(f, shown[f.name]) for f in fields(settings) if f.name in shown]

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def command(**given: Any) -> None:
            values = {name: _value(shown[name], given.pop(name)) for name in shown}
            function(settings=settings(**values), **given)

        own = inspect.signature(function, eval_str=True).parameters.values()
        others = [
            each.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            for each in own
            if each.name != "settings"
        ]
        made: Any = command
        made.__signature__ = inspect.Signature([*parameters, *others])
        made.__annotations__ = {each.name: each.annotation for each in (*parameters, *others)}
        del made.__wrapped__
        return command

    return decorate


def _parameter(of: Field[Any], told: Option) -> inspect.Parameter:
    more: dict[str, Any] = {"help": told.help, "metavar": told.metavar}
    default = inspect.Parameter.empty if of.default is MISSING else of.default
    if told.parse is not None:
        default = None  # what stands for the field's default is of another type
    if isinstance(told.kind, type) and issubclass(told.kind, Enum) and default is not None:
        default = told.kind(default)
    if told.argument:
        declared = typer.Argument(**more)
    else:
        name = f"--{of.name.replace('_', '-')}"
        flags = told.flags or ((name,) if told.kind is not bool or of.default is False else ())
        declared = typer.Option(*flags, min=told.low, rich_help_panel=told.panel or None, **more)
    return inspect.Parameter(
        of.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=default,
        annotation=Annotated[told.kind, declared],
    )


def _value(told: Option, given: Any) -> Any:
    if told.parse is not None:
        return told.parse(given)
    return given.value if isinstance(given, Enum) else given
