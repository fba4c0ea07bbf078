# SPDX-License-Identifier: Apache-2.0
"""Files of other languages that are written from tables in Python, and the command for them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tilewright.host.common.places import ROOT

Outputs = Mapping[str, Callable[[], str]]
"""Generated files (relative to the repository) and their generators."""


def camel(name: str) -> str:
    """``UpperCamel`` of a name with underscores."""
    return "".join(part.capitalize() for part in name.split("_"))


def cpp_struct(name: str, members: Iterable[tuple[str, str]]) -> list[str]:
    """Lines of a C++ structure; ``members`` are (type, name)."""
    return [f"struct {name} {{", *(f"  {kind} {member};" for kind, member in members), "};", ""]


def cpp_enum(name: str, kind: str, members: Iterable[tuple[str, int]]) -> list[str]:
    """Lines of a C++ enumeration; ``members`` are (name in Python, value)."""
    lines = [f"  k{camel(member)} = {value}," for member, value in members]
    return [f"enum class {name} : {kind} {{", *lines, "};", ""]


def stale_files(outputs: Outputs, root: Path = ROOT) -> list[str]:
    """Generated files under ``root`` whose text is not what the tables give now."""
    stale = []
    for name, generate in outputs.items():
        path = root / name
        if not path.is_file() or path.read_text(encoding="utf-8") != generate():
            stale.append(name)
    return stale


def main(outputs: Outputs, description: str | None, arguments: list[str] | None = None) -> int:
    """Command line: ``--check`` or ``--write``."""
    parser = argparse.ArgumentParser(description=description)
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true", help="fail when a generated file is stale")
    mode.add_argument("--write", action="store_true", help="write the generated files")
    options = parser.parse_args(arguments)
    stale = stale_files(outputs, ROOT)
    if options.write:
        for name in stale:
            path = ROOT / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(outputs[name](), encoding="utf-8")
            sys.stdout.write(f"wrote {name}\n")
        return 0
    for name in stale:
        sys.stderr.write(f"stale: {name}; run `make generate`\n")
    return 1 if stale else 0
