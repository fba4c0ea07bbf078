# SPDX-License-Identifier: Apache-2.0
"""Code coverage as Verilator counts it: points of a data file, per-module totals, waivers."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError, ToolError
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.sim.tools.toolchain import find_verilator

Lines = Mapping[str, Sequence[str]]
"""Source lines by file name."""

_POINT: Final = re.compile(r"^C '(?P<keys>.*)' (?P<count>\d+)$")
_WAIVER_KEYS: Final = {"file", "line", "reason"}


@dataclass(frozen=True, kw_only=True)
class Point:
    """One coverage point of one instance."""

    file: str  # name of the source file
    line: int  # line where the point stands, from 1
    column: int  # column where it stands, from 1
    kind: str  # ``line``, ``branch`` or ``toggle``
    what: str  # the alternative (``if``, ``else``, ``case``, ``block`` ...) or ``signal[bit]:0->1``
    lines: tuple[int, ...]  # source lines that run when the point is hit
    page: str  # module with its parameters, as Verilator names the variant
    instance: str  # place in the hierarchy
    count: int  # how often it was hit

    @property
    def is_branch(self) -> bool:
        """Whether the point is one alternative of a decision."""
        return self.kind == "branch" or (self.kind == "line" and self.what != "block")


def merge(files: Sequence[Path], target: Path) -> None:
    """Add the counts of data files with verilator_coverage."""
    if not files:
        raise ToolError(
            "no simulation left coverage data",
            field="TILEWRIGHT_COVERAGE_DIR",
            remedy="run models that were built for coverage and close them",
        )
    verilator = find_verilator()
    program = verilator.path.with_name("verilator_coverage")
    command = [str(program), "--write", str(target), *map(str, files)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, env=verilator.full_environment()
        )
    except OSError as error:
        raise ToolError(f"{program} does not run ({error})", field="verilator_coverage") from error
    if done.returncode != 0:
        problem = (done.stderr or done.stdout).strip().splitlines()
        raise ToolError(
            f"verilator_coverage fails ({problem[0] if problem else 'no message'})",
            field=str(target),
        )


def read_points(path: Path) -> list[Point]:
    """The points of a data file."""
    points = []
    with path.open(encoding="utf-8") as lines:
        for text in lines:
            if text.startswith("#") or not text.strip():
                continue
            match = _POINT.match(text.rstrip("\n"))
            if match is None:
                raise ToolError(
                    "must be a coverage point of Verilator 5", field=str(path), value=text.strip()
                )
            points.append(_point(match["keys"], int(match["count"])))
    return points


def _point(keys: str, count: int) -> Point:
    values = dict(part.split("\x02", 1) for part in keys.split("\x01") if part)
    line = int(values["l"])
    return Point(
        file=Path(values["f"]).name,
        line=line,
        column=int(values["n"]),
        kind=values["t"],
        what=values["o"],
        lines=_ranges(values.get("S", str(line))),
        page=values["page"].partition("/")[2],
        instance=values["h"],
        count=count,
    )


def _ranges(text: str) -> tuple[int, ...]:
    """The numbers of ``3,5-7``."""
    numbers: list[int] = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers.extend(range(int(first), int(last or first) + 1))
    return tuple(numbers)


@dataclass(frozen=True, kw_only=True)
class Miss:
    """What no run reached: a line (``what`` is ``line``) or an alternative of a decision."""

    file: str
    line: int
    what: str
    text: str


@dataclass(frozen=True, kw_only=True)
class Share:
    """Hit out of total."""

    hit: int
    total: int

    @property
    def percent(self) -> float:
        """100 when there is nothing to hit."""
        return 100.0 * self.hit / self.total if self.total else 100.0

    def __add__(self, other: Share) -> Share:
        """Both together."""
        return Share(hit=self.hit + other.hit, total=self.total + other.total)


@dataclass(frozen=True, kw_only=True)
class FileCoverage:
    """Coverage of one source file over all its instances and parameters."""

    file: str
    lines: Share
    branches: Share
    toggles: Share
    misses: tuple[Miss, ...]


def summarise(points: Iterable[Point], sources: Lines) -> list[FileCoverage]:
    """Coverage by file: what one instance of one configuration reached is reached."""
    runs: dict[tuple[str, int], int] = {}
    branches: dict[tuple[str, int, int, str], int] = {}
    toggles: dict[tuple[str, int, str], int] = {}
    for p in points:
        if p.kind == "toggle":
            toggle = (p.file, p.line, p.what)
            toggles[toggle] = toggles.get(toggle, 0) + p.count
            continue
        for line in p.lines:
            runs[p.file, line] = runs.get((p.file, line), 0) + p.count
        if p.is_branch:
            branch = (p.file, p.line, p.column, p.what)
            branches[branch] = branches.get(branch, 0) + p.count
    result = []
    names = {key[0] for key in runs} | {key[0] for key in toggles}
    for name in sorted(names):
        text = sources[name]
        lines = {key: n for key, n in runs.items() if key[0] == name}
        sides = {key: n for key, n in branches.items() if key[0] == name}
        flips = [n for key, n in toggles.items() if key[0] == name]
        missed = [(line, "line") for (_, line), n in lines.items() if not n]
        missed += [(line, what) for (_, line, _, what), n in sides.items() if not n]
        result.append(
            FileCoverage(
                file=name,
                lines=_share(lines.values()),
                branches=_share(sides.values()),
                toggles=_share(flips),
                misses=tuple(
                    Miss(file=name, line=line, what=what, text=text[line - 1].strip())
                    for line, what in sorted(set(missed))
                ),
            )
        )
    return result


def _share(counts: Iterable[int]) -> Share:
    hits = [count > 0 for count in counts]
    return Share(hit=sum(hits), total=len(hits))


@dataclass(frozen=True, kw_only=True)
class Waiver:
    """A reviewed reason why misses on a source line are accepted."""

    file: str  # name of the source file
    line: str  # text of the line, runs of blanks as one
    reason: str  # why no run can or need reach it
    through: str = ""  # text of the last line of a block that starts with ``line``; empty: one line


def load_waivers(path: Path) -> list[Waiver]:
    """Read the waiver file."""
    entries = read_yaml_mapping(path, "a coverage waiver file").get("waivers")
    if not isinstance(entries, list):
        raise ConfigError("must be a list", field=f"{path}: waivers", value=type(entries).__name__)
    waivers: list[Waiver] = []
    for number, entry in enumerate(entries, start=1):
        field = f"{path}: waiver {number}"
        if not isinstance(entry, dict) or set(entry) - {"through"} != _WAIVER_KEYS:
            raise ConfigError(
                "must have the keys file, line, reason and perhaps through",
                field=field,
                value=entry,
            )
        texts: dict[str, Any] = dict(entry)
        for key, value in texts.items():
            if not isinstance(value, str) or not value.strip():
                raise ConfigError("must be a text", field=f"{field}: {key}", value=value)
        waiver = Waiver(**{key: " ".join(value.split()) for key, value in texts.items()})
        if any((w.file, w.line) == (waiver.file, waiver.line) for w in waivers):
            raise ConfigError("is waived twice", field=field, value=waiver.line)
        waivers.append(waiver)
    return waivers


def covers(waiver: Waiver, sources: Lines) -> set[int]:
    """Numbers of the source lines that a waiver names; none when its text is gone."""
    texts = [" ".join(line.split()) for line in sources.get(waiver.file, ())]
    numbers: set[int] = set()
    for first, text in enumerate(texts):
        if text != waiver.line:
            continue
        end = waiver.through or waiver.line
        last = next((n for n in range(first, len(texts)) if texts[n] == end), None)
        if last is not None:
            numbers.update(range(first + 1, last + 2))
    return numbers


def unjustified(misses: Iterable[Miss], waivers: Sequence[Waiver], sources: Lines) -> list[Miss]:
    """The misses that no waiver names."""
    waived = {(w.file, number) for w in waivers for number in covers(w, sources)}
    return [miss for miss in misses if (miss.file, miss.line) not in waived]


def stale(misses: Iterable[Miss], waivers: Sequence[Waiver], sources: Lines) -> list[Waiver]:
    """The waivers that no miss needs: the line is gone, changed, or reached."""
    missed = {(miss.file, miss.line) for miss in misses}
    return [
        waiver
        for waiver in waivers
        if not any((waiver.file, number) in missed for number in covers(waiver, sources))
    ]
