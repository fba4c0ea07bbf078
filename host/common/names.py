# SPDX-License-Identifier: Apache-2.0
"""Names that do not exist: the remedy that suggests the nearest ones."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Sequence
from typing import Final

from tilewright.host.common.errors import ConfigError

_LISTED: Final = 24
"""Names of a list that are shown by default."""

_SIMILARITY: Final = 0.6

_STEM: Final = 48
"""Characters of a file's name, some 200 bytes at most; file systems take 255."""


_PLAIN: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9 _.,:+=()@*-]{0,99}")
"""A name without a meaning to a shell, Tcl, HTML, a spreadsheet, a file system or a terminal."""


def check_name(value: object, field: str) -> None:
    """Refuse a name from a file that could be more than a name where it is written."""
    if not isinstance(value, str) or not _PLAIN.fullmatch(value):
        raise ConfigError(
            "must be a name of at most 100 letters, digits, spaces and _ . , : + = ( ) @ * -, with "
            "a letter, a digit or _ first",
            field=field,
            value=value,
            remedy="choose another name, in quotes",
        )


def nearest(name: object, known: Iterable[str]) -> str:
    """The known name that is most like another one; empty: none is."""
    folded = {each.casefold(): each for each in known}
    found = difflib.get_close_matches(str(name).casefold(), folded, n=1, cutoff=_SIMILARITY)
    return folded[found[0]] if found else ""


def choices(
    name: object, known: Iterable[str], what: str = "", *, limit: int | None = _LISTED
) -> str:
    """A remedy: the nearest of the known names, then all of them, as far as they are few."""
    names = list(known)
    if not names:
        return f"there are no {what or 'such names'} yet"
    near = nearest(name, names)
    listed = ", ".join(names[:limit])
    more = f" and {len(names) - limit} more" if limit is not None and len(names) > limit else ""
    intro = f"{what}:" if what else "use one of"
    return (f"did you mean {near}? " if near else "") + f"{intro} {listed}{more}"


def file_stems(names: Iterable[str], endings: Sequence[str] = ("",)) -> list[str]:
    """Names of files for what has any names: no two files are equal, whatever case counts."""
    taken: set[str] = set()
    stems = []
    for name in names:
        plain = "".join(sign if sign.isalnum() or sign in "._-" else "_" for sign in name)
        stem = plain = plain[:_STEM].lstrip("-.") or "_"
        number = 1
        while not taken.isdisjoint(mine := {f"{stem}{each}".casefold() for each in endings}):
            number += 1
            stem = f"{plain}-{number}"
        taken |= mine
        stems.append(stem)
    return stems


def counted(number: int, one: str, many: str = "") -> str:
    """A number with its noun: ``1 layer``, ``2,000 layers``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
