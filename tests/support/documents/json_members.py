# SPDX-License-Identifier: Apache-2.0
"""Documents of `--json` against `docs/site/json_members.yaml`, of which the page is made."""

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "docs" / "site"))

from json_page import MAY_MISS, MORE, meaning, read_members

WORDS, COMMANDS = read_members()
KINDS = {
    "integer": int, "number": (int, float), "text": str, "true": bool, "object": dict,
    "list": (list, tuple), "null": type(None),
}  # fmt: skip


def command_of(line: str) -> str:
    """The entry of a command line: the longest one that its words begin with."""
    words = shlex.split(line)[1:]
    flags = [command for command in COMMANDS if "--" in command]
    for command in flags:
        name, flag = command.rsplit(" ", 1)
        if words[: len(name.split())] == name.split() and flag in words:
            return command
    for length in (2, 1):
        if (name := " ".join(words[:length])) in COMMANDS:
            return name
    raise KeyError(line)


def wrong_in(document: Mapping[str, Any]) -> list[str]:
    """What a document has that its page does not tell, or lacks, or has in another type."""
    command = command_of(document["command"])
    members = COMMANDS[command]
    found = [f"{name} is not told" for name in document.keys() - members - {"schema", "command"}]
    for member, keys in members.items():
        if member not in document:
            found.append(f"{member} is missing")
            continue
        held = document[member]
        for part in held if isinstance(held, list) else [held]:
            found += [f"{member}: {text}" for text in _wrong_keys(command, keys, part)]
    return found


def _wrong_keys(command: str, keys: list[str], part: Mapping[str, Any]) -> list[str]:
    names = {key.removesuffix(MAY_MISS) for key in keys} - {MORE}
    must = {key for key in keys if not key.endswith(MAY_MISS)} - {MORE}
    found = [f"{name} is missing" for name in sorted(must - part.keys())]
    if MORE not in keys:
        found += [f"{name} is not told" for name in sorted(part.keys() - names)]
    for name in sorted(names & part.keys()):
        kinds = [KINDS[each.split()[0]] for each in _kinds(meaning(WORDS, command, name)[0])]
        value = part[name]
        flat = tuple(k for kind in kinds for k in (kind if isinstance(kind, tuple) else (kind,)))
        if not isinstance(value, flat) or (isinstance(value, bool) and bool not in flat):
            found.append(f"{name} is {value!r}")
    return found


def _kinds(text: str) -> list[str]:
    """``integer, text or null`` as its parts; ``true or false`` is one."""
    text = text.replace("true or false", "true")
    return [part for piece in text.split(", ") for part in piece.split(" or ")]
