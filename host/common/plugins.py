# SPDX-License-Identifier: Apache-2.0
"""`Registry`: parts of one kind by name, ours and a user's own, imported when they are used.

A name is looked up in this order:

1. the built-in entries;
2. ``package.module:Class``, a class of any module that can be imported, or of the current folder,
   and ``path/to/file.py:Class``, a class of a file;
3. the entry points that installed distributions declare in the registry's group.

Options of the class may follow any of them: ``NAME:option=value,other=value``. A colon separates
options as well as a comma does. Values are read as JSON, and as plain text where they are none.

Nothing of a plug-in is imported before it is asked for by name, so a broken one never stops a
command that does not use it.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.util
import inspect
import json
import math
import numbers
import re
import sys
import traceback
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any, Final, Generic, TypeVar

from tilewright.host.common.errors import TilewrightError
from tilewright.host.common.extras import install_line
from tilewright.host.common.names import choices

T = TypeVar("T")

FORMS: Final = "package.module:Class or FILE.py:Class"
"""How a class of one's own is named."""

_CLASS: Final = re.compile(
    r"([^:]+\.py|[^\W\d]\w*(?:\.[^\W\d]\w*)*):([^\W\d]\w*)(?::(.*))?", re.DOTALL
)
"""One of `FORMS`, and options."""

COMMAND_LINE: Final = "the command line"
"""Source of an entry that a user wrote as one of `FORMS`."""


@dataclass(frozen=True)
class Entry:
    """What is known of a part before it is imported.

    Attributes:
        source: who brings it, a distribution and its version or `COMMAND_LINE`; empty: we do.
    """

    module: str  # that holds it, as it is imported, or a file, which ends in .py
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

    def parse(self, text: str, flags: Container[str] = ()) -> tuple[str, dict[str, Any]]:
        """The name and the options of what a user wrote; a flag is an option that is True."""
        head, colon, rest = text.partition(":") if isinstance(text, str) else ("", "", "")
        path = _CLASS.fullmatch(text) if colon else None
        if head not in self._builtin and path is not None and path[2] not in flags:
            head, rest = f"{path[1]}:{path[2]}", path[3] or ""
        elif not head or (colon and not (rest and re.fullmatch(r"[\w-]+", head))):
            raise self._error(f"must be a name, {FORMS}", field=self.noun, value=text)
        options: dict[str, Any] = {}
        for part in filter(None, re.split("[,:]", rest)):
            option, equals, value = part.partition("=")
            if not equals and part not in flags:
                raise self._error(
                    "must be option=value",
                    field=f"{self.noun} {text}",
                    value=part,
                    remedy=f"write {head}:option=value, or name a class as {FORMS}",
                )
            options[option] = True if not equals else value
            with contextlib.suppress(ValueError):  # no JSON: plain text
                options[option] = json.loads(value) if equals else True
        return head, options

    def find(self, text: str) -> Entry:
        """The entry of a name; nothing is imported."""
        name, _ = self.parse(text)
        if name in self._builtin:
            return self._builtin[name]
        if path := _CLASS.fullmatch(name):
            return Entry(path[1], path[2], source=COMMAND_LINE)
        found = self._installed().get(name, [])
        if len(found) > 1:
            raise self._error(
                f"is brought by {' and by '.join(e.source for e in found)}",
                field=f"{self.noun} {name}",
                remedy=f"uninstall one of them, or name the class as {FORMS}",
            )
        if not found:
            raise self._error(
                f"no {self.noun} of that name",
                field=self.noun,
                value=name,
                remedy=f"{choices(name, (*self, *self._others))}, or {FORMS}",
            )
        return found[0]

    def check(self, text: str, flags: Container[str] = ()) -> None:
        """Refuse a name that stands for nothing, and a plug-in or options that cannot be used.

        A built-in part without options is not imported.
        """
        name, options = self.parse(text, flags)
        if self.find(name).source or options:
            own = {option: value for option, value in options.items() if option not in flags}
            self._require_options(text, self.load(name), own, {})

    def make(self, part: str | type[T], *arguments: Any, **more: Any) -> T:
        """A part of a name, with the options behind it, or of a class."""
        text = part if isinstance(part, str) else f"{part.__module__}:{part.__qualname__}"
        options = self.parse(part)[1] if isinstance(part, str) else {}
        kind = self.load(part) if isinstance(part, str) else self.accept(part)
        self._require_options(text, kind, options, more)
        for option in options.keys() & more.keys():
            raise self._error(
                "must be left to Tilewright, which sets it",
                field=f"{self.noun} {text}",
                value=option,
                remedy="leave it out",
            )
        try:
            with self.running(kind):
                return kind(*arguments, **options, **more)
        except (TypeError, ValueError) as error:
            if not options:
                raise
            raise self._error(
                f"does not take these options ({_in_one_line(error)})",
                field=f"{self.noun} {text}",
                remedy="the arguments of its class are its options",
            ) from error

    def _require_options(
        self, text: str, kind: type[T], options: dict[str, Any], more: dict[str, Any]
    ) -> None:
        """Refuse options that are no arguments of a class, or of another kind than its default."""
        known = _arguments(kind)
        free = {n: p.default for n, p in known.items() if p.default is not p.empty}
        if any(each.kind is each.VAR_KEYWORD for each in known.values()):
            return
        ours = more if is_ours(kind) else {}  # a user's class that lacks them says so itself
        for option, value in (options | ours).items():
            if option not in (known if option in more else free):
                remedy = choices(option, free, "its options") if free else "leave it out"
                rule, wrong = "must be an option of its class", option
            elif option in options and not _alike(value, free.get(option)):
                remedy = f"its default is {json.dumps(free[option])}"
                rule, wrong = f"{option} must be of the kind of its default", value
            else:
                continue
            raise self._error(rule, field=f"{self.noun} {text}", value=wrong, remedy=remedy)

    def load(self, text: str) -> type[T]:
        """The class of a name."""
        name, entry = self.parse(text)[0], self.find(text)
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

    def _load_foreign(self, name: str, entry: Entry) -> type[T]:
        """The class of a plug-in, once it is known to be one."""

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
            module = _imported(entry)
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


