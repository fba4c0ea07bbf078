# SPDX-License-Identifier: Apache-2.0
"""Errors of the parser of command lines as ours: rule, field, value, remedy."""

from __future__ import annotations

import re
from typing import Any, Final, get_args

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.names import choices, nearest

ALIKE: Final = (
    ("--output", "--out", "--output-dir", "--outdir"),
    ("--clock", "--freq", "--frequency", "--mhz"),
    ("--html", "--report"),
    ("--fidelity", "--device", "--simulator", "--backend"),
    ("--hw", "--config", "--configuration", "--hardware"),
    ("--json", "--save-json"),
    ("--budget", "--trials", "--samples", "--iterations"),
)
"""Options that mean the same, of which a command has one: whoever writes another is told."""


class UsageError(TilewrightError):
    """An argument of the command line cannot be used."""


def explained(error: Exception) -> Exception:
    """An error of the parser as one of ours, with the nearest word."""
    if type(error).__name__ == "NoArgsIsHelpError":
        raise error
    context: Any = getattr(error, "ctx", None)
    command = getattr(context, "command_path", "tilewright")
    remedy = f"see '{command} --help'"
    option = getattr(error, "option_name", "")
    if option:
        return _wrong_option(error, option, command, context)
    text = (
        str(getattr(error, "message", "") or "must be given")
        .removeprefix("Value error, ")
        .rstrip(".")
    )
    if match := re.fullmatch(r"Got unexpected extra argument\S* \((.*)\)", text):
        return UsageError(f"is more than '{command}' takes", field=match[1], remedy=remedy)
    parameter = getattr(error, "param", None)
    field = getattr(error, "param_hint", None) or ("" if parameter is None else _name_of(parameter))
    if match := re.fullmatch(r"'(.*)' is not one of (.*)", text):
        remedy = choices(match[1], re.findall(r"'([^']*)'", match[2]))
        return UsageError("no such choice", field=str(field), value=match[1], remedy=remedy)
    found: Any = getattr(error.__cause__, "errors", list)()
    rule = _number(parameter) if found else ""
    if rule:
        return UsageError(rule, field=str(field), value=found[0].get("input"), remedy=remedy)
    return UsageError(text[:1].lower() + text[1:], field=str(field), remedy=remedy)


def _wrong_option(error: Exception, option: str, command: str, context: Any) -> UsageError:
    """The error for an option that there is not, or that has a value where none is, or none."""
    if not hasattr(error, "possibilities"):
        if "not take a value" in str(getattr(error, "message", "")):
            return UsageError(
                "is a switch without a value", field=option, remedy="write the option alone"
            )
        return UsageError("needs a value", field=option, remedy="write one behind the option")
    remedy = f"see '{command} --help'"
    known = [
        name
        for parameter in getattr(getattr(context, "command", None), "params", ())
        for name in (*parameter.opts, *parameter.secondary_opts)
        if name.startswith("--")
    ]
    alike = next((names for names in ALIKE if option in names), ())
    near = next((name for name in alike if name in known), "") or nearest(option, known)
    return UsageError(
        f"'{command}' has no such option",
        field=option,
        remedy=f"did you mean {near}? {remedy}" if near else remedy,
    )


def _number(parameter: Any) -> str:
    """What a parameter's number must be; empty: it takes something else."""
    kind = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    kinds = {kind, *get_args(kind)} & {int, float}
    if not kinds:
        return ""
    name = "whole number" if int in kinds else "number"
    low, high = (getattr(parameter, bound, None) for bound in ("min", "max"))
    match low is not None, high is not None:
        case True, True:
            return f"must be a {name} from {low} to {high}"
        case True, False:
            return f"must be a {name} of at least {low}"
        case False, True:
            return f"must be a {name} of at most {high}"
        case _:
            return f"must be a {name}"


def _name_of(parameter: Any) -> str:
    """An option as it is typed; an argument by its name."""
    typed = [name for name in parameter.opts if name.startswith("--")]
    return typed[0] if typed else str(parameter.metavar or parameter.name).strip("[].").upper()
