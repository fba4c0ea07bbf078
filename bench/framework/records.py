# SPDX-License-Identifier: Apache-2.0
"""Records of a study in a file of JSON lines: each is kept the moment it is there.

A line that a kill or a full disk cut off is lost alone; the next one does not join it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError, StoreError
from tilewright.host.common.whole_file import MARK

Row = Mapping[str, Any]
Cell = Mapping[str, Any]
"""The members of a row that say what was measured, before anything is."""


class JsonLines:
    """Values in a file, one per line."""

    def __init__(self, path: Path) -> None:
        self.path: Final = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
            self._text = path.read_text(encoding="utf-8")
            if self._text and not self._text.endswith("\n"):
                with path.open("a", encoding="utf-8") as file:
                    file.write("\n")
        except OSError as error:
            raise StoreError(
                f"the file of runs must be writable ({error.strerror})", field=str(path)
            ) from error
        except UnicodeDecodeError as error:
            raise StoreError(
                "must be a file of runs", field=str(path), remedy="name another place"
            ) from error

    def values(self) -> Iterator[Any]:
        """What the file held when it was opened."""
        for line in self._text.splitlines():
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):  # the line that a kill cut off
                continue

    def add(self, value: Any) -> None:
        """Append a value."""
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(value, separators=(",", ":"), default=str) + "\n")


class Records:
    """The rows of a study by cell: what an earlier run left, and what is added."""

    def __init__(self, conditions: Row, path: Path | None = None, known: Row | None = None) -> None:
        self.rows: list[Row] = []
        self._index: dict[tuple[str, ...], set[str]] = {}
        self._lines: JsonLines | None = None
        if known is not None:
            _require_same(conditions, known["conditions"])
            self.rows += known["rows"] if "rows" in known else known["records"]
        if path is None:
            return
        self._lines = JsonLines(path)
        held = list(self._lines.values())
        if not held:
            self._lines.add({"generator": MARK, "conditions": dict(conditions)})
        for number, value in enumerate(held):
            if number == 0:
                _require_same(conditions, value["conditions"])
            else:
                self.rows += value

    def holds(self, cell: Cell) -> bool:
        """Whether a cell has rows; a cell without members never has."""
        names = tuple(cell)
        if names not in self._index:
            self._index[names] = {_name(row, names) for row in self.rows}
        return bool(names) and _name(cell, names) in self._index[names]

    def keep(self, rows: Sequence[Row]) -> None:
        """Write the rows of one cell, which stand in the file together or not at all."""
        if self._lines is not None:
            self._lines.add(rows)

    def forget(self) -> None:
        """Remove the file of lines: a document holds all of them by now."""
        if self._lines is not None:
            self._lines.path.unlink(missing_ok=True)


def lines_beside(document: Path) -> Path:
    """Where the rows of a document stand until it is written."""
    return document.with_name(f"{document.name}.lines")


def _name(row: Row, members: Iterable[str]) -> str:
    return json.dumps([row.get(member) for member in members], default=str)


def _require_same(ours: Row, theirs: Row) -> None:
    wanted = json.loads(json.dumps(dict(ours), default=str))
    for name, value in wanted.items():
        if theirs.get(name) != value:
            raise ConfigError(
                f"the file holds rows of other conditions: {name} was {theirs.get(name)!r}",
                field="--json",
                value=value,
                remedy="name another file",
            )