def _arguments(kind: type[Any]) -> dict[str, inspect.Parameter]:
    """What a class is made of; ``**options`` of ours are what it derives from is made of."""
    known: dict[str, inspect.Parameter] = {}
    takes_any = False
    for each in kind.__mro__[:-1]:
        if "__init__" in vars(each):
            own = inspect.signature(vars(each)["__init__"]).parameters
            known = {**own, **known}
            passes_on = any(one.kind is one.VAR_KEYWORD for one in own.values())
            takes_any |= passes_on and not is_ours(each)
            if not passes_on and not takes_any:
                return {n: p for n, p in known.items() if p.kind is not p.VAR_KEYWORD}
    return known


def _alike(value: object, default: object) -> bool:
    """Whether a value may stand in the place of a default, as far as that tells."""
    if isinstance(default, bool) or not isinstance(default, int | float):
        return isinstance(value, bool) or not isinstance(default, bool)
    return isinstance(value, int | float) and not isinstance(value, bool)


def short_name(text: str) -> str:
    """The class or the name of what a user wrote, without module and options."""
    path = _CLASS.fullmatch(text)
    return path[2] if path else text.partition(":")[0]


def _imported(entry: Entry) -> ModuleType:
    """The module of a plug-in, with those beside it in reach."""
    file = Path(entry.module).expanduser().resolve()
    if entry.source == COMMAND_LINE:
        folder = str(file.parent if file.suffix == ".py" else Path.cwd())
        if folder not in sys.path:
            sys.path.append(folder)  # last: no file there hides an installed module
    if file.suffix != ".py":
        return importlib.import_module(entry.module)
    if not file.is_file():
        raise FileNotFoundError("no such file")
    with contextlib.suppress(ValueError, ImportError):  # no specification; dots in the name
        known = importlib.util.find_spec(file.stem)
        if known is not None and known.origin and Path(known.origin).resolve() == file:
            return importlib.import_module(file.stem)
    name = f"{file.stem}_{hashlib.sha256(str(file).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, file)
    if name in sys.modules or spec is None or spec.loader is None:
        return sys.modules[name]
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


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
