# SPDX-License-Identifier: Apache-2.0
"""Runs a tutorial as its reader would: block after block, in one folder.

- ```` ```python ````: executed; the blocks of a page share their names.
- ```` ```python title="mine.py" ````: written to that file.
- ```` ```console ````: each line behind ``$`` is run by bash, and must succeed.
- ```` ```text ````: every line must be in what the block before it printed.
- Any other language is shown and not run.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
TUTORIALS = ROOT / "docs" / "tutorials"
TIMEOUT_S = 900

_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block: its language, the file that it is written to, its text and line."""

    language: str
    title: str
    text: str
    line: int


def blocks(page: str) -> Iterator[Block]:
    """The fenced blocks of a page, in order."""
    for match in _FENCE.finditer(page):
        line = page[: match.start()].count("\n") + 2
        yield Block(language=match[1], title=match[2] or "", text=match[3], line=line)


def run_tutorial(name: str, folder: Path) -> None:
    """Run a page of docs/tutorials in a folder; a failure names the line of the page."""
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "rtl").symlink_to(ROOT / "rtl")
    names: dict[str, object] = {}
    printed = ""
    for block in blocks((TUTORIALS / f"{name}.md").read_text(encoding="utf-8")):
        place = f"docs/tutorials/{name}.md:{block.line}"
        if block.title:
            (folder / block.title).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            printed = _python(block, names, folder, place)
        elif block.language == "console":
            printed = "".join(_command(line, folder, place) for line in commands(block.text))
        elif block.language == "text":
            for line in block.text.splitlines():
                assert _plain(line) in _plain(printed), f"{place}: {line!r} is not in\n{printed}"


def commands(text: str) -> list[str]:
    """The lines behind ``$``."""
    return [line[2:] for line in text.replace("\\\n", " ").splitlines() if line.startswith("$ ")]


def _plain(text: str) -> str:
    return " ".join(text.split())


def _python(block: Block, names: dict[str, object], folder: Path, place: str) -> str:
    source = "\n" * (block.line - 1) + block.text  # errors name the line of the page
    output = io.StringIO()
    sys.path.insert(0, str(folder))
    try:
        with contextlib.chdir(folder), contextlib.redirect_stdout(output):
            exec(compile(source, place.split(":", maxsplit=1)[0], "exec"), names)
    finally:
        sys.path.remove(str(folder))
    return output.getvalue()


def _command(line: str, folder: Path, place: str) -> str:
    tools = Path(sys.executable).parent
    done = subprocess.run(
        ["bash", "-c", line],
        cwd=folder,
        env={
            **os.environ,
            "PATH": f"{tools}:{os.environ['PATH']}",
            "COLUMNS": "160",
            "PYTHONPATH": f"{ROOT / 'src'}",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, f"{place}: {line}\n{done.stdout}{done.stderr}"
    return done.stdout
