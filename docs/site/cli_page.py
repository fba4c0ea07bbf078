# SPDX-License-Identifier: Apache-2.0
"""Sections of `reference/cli.md`: every command with its options, from the application itself."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, Final, get_args

import typer

_KINDS: Final = {str: "text", int: "whole number", float: "number", Path: "path"}


def cli_markdown() -> str:
    """Markdown: one section for each command, groups before their commands."""
    from tilewright.cli import app  # noqa: PLC0415  (heavy: only when the site is built)

    group = typer.main.get_command(app)
    return "\n".join(_sections(group, "tilewright", 2))


def _sections(group: Any, path: str, level: int) -> Iterator[str]:
    for name, command in sorted(group.commands.items(), key=_place):
        if command.hidden:
            continue
        yield f"{'#' * min(level, 4)} `{path} {name}`\n"
        yield _text(command.help) + "\n"
        yield f"```text\n{' '.join(_usage(f'{path} {name}', command))}\n```\n"
        yield from _table(command)
        if getattr(command, "commands", None):
            yield from _sections(command, f"{path} {name}", level + 1)


def _place(item: tuple[str, Any]) -> tuple[int, str]:
    """Commands as the help lists them; those of groups by name."""
    from tilewright.cli.common.application import ORDER  # noqa: PLC0415  (as the application)

    return (ORDER.index(item[0]) if item[0] in ORDER else len(ORDER), item[0])


def _usage(path: str, command: Any) -> Iterator[str]:
    yield path
    if any(parameter.param_type_name == "option" for parameter in command.params):
        yield "[OPTIONS]"
    if getattr(command, "commands", None):
        yield "COMMAND"
    for parameter in command.params:
        if parameter.param_type_name == "argument":
            name = parameter.name.upper() + ("..." if parameter.nargs == -1 else "")
            yield name if parameter.required else f"[{name}]"


def _table(command: Any) -> Iterator[str]:
    rows = [
        (_names(parameter), _values(parameter), _default(parameter), _text(parameter.help))
        for parameter in command.params
        if not getattr(parameter, "hidden", False) and not parameter.name.endswith("_completion")
    ]
    if rows:
        yield "| | values | default | meaning |\n|---|---|---|---|"
        yield "\n".join("| " + " | ".join(row) + " |" for row in rows) + "\n"


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))


def _values(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return "flag"
    kind = parameter.type_descriptor.annotation
    kind = next((each for each in get_args(kind) if each is not type(None)), kind)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return ", ".join(f"`{member.value}`" for member in kind)
    low, high = parameter.min, parameter.max
    bounds = f" from {low}" * (low is not None) + f" to {high}" * (high is not None)
    return f"{_KINDS.get(kind, getattr(kind, '__name__', str(kind)))}{bounds}"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    if isinstance(value, Enum):
        value = value.value
    if callable(value) or value is None or value in ("", (), []):
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"`{value}`"


def _text(text: str | None) -> str:
    """Help as one paragraph that no character of Markdown changes."""
    paragraphs = inspect.cleandoc(text or "").replace("\f", "").split("\n\n")
    joined = " ".join(" ".join(each.split()) for each in paragraphs)
    for sign in "|<*_[":
        joined = joined.replace(sign, f"\\{sign}" if sign != "<" else "&lt;")
    return joined
