# SPDX-License-Identifier: Apache-2.0
"""An exhaustive landscape as one file that others can read: compressed CSV with a JSON header.

The first line of ``NAME.csv.gz`` is ``# `` and a JSON object, the second names the columns; then
comes one row for each *legal* point, in index order. The columns are the knobs of the space, by the
value of each, and ``cycles``. A combination of the header's knob values without a row is illegal.
So the table is whole, and holds nothing twice.

CSV and not Parquet: pandas, polars, R and a spreadsheet read it without a package of tens of
megabytes (``pandas.read_csv(path, comment="#")``), and one landscape is a few megabytes at most.

`read_table` reads it, with NumPy alone; `Table.objective` is an objective for Optuna.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright import __version__
from tilewright.host.common.calls import named
from tilewright.host.common.errors import StoreError, reason_of
from tilewright.host.common.whole_file import MARK, write_whole
from tilewright.host.common.zip_archives import MAX_RATIO, RATIO_FREE_BYTES
from tilewright.tuner.exhaustive.exhaust import Landscape
from tilewright.tuner.search.space import Knob, SpaceError

FORMAT: Final = "tilewright-table"
VERSION: Final = 1
CYCLES: Final = "cycles"
_MARK: Final = "# "
_MOST_POINTS: Final = 1 << 62
_DAMAGE: Final = (
    *(OSError, EOFError, zlib.error, csv.Error, ValueError, TypeError, LookupError),
    *(ArithmeticError, AttributeError, RecursionError),
)
"""What the parts of a file from anybody raise when they are read."""
_KEYS: Final = ("format", "version", "knobs", "points", "legal", "identity", "hw", "memory")


@dataclass(frozen=True, kw_only=True)
class Table:
    """A landscape that was read from a file.

    Attributes:
        flats: int64 of shape (legal,): the legal points in C order of the knobs, ascending.
    """

    about: Mapping[str, Any]  # the header (`header_of`)
    knobs: tuple[Knob, ...]  # of the space; a value is an integer or a text
    flats: npt.NDArray[np.int64]
    cycles: npt.NDArray[np.int64]  # int64 of shape (legal,): cycles of each

    @property
    def optimum(self) -> int:
        """The fewest cycles of any point: proven, because every point was measured."""
        if not len(self.cycles):
            raise StoreError("a table without a legal point has no optimum", field="legal", value=0)
        return int(self.cycles.min())

    def lookup(self, positions: Sequence[int]) -> int | None:
        """Cycles of a point by its position in each knob; None: the point is illegal."""
        flat = int(np.ravel_multi_index(tuple(positions), tuple(map(len, self.knobs))))
        place = int(np.searchsorted(self.flats, flat))
        found = place < len(self.flats) and self.flats[place] == flat
        return int(self.cycles[place]) if found else None

    def point(self, positions: Sequence[int]) -> dict[str, Any]:
        """The knobs' values at their positions."""
        return {k.name: k.values[p] for k, p in zip(self.knobs, positions, strict=True)}

    def objective(self) -> Callable[[Any], float]:
        """An objective of Optuna over the table, to minimise.

        Parameters are the knobs: the position in an ordered one (an integer), the value of another
        (categorical). An illegal point prunes its trial. The values of the point are the trial's
        user attributes.
        """

        def cycles(trial: Any) -> float:
            positions = [
                trial.suggest_int(knob.name, 0, len(knob) - 1)
                if knob.ordered
                else knob.position(trial.suggest_categorical(knob.name, list(knob.values)))
                for knob in self.knobs
            ]
            for name, value in self.point(positions).items():
                trial.set_user_attr(name, value)
            found = self.lookup(positions)
            if found is None:
                import optuna  # noqa: PLC0415  (of the extra search; whoever has a trial has it)

                raise optuna.TrialPruned("not legal")
            return float(found)

        return cycles


def header_of(landscape: Landscape, *, identities: Mapping[str, str], bound: int) -> dict[str, Any]:
    """What a table says of itself."""
    space = landscape.space
    return {
        "format": FORMAT,
        "version": VERSION,
        "generator": MARK,
        "tilewright": __version__,
        "workload": space.workload.to_mapping(),
        "hw": {"name": space.hw.name, **space.hw.parameters()},
        "memory": asdict(landscape.memory),
        "space": space.kind,
        "knobs": [
            {"name": k.name, "values": [_plain(v) for v in k.values], "ordered": k.ordered}
            for k in space.knobs
        ],
        "columns": {
            **{knob.name: "value of the knob" for knob in space.knobs},
            CYCLES: "clock cycles of one run of the layer, from start to the last write",
        },
        **landscape.summary(),
        "bound_cycles": bound,
        "identity": dict(identities),
        "legality": "a combination of knob values without a row is illegal",
    }


