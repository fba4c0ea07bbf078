# SPDX-License-Identifier: Apache-2.0
"""YAML files that users write: read as plain mappings, whatever is in them."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.names import choices
from tilewright.host.common.plain_values import PlainValueError

if TYPE_CHECKING:
    import yaml

MAX_BYTES: Final = 1 << 20
"""No description of hardware is longer."""

MAX_INTEGER: Final = 1 << 64
"""No figure of hardware is larger; floating point holds what is smaller."""

SUFFIXES: Final = (".yaml", ".yml")

_FORMS: Final = {
    "int": re.compile(r"[-+]?(?:[0-9][0-9_]*|0x[0-9a-fA-F_]+)\Z"),
    "bool": re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"),
    "float": re.compile(
        r"(?:[-+]?(?:(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?|[0-9]+[eE][-+]?[0-9]+)"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z"
    ),
}
"""Which plain scalars are numbers and truth values, by the tag's end."""

_ZEROS: Final = re.compile(r"[-+]?0[0-9_]+")


@functools.cache
def _plain_loader() -> type[yaml.SafeLoader]:
    """PyYAML's loader, restricted; made here, for a board that runs a bundle lacks PyYAML."""
    import yaml  # noqa: PLC0415  (see above)

    class PlainLoader(yaml.SafeLoader):
        """A safe loader without aliases and merge keys, which refuses a key that is given twice.

        A few hundred bytes of aliases grow to gigabytes. Numbers and truth values are those of YAML
        1.2: 1:30 and ``no`` are text, and an integer that begins with 0 is refused, since readers
        differ in what it is.
        """

        yaml_implicit_resolvers = {  # noqa: RUF012  (as PyYAML declares it)
            first: [
                (tag, _FORMS.get(tag.removeprefix("tag:yaml.org,2002:"), form))
                for tag, form in resolvers
            ]
            for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
        }

        def construct_scalar(self, node: yaml.Node) -> Any:
            """Build a scalar, unless it is a number that readers take differently."""
            value = super().construct_scalar(node)  # type: ignore[arg-type]  # of PyYAML
            if node.tag == "tag:yaml.org,2002:int" and _ZEROS.fullmatch(str(value)):
                raise yaml.constructor.ConstructorError(
                    None, None, f"{value} begins with 0: write it without, or in quotes",
                    node.start_mark,
                )  # fmt: skip
            return value

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            """Build a node that is no alias."""
            if self.check_event(yaml.events.AliasEvent):
                event = self.peek_event()  # type: ignore[no-untyped-call]  # of PyYAML
                raise yaml.composer.ComposerError(
                    None, None, "aliases (*name) cannot be used", event.start_mark
                )
            return super().compose_node(parent, index)

        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            """Build a mapping; PyYAML itself would keep the last value silently."""
            seen: set[str] = set()
            for key_node, _ in node.value:
                if not isinstance(key_node, yaml.ScalarNode):
                    continue
                problem = ""
                if key_node.tag == "tag:yaml.org,2002:merge":
                    problem = "merge keys (<<) cannot be used"
                elif key_node.value in seen:
                    problem = f"key {key_node.value!r} is given twice"
                if problem:
                    raise yaml.constructor.ConstructorError(
                        None, None, problem, key_node.start_mark
                    )
                seen.add(key_node.value)
            return super().construct_mapping(node, deep)

    return PlainLoader


def _check_plain(value: object) -> None:
    """Refuse what JSON could not hold, huge integers, and text that steers a terminal."""
    match value:
        case dict():
            for key, inner in value.items():
                _check_plain(key)
                _check_plain(inner)
        case list():
            for inner in value:
                _check_plain(inner)
        case str():
            bad = next((c for c in value if not c.isprintable() and c not in "\n\t"), "")
            if bad:
                raise PlainValueError(f"the character U+{ord(bad):04X} cannot be used")
        case bool() | float() | None:
            pass
        case int():
            if abs(value) >= MAX_INTEGER:
                raise PlainValueError("integers must be below 2^64")
        case _:
            raise PlainValueError(f"a value of type {type(value).__name__} cannot be used")


def read_yaml_mapping(path: Path, what: str) -> dict[str, Any]:
    """Read a YAML file whose document must be a mapping."""
    found, _ = read_yaml(path, what)
    if not isinstance(found, dict):
        raise ConfigError(
            f"{what} must be a mapping of keys to values",
            field=str(path),
            value=type(found).__name__,
            remedy="write 'key: value' lines",
        )
    return found


def read_yaml(path: Path, what: str) -> tuple[Any, str]:
    """Read a YAML file: its document, and its text."""
    import yaml  # noqa: PLC0415  (see `_plain_loader`)

    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, ValueError) as error:  # ValueError: not UTF-8, or a NUL in the path
        raise ConfigError(
            f"{what} must be a readable file",
            field=str(path),
            remedy=getattr(error, "strerror", None) or "save it as UTF-8 text",
        ) from error
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{what} must be at most {MAX_BYTES:,} bytes long", field=str(path))
    try:
        found = yaml.load(text, Loader=_plain_loader())
        _check_plain(found)
    except (
        yaml.YAMLError,
        ArithmeticError,
        AttributeError,
        LookupError,
        TypeError,
        ValueError,
        RecursionError,
    ) as error:  # of odd tags, such as !!int ""
        where = getattr(error, "problem_mark", None)
        place = f"{path}:{where.line + 1}" if where is not None else str(path)
        problem = getattr(error, "problem", None) or "cannot be parsed"
        if isinstance(error, PlainValueError):
            problem = str(error)
        raise ConfigError(
            f"{what} must be valid YAML ({problem})", field=place, remedy="mend it there"
        ) from error
    return found, text


def named_file(
    name_or_path: str | Path, folder: Path, what: str, field: str, names: Sequence[str]
) -> Path:
    """The YAML file of a name, or the file that a path names."""
    if not isinstance(name_or_path, str | Path):
        raise ConfigError(
            f"must be the name of the {what} or the path of its YAML file",
            field=field,
            value=name_or_path,
            remedy=choices("", names),
        )
    path = Path(name_or_path)
    if path.suffix in SUFFIXES and not path.is_dir():
        return path
    found = folder / f"{name_or_path}.yaml"
    if str(name_or_path) == path.name and found.is_file():
        return found
    rule, remedy = f"no {what} of that name", ""
    if path.is_dir() and str(name_or_path):
        rule, remedy = f"the {what} must be a YAML file, no folder", ""
        inside = sorted(each.name for suffix in SUFFIXES for each in path.glob(f"*{suffix}"))
        if inside:
            remedy = choices("", [str(path / each) for each in inside])
    elif path.is_file():
        rule, remedy = f"the file of the {what} must end in {' or '.join(SUFFIXES)}", "rename it"
    if not remedy:
        remedy = f"{choices(name_or_path, names)}, or the path of a YAML file"
    raise ConfigError(
        rule,
        field=field,
        value=str(name_or_path),
        remedy=remedy,
    )
