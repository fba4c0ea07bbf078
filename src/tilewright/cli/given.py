# SPDX-License-Identifier: Apache-2.0
"""Options that the user gave and that do nothing beside the others are refused, never ignored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import typer

from tilewright.cli.parse_errors import UsageError


def is_given(context: typer.Context, name: str) -> bool:
    """Whether the command line states a parameter, were it with its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def option_of(context: typer.Context, name: str) -> str:
    """The option of a parameter as it was typed; of a switch that is off its second form."""
    parameter: Any = next(p for p in context.command.params if p.name == name)
    off = context.params.get(name) is False and parameter.secondary_opts
    return str(parameter.secondary_opts[0] if off else parameter.opts[0])


def refuse_given(
    context: typer.Context,
    names: Iterable[str],
    rule: str,
    *,
    value: object = None,
    remedy: str = "leave it out",
) -> None:
    """Refuse options that the user gave and that do nothing here."""
    for name in names:
        if is_given(context, name):
            raise UsageError(rule, field=option_of(context, name), value=value, remedy=remedy)
