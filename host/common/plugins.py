# SPDX-License-Identifier: Apache-2.0
"""`Registry`: parts of one kind by name, ours and a user's own, imported when they are used.

A name is looked up in this order:

1. the built-in entries;
2. ``package.module:Class``, a class of any module that can be imported, or of the current folder;
3. the entry points that installed distributions declare in the registry's group.

Nothing of a plug-in is imported before it is asked for by name, so a broken one never stops a
command that does not use it.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import math
import numbers
import re
import sys
import traceback
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.extras import install_line
from tilewright.host.common.names import choices

T = TypeVar("T")

_PATH: Final = re.compile(r"([^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)")
"""``package.module:Class``."""

COMMAND_LINE: Final = "the command line"
"""Source of an entry that a user wrote as ``package.module:Class``."""


@dataclass(frozen=True)
class Entry:
    """What is known of a part before it is imported.

    Attributes:
        source: who brings it, a distribution and its version or `COMMAND_LINE`; empty: we do.
    """

    module: str  # that holds it, as it is imported
    kind: str  # name of the class in it
    summary: str = ""  # one line for the command line and the docs; empty: the class says it
    packages: tuple[str, ...] = ()  # importable packages that it needs beyond Tilewright's own
    extras: tuple[str, ...] = ("search",)  # of the distribution, which install them
    source: str = ""
    takes: frozenset[str] | None = None  # what a study may hand to it; None: the class says


class Registry(Mapping[str, Entry], Generic[T]):
    """Parts of one kind: built-in ones, then those of installed distributions."""

    def __init__(
        self,
        noun: str,
        *,
        base: type[Any],
        group: str,
        package: str,
        builtin: Mapping[str, Entry],
        error: type[TilewrightError],
        others: Iterable[str] = (),
    ) -> None:
        self.noun: Final = noun
        self._others: Final = tuple(others)
        self._base: Final = base
        self._group: Final = group
        self._builtin: Final = {
            name: replace(
                entry, module=f"{package}.{entry.module}", takes=entry.takes or frozenset()
            )
            for name, entry in builtin.items()
        }
        self._error: Final = error

    def __iter__(self) -> Iterator[str]:
        """Names of the built-in entries, then those of the entry points."""
        yield from self._builtin
        yield from (name for name in self._installed() if name not in self._builtin)

    def __len__(self) -> int:
        """Number of names."""
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> Entry:
        """The entry of a name."""
        try:
            return self.find(name)
        except TilewrightError as error:
            raise KeyError(name) from error

    def find(self, name: str) -> Entry:
        """The entry of a name; nothing is imported."""
        if not isinstance(name, str):
            raise self._error("must be a name or package.module:Class", field=self.noun, value=name)
        if name in self._builtin:
            return self._builtin[name]
        if ":" in name:
            return self._of_path(name)
        found = self._installed().get(name, [])
        if len(found) > 1:
            raise self._error(
                f"is brought by {' and by '.join(e.source for e in found)}",
                field=f"{self.noun} {name}",
                remedy="uninstall one of them, or name the class as package.module:Class",
            )
        if not found:
            raise self._error(
                f"no {self.noun} of that name",
                field=self.noun,
                value=name,
                remedy=f"{choices(name, (*self, *self._others))}, or package.module:Class",
            )
        return found[0]

    def check(self, name: str) -> None:
        """Refuse a name that stands for nothing, and a plug-in that cannot be used.

        A built-in part is not imported.
        """
        if self.find(name).source:
            self.load(name)

    def load(self, name: str) -> type[T]:
        """The class of a name."""
        entry = self.find(name)
        for needed in entry.packages:
            if importlib.util.find_spec(needed) is None:
                raise self._error(
                    f"{self.noun} {name} needs the package {needed}, which is not installed",
                    field=self.noun,
                    remedy=install_line(*entry.extras),
                )
        if entry.source:
            return self._load_foreign(name, entry)
        kind: type[T] = getattr(importlib.import_module(entry.module), entry.kind)
        return kind

    @contextlib.contextmanager
    def running(self, part: type[Any], name: str = "") -> Iterator[None]:
        """Code of a part runs: what fails in a user's own is told in one line, with its place.

        What fails in ours is our defect and passes as it is.
        """
        try:
            yield
        except TilewrightError:
            raise
        except (Exception, SystemExit) as error:
            if is_ours(part):
                raise
            raise self._error(
                f"failed with {_in_one_line(error)}{_place(error, part)}",
                field=f"{self.noun} {name or f'{part.__module__}:{part.__qualname__}'}",
                remedy="mend the class",
            ) from error

    def summary(self, name: str) -> str:
        """What a part does, in one line: of its entry, or the first line of its docstring."""
        text = self.find(name).summary or inspect.getdoc(self.load(name)) or "no docstring"
        return text.splitlines()[0]

    def hidden(self) -> list[str]:
        """A line for each plug-in that has the name of a built-in entry, which stays in use."""
        return [
            f"{self.noun} {name} of {entry.source} is not used: Tilewright has one of that name"
            for name, entries in self._installed().items()
            for entry in entries
            if name in self._builtin
        ]

    def _installed(self) -> dict[str, list[Entry]]:
        """Entries of the entry points by name, several where distributions compete."""
        found: dict[str, list[Entry]] = {}
        for point in metadata.entry_points(group=self._group):
            dist = point.dist
            source = f"{dist.name} {dist.version}" if dist else "an unknown distribution"
            module, _, kind = point.value.partition(":")
            entry = Entry(module.strip(), kind.strip(), source=source)
            found.setdefault(point.name, []).append(entry)
        return {name: sorted(found[name], key=lambda entry: entry.source) for name in sorted(found)}

    def _of_path(self, name: str) -> Entry:
        match = _PATH.fullmatch(name)
        if match is None:
            raise self._error("must be a name or package.module:Class", field=self.noun, value=name)
        return Entry(match[1], match[2], source=COMMAND_LINE)

    def _load_foreign(self, name: str, entry: Entry) -> type[T]:
        """The class of a plug-in, once it is known to be one."""
        if entry.source == COMMAND_LINE and str(Path.cwd()) not in sys.path:
            sys.path.append(str(Path.cwd()))  # last: no file here hides an installed module

        def broken(why: str, remedy: str) -> TilewrightError:
            """Which distribution, which module, what is wrong."""
            return self._error(
                f"{why} (plug-in of {entry.source}, {entry.module}:{entry.kind})",
                field=f"{self.noun} {name}",
                remedy=remedy
                if entry.source == COMMAND_LINE
                else f"mend or uninstall {entry.source.partition(' ')[0]}",
            )

        try:
            module = importlib.import_module(entry.module)
        except (Exception, SystemExit) as error:
            raise broken(
                f"its module cannot be imported: {_in_one_line(error)}", "check the name"
            ) from error
        kind = getattr(module, entry.kind, None)
        if kind is None:
            file = getattr(module, "__file__", None)
            known = [
                each.__name__
                for each in vars(module).values()
                if isinstance(each, type) and issubclass(each, self._base) and not is_ours(each)
            ]
            raise broken(
                f"its module{f' ({file})' if file else ''} has no such class",
                choices(entry.kind, known) if known else "check the name",
            )
        if wrong := self._unusable(kind):
            raise broken(wrong, "mend the class, or check the name")
        found: type[T] = kind
        return found

    def accept(self, kind: type[T]) -> type[T]:
        """A class that a user hands over itself."""
        if wrong := self._unusable(kind):
            raise self._error(
                wrong, field=self.noun, value=kind, remedy="give a name or such a class"
            )
        return kind

    def _unusable(self, kind: object) -> str:
        """Why something is no class of this kind; empty: it is one."""
        wanted = f"{self._base.__module__}.{self._base.__name__}"
        if not isinstance(kind, type) or not issubclass(kind, self._base):
            return f"must be a subclass of {wanted}"
        if inspect.isabstract(kind):
            missing = ", ".join(sorted(getattr(kind, "__abstractmethods__", ())))
            return f"must define what {wanted} leaves open: {missing}"
        return ""


def is_ours(part: type[Any]) -> bool:
    """Whether a class is Tilewright's own."""
    return part.__module__.partition(".")[0] == "tilewright"


def is_positive(value: object) -> bool:
    """Whether a user's code gave a number that is finite and above 0."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return False
    try:
        return math.isfinite(value) and float(value) > 0
    except OverflowError:  # an integer beyond any float
        return False


def _in_one_line(error: BaseException) -> str:
    """Kind and text of an exception."""
    return " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")


def _place(error: BaseException, part: type[Any]) -> str:
    """Where in the part's file an exception arose; empty: elsewhere."""
    file = getattr(sys.modules.get(part.__module__), "__file__", None)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == file]
    return f" ({file}, line {lines[-1]})" if lines else ""
