# SPDX-License-Identifier: Apache-2.0
"""Sections of `reference/json.md`: what the `--json` of every command holds.

They are made of `json_members.yaml`. Tests compare each document that they read with it
(`tests/support/documents/json_members.py`), so that a key cannot be added, lost or change its type
unseen.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import yaml

MEMBERS: Final = Path(__file__).resolve().parent / "json_members.yaml"
MORE: Final = "..."
"""Stands for keys that the run decides."""

MAY_MISS: Final = "?"
"""Ends a key that not every row has."""

_NOTE: Final = """Below stand the keys of each member, with their types. *Further keys* depend on
the run. A key in *italics* is missing where it has no meaning.
"""


def read_members(path: Path = MEMBERS) -> tuple[dict[str, str], dict[str, dict[str, list[str]]]]:
    """Meaning of each name, and of each command its members with their keys."""
    known: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    commands = {
        command: {member: keys.split() for member, keys in members.items()}
        for command, members in known["commands"].items()
    }
    return known["words"], commands


def meaning(words: Mapping[str, str], command: str, key: str) -> tuple[str, str]:
    """Type and meaning of a key in a command's document; `KeyError` if nobody wrote it down."""
    text = words.get(f"{key}.{command.split(' --', maxsplit=1)[0]}") or words[key]
    kind, _, what = text.partition("; ")
    return kind, what


def json_markdown() -> str:
    """Markdown: one section for each command."""
    words, commands = read_members()
    lines = [_NOTE]
    for command, members in commands.items():
        lines.append(
            f"## `tilewright {command}`\n\n| member | key | type | meaning |\n|---|---|---|---|"
        )
        for member, keys in members.items():
            lines += _rows(words, command, member, keys)
        lines.append("")
    return "\n".join(lines)


def _rows(words: Mapping[str, str], command: str, member: str, keys: list[str]) -> Iterator[str]:
    if not keys:
        yield f"| `{member}` | none | | |"
    for key in keys:
        if key == MORE:
            yield f"| `{member}` | further keys | | |"
            continue
        name = key.removesuffix(MAY_MISS)
        shown = f"*`{name}`*" if key != name else f"`{name}`"
        yield f"| `{member}` | {shown} | {' | '.join(meaning(words, command, name))} |"
