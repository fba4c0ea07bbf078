# SPDX-License-Identifier: Apache-2.0
"""Exhaustive tables of tuning problems with their certified optima; this file needs NumPy alone.

A problem is a layer of a network on an accelerator that fits a PYNQ-Z2: which of eight
configurations, and which schedule, takes the fewest cycles? Every point of a table was run on the
exact twin of the accelerator's RTL, so the optimum is known and a search can be replayed:

    import certified_tables

    tables = certified_tables.load("certified-tables.npz")
    table = tables["resnet18.C4"]
    table.knobs                         # name -> values, in the order of an index
    table.measure((0, 3, 5, 1, 2, 0, 0))  # cycles, or None where the point is no legal one
    table.optimum

    python certified_tables.py certified-tables.npz                     lists the problems
    python certified_tables.py certified-tables.npz resnet18.C4 C4.json  writes one in Kernel
                                                                        Tuner's T4 format
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

FORMAT = 1
"""Version of the file."""

SETS = ("fresh", "known")
"""Layers that nothing was chosen on, and layers that constants were chosen on."""

TRACKS = ("per-layer", "schedule")
"""Problems with a choice of configurations, and on one alone."""

ILLEGAL = -1
"""Cycles of a point that is outside the problem.

The configuration refuses it, or its tile sizes divide no extent of the layer on this configuration:
knobs hold the divisors on all configurations. Some points of the latter kind would run.
"""

_ABOUT = "about"

_MOST_BYTES = 1 << 30
"""Bytes of a file's arrays; more is no file of ours."""

_Told = Mapping[str, Any]


@dataclass(frozen=True)
class CertifiedTable:
    """Every point of a problem with its cycles.

    Attributes:
        name: network and layer.
        about: set (of `SETS`), track (of `TRACKS`), layer, configurations, memory, and the twin
            that counted.
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
        OSError: the file cannot be read.
        ValueError: the file is none of tables, is cut off, contradicts itself, or is of another
            version.
    """
    try:
        with np.load(path, allow_pickle=False) as arrays:
            if sum(each.file_size for each in arrays.zip.infolist()) > _MOST_BYTES:
                raise ValueError(f"its arrays take more than {_MOST_BYTES:,} bytes")
            about = json.loads(str(arrays[_ABOUT]), parse_constant=_no_number)
            if about["format"] != FORMAT:
                raise ValueError(f"its format must be {FORMAT}, not {about['format']!r}")
            found = {
                name: _table(name, told, arrays[name]) for name, told in about["tables"].items()
            }
        problems: dict[str, str] = {}
        for name, table in found.items():
            other = problems.setdefault(_problem(table), name)
            _require(other == name, name, f"another problem than that of {other}", table.about)
    except OSError:
        raise
    except Exception as error:  # whatever a damaged file makes of NumPy, zipfile and JSON
        why = error if isinstance(error, ValueError) else f"{type(error).__name__} {error}"
        raise ValueError(f"{path} is no file of certified tables: {why}") from error
    return found


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


def _table(name: str, told: _Told, cycles: npt.NDArray[Any]) -> CertifiedTable:
    """A table of a file, when its members agree with each other."""
    about, knobs, unordered = told["about"], told["knobs"], told["unordered"]
    _require(isinstance(about, dict), f"{name}: about", "a mapping", about)
    for member, known in (("set", SETS), ("track", TRACKS)):
        value = about.get(member)
        _require(value in known, f"{name}: about.{member}", f"one of {', '.join(known)}", value)
    twin = about.get("twin")
    _require(isinstance(twin, str) and twin != "", f"{name}: about.twin", "a text", twin)
    for member in ("workload", "memory"):
        value = about.get(member)
        _require(isinstance(value, dict) and value, f"{name}: about.{member}", "a mapping", value)
    configs = about.get("configurations")
    listed = isinstance(configs, list) and all(isinstance(each, dict) for each in configs)
    field = f"{name}: about.configurations"
    _require(listed and configs, field, "a list of mappings", configs)
    names = [config["name"] for config in configs]
    _require(len({*map(str, names)}) == len(names), field, "of different names", names)
    several = about["track"] == TRACKS[0]
    _require(several == (len(names) > 1), field, "several on track per-layer alone", names)
    _require(isinstance(knobs, dict) and knobs, f"{name}: knobs", "a mapping", knobs)
    for knob, values in knobs.items():
        plain = isinstance(values, list) and all(isinstance(v, (str, int, float)) for v in values)
        field = f"{name}: knobs.{knob}"
        _require(plain and len({*values}) == len(values) > 0, field, "different values", values)
    offered = knobs.get("hw", names)
    agree = offered == names and ("hw" in knobs) == (len(names) > 1)
    _require(agree, f"{name}: knobs.hw", f"the configurations {', '.join(names)}", offered)
    named = isinstance(unordered, list) and all(knob in knobs for knob in unordered)
    _require(named, f"{name}: unordered", "names of knobs", unordered)
    shape = tuple(len(values) for values in knobs.values())
    fits = cycles.dtype == np.int32 and cycles.shape == shape
    _require(fits, name, f"an array of int32 {shape}", f"{cycles.dtype} {cycles.shape}")
    low = int(cycles[cycles != ILLEGAL].min(initial=np.iinfo(np.int32).max))
    _require(low >= 1, name, f"cycles of at least 1, or {ILLEGAL} where a point is illegal", low)
    _require(bool((cycles >= 1).any()), name, "a table with a legal point", "none")
    values = {knob: tuple(values) for knob, values in knobs.items()}
    return CertifiedTable(name, about, values, tuple(unordered), cycles)


def _problem(table: CertifiedTable) -> str:
    """What a table is of, whatever its layer is called and however often it occurs."""
    layer = {k: v for k, v in table.about["workload"].items() if k not in {"name", "count"}}
    return json.dumps([table.about["track"], layer], sort_keys=True)


def _require(holds: Any, field: str, rule: str, value: Any) -> None:
    if not holds:
        raise ValueError(f"{field} must be {rule}, not {str(value)[:80]}")


def _no_number(text: str) -> None:
    raise ValueError(f"it holds {text}")


def main(arguments: list[str]) -> int:
    """List the tables of a file, or write one of them in the T4 format."""
    if len(arguments) not in (1, 3):
        print("usage: certified_tables.py FILE [NAME OUTPUT]", file=sys.stderr)
        return 2
    try:
        tables = load(arguments[0])
        if len(arguments) == 1:
            _list(tables)
        else:
            _write_t4(tables, *arguments[1:])
    except (OSError, ValueError) as error:
        print(f"{error}; name another file", file=sys.stderr)
        return 2
    return 0


def _list(tables: Mapping[str, CertifiedTable]) -> None:
    for name, table in tables.items():
        legal = int(table.legal.sum())
        print(f"{name}: {legal:,} of {table.cycles.size:,} points, optimum {table.optimum:,}")


def _write_t4(tables: Mapping[str, CertifiedTable], name: str, output: str) -> None:
    if name not in tables:
        raise ValueError(f"no table {name!r} among {', '.join(tables)}")
    document = {"schema_version": "1.0.0", "results": list(tables[name].t4())}
    with Path(output).open("x", encoding="utf-8") as file:  # an existing one is left alone
        json.dump(document, file)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
