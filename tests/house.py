# SPDX-License-Identifier: Apache-2.0
"""Print the lines of each room beside its budget; fail when one is over, or a folder too full.

Budgets and the largest folder stand in ``pyproject.toml`` (``tool.tilewright.house``). A room that
shrinks gets a smaller budget in the same commit; one that must grow says why in its commit.
"""

import subprocess
import sys
import tomllib
from collections import Counter
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
KINDS = {".py", ".sv", ".v", ".svh", ".cpp", ".h", ".md", ".css", ".js", ".tcl"}


def sources(root: Path) -> dict[PurePosixPath, int]:
    """Lines of each source file and page that git knows, links left out."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True
    ).stdout
    files = (PurePosixPath(name) for name in listed.split("\0") if name)
    return {
        file: len((root / file).read_bytes().splitlines())
        for file in files
        if file.suffix in KINDS and (root / file).is_file() and not (root / file).is_symlink()
    }


def room_of(file: PurePosixPath, rooms: dict[str, int]) -> str | None:
    """The innermost room that has a file."""
    return next((str(parent) for parent in file.parents if str(parent) in rooms), None)


def complaints(files: dict[PurePosixPath, int], rooms: dict[str, int], most: int) -> list[str]:
    """What is wrong with the house: rooms over their budget, folders that are too full."""
    lines: Counter[str] = Counter()
    for file, count in files.items():
        lines[room_of(file, rooms) or ""] += count
    wrong = [
        f"{room}: {lines[room]:,} lines, its budget is {budget:,}"
        for room, budget in rooms.items()
        if lines[room] > budget
    ]
    folders = Counter(str(file.parent) for file in files)
    wrong += [
        f"{folder}: {count} files in a folder, at most {most}"
        for folder, count in sorted(folders.items())
        if count > most
    ]
    return wrong


def main() -> int:
    house = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["tilewright"]["house"]
    rooms: dict[str, int] = house["rooms"]
    files = sources(ROOT)
    lines: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for file, count in files.items():
        room = room_of(file, rooms) or "(elsewhere)"
        lines[room] += count
        counts[room] += 1
    for room in sorted(lines):
        budget = f"of {rooms[room]:7,}" if room in rooms else ""
        print(f"{room:32}{counts[room]:5} files{lines[room]:8,} lines {budget}")
    wrong = complaints(files, rooms, house["files"])
    print(*wrong, sep="\n", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
