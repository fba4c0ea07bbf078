# SPDX-License-Identifier: Apache-2.0
"""Exhaustive tables of tuning problems with their certified optima; this file needs NumPy alone.

A problem is a layer of a network on an accelerator that fits a PYNQ-Z2: which of eight
configurations, and which schedule, takes the fewest cycles? Every point of a table was run on the
exact twin of the accelerator's RTL, so the optimum is known and a search can be replayed:

    import certified_tables

    tables = certified_tables.load("certified-tables.npz")
    table = tables["resnet18.C4"]
    table.knobs                         # name -> values, in the order of an index
    table.measure((0, 3, 5, 1, 2, 0, 0))  # cycles, or None where the point is illegal
    table.optimum

    python certified_tables.py certified-tables.npz                     lists the problems
    python certified_tables.py certified-tables.npz resnet18.C4 C4.json  writes one in Kernel
                                                                        Tuner's T4 format
"""

from __future__ import annotations

import json
import sys
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

FORMAT = 1
"""Version of the file."""

ILLEGAL = -1
"""Cycles of a point that the accelerator cannot run."""

_ABOUT = "about"


@dataclass(frozen=True)
class CertifiedTable:
    """Every point of a problem with its cycles.

    Attributes:
        name: network and layer.
        about: set (``fresh`` or ``known``), layer, configurations, memory, track.
        knobs: values of each knob by its name, in the order of an index.
        unordered: names of the knobs whose neighbouring values have nothing in common.
        cycles: int32 of the shape of the knobs' sizes, `ILLEGAL` where nothing can be measured.
    """

    name: str
    about: Mapping[str, Any]
    knobs: Mapping[str, tuple[Any, ...]]
    unordered: tuple[str, ...]
    cycles: npt.NDArray[np.int32]

    @cached_property
    def legal(self) -> npt.NDArray[np.bool_]:
        """Which points can be measured."""
        legal: npt.NDArray[np.bool_] = self.cycles != ILLEGAL
        return legal

    @cached_property
    def optimum(self) -> int:
        """Fewest cycles of any legal point."""
        return int(self.cycles[self.legal].min())

    def measure(self, index: tuple[int, ...]) -> int | None:
        """Cycles of a point, given one position for each knob; None: illegal."""
        cycles = int(self.cycles[index])
        return None if cycles == ILLEGAL else cycles

    def configuration(self, index: tuple[int, ...]) -> dict[str, Any]:
        """Values of the knobs of a point."""
        return {
            name: values[place]
            for (name, values), place in zip(self.knobs.items(), index, strict=True)
        }

    def t4(self) -> Iterator[dict[str, Any]]:
        """The legal points as results of Kernel Tuner's T4 format (schema 1.0.0)."""
        for index in np.argwhere(self.legal):
            place = tuple(int(position) for position in index)
            value = int(self.cycles[place])
            yield {
                "configuration": self.configuration(place),
                "objectives": ["cycles"],
                "times": {"runtimes": [value]},
                "invalidity": "correct",
                "correctness": 1,
                "measurements": [{"name": "cycles", "value": value, "unit": "cycles"}],
            }


def load(path: str | Path) -> dict[str, CertifiedTable]:
    """Every table of a file by its name.

    Raises:
        ValueError: the file is none of tables, is cut off, or is of another version.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            about = json.loads(str(arrays[_ABOUT]))
            if about["format"] != FORMAT:
                raise ValueError(f"its format is {about['format']!r}, this reads {FORMAT}")
            return {
                name: CertifiedTable(
                    name=name,
                    about=told["about"],
                    knobs={knob: tuple(values) for knob, values in told["knobs"].items()},
                    unordered=tuple(told["unordered"]),
                    cycles=_checked(arrays[name], told["knobs"]),
                )
                for name, told in about["tables"].items()
            }
    except (LookupError, TypeError, AttributeError, ValueError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} is no file of certified tables: {error}") from error


def save(file: BinaryIO, tables: Mapping[str, CertifiedTable]) -> None:
    """Write tables; equal ones make equal files."""
    about = {
        "format": FORMAT,
        "tables": {
            name: {
                "about": dict(table.about),
                "knobs": {knob: list(values) for knob, values in table.knobs.items()},
                "unordered": list(table.unordered),
            }
            for name, table in tables.items()
        },
    }
    arrays = {name: table.cycles.astype(np.int32) for name, table in tables.items()}
    np.savez_compressed(file, allow_pickle=False, **{_ABOUT: np.array(json.dumps(about))}, **arrays)


def _checked(cycles: Any, knobs: Mapping[str, Any]) -> npt.NDArray[np.int32]:
    shape = tuple(len(values) for values in knobs.values())
    if cycles.shape != shape or cycles.dtype != np.int32:
        raise ValueError(f"an array of {cycles.dtype} {cycles.shape} belongs to knobs of {shape}")
    found: npt.NDArray[np.int32] = cycles
    return found


def main(arguments: list[str]) -> int:
    """List the tables of a file, or write one of them in the T4 format."""
    if len(arguments) not in (1, 3):
        print("usage: certified_tables.py FILE [NAME OUTPUT]", file=sys.stderr)
        return 2
    try:
        tables = load(arguments[0])
    except (OSError, ValueError) as error:
        print(error, file=sys.stderr)
        return 2
    if len(arguments) == 1:
        for name, table in tables.items():
            legal = int(table.legal.sum())
            print(f"{name}: {legal:,} of {table.cycles.size:,} points, optimum {table.optimum:,}")
        return 0
    if arguments[1] not in tables:
        print(f"no table {arguments[1]!r}; the file has {', '.join(tables)}", file=sys.stderr)
        return 2
    if Path(arguments[2]).exists():
        print(f"{arguments[2]} exists and is left alone: name another file", file=sys.stderr)
        return 2
    document = {"schema_version": "1.0.0", "results": list(tables[arguments[1]].t4())}
    Path(arguments[2]).write_text(json.dumps(document), encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
