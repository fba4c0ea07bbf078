# SPDX-License-Identifier: Apache-2.0
"""Sections of `reference/errors.md`: every message with its remedy, read from the sources.

An error is raised in one form: ``SomeError(rule, field=..., value=..., remedy=...)``. This module
finds each such call in the syntax trees of the package, so that no message can be missing.
"""

from __future__ import annotations

import ast
import functools
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[2]
FOLDERS: Final = ("host", "sim", "tuner", "src/tilewright/interface", "src/tilewright/cli")
ROOT_ERROR: Final = "TilewrightError"
SHORTEST_REMEDY: Final = 3
_RAISERS: Final = {
    "refuse_given": ("UsageError", 2, "leave it out"),
    "error": ("ConfigError", 0, ""),  # or what the caller of a shared check names
}
"""Functions that raise: the error, the place of the rule among the arguments, and the remedy."""

_NOTE: Final = """The tables are generated from the sources. `...` stands for the part of a message
that depends on the case.
"""


@dataclass(frozen=True, order=True)
class Message:
    """One place that raises an error."""

    kind: str
    rule: str  # what must hold
    remedy: str  # what the user can do
    place: str  # file, relative to the repository


@dataclass(frozen=True)
class Kind:
    """A class of errors: its first base and the first line of its docstring."""

    base: str
    purpose: str
    place: str


@functools.cache
def nodes() -> tuple[tuple[str, ast.ClassDef | ast.Call], ...]:
    """Classes and calls of the sources, with their place in the repository."""
    return tuple(
        (path.relative_to(ROOT).as_posix(), node)
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef | ast.Call)
    )


def error_kinds() -> dict[str, Kind]:
    """Every subclass of the root that others may catch, and the root."""
    classes = {
        node.name: Kind(
            next((ast.unparse(base) for base in node.bases), ""),
            (ast.get_docstring(node) or "").split("\n\n")[0].replace("\n", " "),
            place,
        )
        for place, node in nodes()
        if isinstance(node, ast.ClassDef)
    }

    def is_error(name: str) -> bool:
        return name == ROOT_ERROR or (name in classes and is_error(classes[name].base))

    return {name: kind for name, kind in classes.items() if is_error(name) and name[0] != "_"}


def messages() -> list[Message]:
    """Every call that makes an error with a message of its own."""
    kinds = error_kinds()
    found = set()
    for place, node in nodes():
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args):
            continue
        kind, first, default = _RAISERS.get(node.func.id, (node.func.id, 0, ""))
        if kind not in kinds or len(node.args) <= first:
            continue
        if re.search(r"\w{4}", rule := _words(node.args[first])):
            remedies = (_words(k.value) for k in node.keywords if k.arg == "remedy")
            found.add(Message(kind, rule, next(remedies, default), place))
    return sorted(found)


def _words(node: ast.expr) -> str:
    """The text of an expression; what is only known at run time becomes three dots."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_words(part) for part in parts)
        case ast.BinOp(op=ast.Add()):
            return _words(node.left) + _words(node.right)
        case ast.IfExp():
            return f"{_words(node.body)} / {_words(node.orelse)}"
    return "..."


def errors_markdown() -> str:
    """Markdown: one section for each class, one row for each message."""
    kinds, rows = error_kinds(), messages()
    lines = [_NOTE]
    for name in sorted(kinds, key=lambda each: (each != ROOT_ERROR, each)):
        kind = kinds[name]
        lines += [f"## `{name}`\n", f"{_cell(kind.purpose)}\n"]
        if kind.base in kinds:
            lines.append(f"A kind of [`{kind.base}`](#{kind.base.lower()}).\n")
        own = [row for row in rows if row.kind == name]
        if own:
            lines.append("| rule | remedy | raised in |\n|---|---|---|")
            lines += [
                f"| {_cell(row.rule)} | {_remedy(row.remedy)} | `{row.place}` |" for row in own
            ]
            lines.append("")
    return "\n".join(lines)


def _remedy(text: str) -> str:
    return _cell(text) if len(text) > SHORTEST_REMEDY else "named in the message" if text else ""


def _cell(text: str) -> str:
    one_line = " ".join(text.split())
    for sign, shown in (
        ("\\", "&#92;"),
        ("|", "&#124;"),
        ("<", "&lt;"),
        ("*", "&#42;"),
        ("_", "&#95;"),
        ("[", "&#91;"),
    ):
        one_line = one_line.replace(sign, shown)
    return one_line