def write_table(landscape: Landscape, path: Path, header: Mapping[str, Any]) -> Path:
    """Write a landscape; equal landscapes give equal files."""
    raw = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=raw, mode="wb", mtime=0) as packed,
        io.TextIOWrapper(packed, encoding="utf-8", newline="") as text,
    ):
        text.write(_MARK + json.dumps(header) + "\n")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow([*(knob.name for knob in landscape.space.knobs), CYCLES])
        writer.writerows(_rows(landscape))
    write_whole(path, raw.getvalue())
    return path


@named
def read_table(path: str | Path) -> Table:
    """Read a table of `tilewright export-table` and check that it is whole.

    Returns:
        ``about`` (the header), ``knobs``, ``cycles``, ``optimum``, ``lookup(index)`` (the cycles of
        a point, None if it is illegal) and ``objective()`` for Optuna.

    Raises:
        StoreError: it is no table, of another version, or damaged.

    Example:
        >>> import tilewright as tw
        >>> try:
        ...     table = tw.read_table("no-such-table.csv.gz")
        ... except tw.TilewrightError as error:
        ...     print(error.field)
        no-such-table.csv.gz
    """
    try:
        text = _unpacked(Path(path))
        first = text.readline()
        about = json.loads(first.removeprefix(_MARK)) if first.startswith(_MARK) else {}
    except _DAMAGE as error:
        raise StoreError(
            f"the table cannot be read ({reason_of(error)})",
            field=str(path),
            remedy="give the path of a file of `tilewright export-table`",
        ) from error
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise StoreError(
            "is no table of `tilewright export-table`", field=str(path), remedy="check the file"
        )
    if about.get("version") != VERSION or any(key not in about for key in _KEYS):
        raise StoreError(
            f"must be a table of version {VERSION}", field=str(path), value=about.get("version")
        )
    try:
        knobs = tuple(
            Knob(name=k["name"], values=tuple(k["values"]), ordered=bool(k["ordered"]))
            for k in about["knobs"]
        )
        legal, points = int(about["legal"]), int(about["points"])
        places = [{str(value): n for n, value in enumerate(knob.values)} for knob in knobs]
        sizes = [*map(len, knobs)]
        if not all(isinstance(k.name, str) and len(k) for k in knobs) or points >= _MOST_POINTS:
            raise ValueError("names are text, and there are at most 2^62 points")
    except (SpaceError, *_DAMAGE) as error:
        raise StoreError(
            "must have knobs with name, values and ordered, and two numbers of points, in its "
            f"header ({type(error).__name__}: {reason_of(error)})",
            field=str(path),
            remedy="export it again",
        ) from error
    flats, cycles, count = array("q"), array("q"), 0
    try:
        rows = csv.reader(text)
        if next(rows, None) != [*(knob.name for knob in knobs), CYCLES]:
            raise StoreError("must have a column for each knob and one of cycles", field=str(path))
        for row in rows:
            count += 1
            if count > legal:
                continue
            flat = 0
            for place, size, cell in zip(places, sizes, row, strict=False):
                flat = flat * size + place[cell]
            flats.append(flat)
            cycles.append(int(row[len(knobs)]))
    except _DAMAGE as error:
        raise StoreError(
            "has a value that its header does not name", field=str(path), value=reason_of(error)
        ) from error
    if count != legal or math.prod(sizes) != points:
        raise StoreError(
            f"must have {legal:,} rows, as its header says",
            field=str(path),
            value=count,
            remedy="export it again",
        )
    found, counted = np.array(flats, np.int64), np.array(cycles, np.int64)
    order = np.argsort(found)
    if np.any(np.diff(found[order]) == 0) or np.any(counted < 1):
        raise StoreError(
            "must have each point once, with at least 1 cycle",
            field=str(path),
            remedy="export it again",
        )
    return Table(about=about, knobs=knobs, flats=found[order], cycles=counted[order])


def _unpacked(path: Path) -> io.StringIO:
    """The text of a file, which does not swell as those of an adversary do."""
    limit = max(RATIO_FREE_BYTES, MAX_RATIO * path.stat().st_size)
    with gzip.open(path, "rb") as file:
        data = file.read(limit + 1)
    if len(data) > limit:
        raise ValueError(f"it must not swell to more than {limit} bytes")
    return io.StringIO(data.decode("utf-8"), newline="")


def _rows(landscape: Landscape) -> Iterator[list[Any]]:
    knobs = landscape.space.knobs
    values = [[_plain(value) for value in knob.values] for knob in knobs]
    legal = np.flatnonzero(landscape.cycles > 0)
    positions = np.stack(np.unravel_index(legal, tuple(map(len, knobs))), axis=1).tolist()
    for row, cycles in zip(positions, landscape.cycles[legal].tolist(), strict=True):
        yield [*(of[p] for of, p in zip(values, row, strict=True)), cycles]


def _plain(value: Any) -> int | str:
    """A knob's value as JSON and CSV have it."""
    return int(value) if isinstance(value, int | np.integer) else str(value)
