# SPDX-License-Identifier: Apache-2.0
"""Delays of a device family's cells and wires, from `constraints/timing`.

A file lists groups of cells. A group applies to a cell of one of its types (``cells``) whose
parameters are as ``when`` says; several may apply to one cell. ``launch`` are ns from the clock to
an output, ``capture`` ns that an input must be there before the clock, ``through`` ns from an input
to an output in the same cycle, ``ignore`` inputs that take part in no path, such as clocks. A port
is a name, a pattern (``DI*``), or one bit of a vector (``S[0]``).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import BuildError
from tilewright.host.common.places import CONSTRAINTS_DIR
from tilewright.host.common.yaml_files import read_yaml_mapping

TIMING_DIR: Final = CONSTRAINTS_DIR / "timing"
FAMILIES: Final = ("xc7", "ecp5")
"""Families with a file of delays."""

Value = int | str
Pin = tuple[str, int]  # port and index


@dataclass(frozen=True)
class _Pins:
    """A port by name or pattern, and the index of its bit; None: every bit."""

    port: str
    index: int | None

    @classmethod
    def parse(cls, text: str) -> _Pins:
        if match := re.fullmatch(r"(.+)\[(\d+)\]", text):
            return cls(match[1], int(match[2]))
        return cls(text, None)

    def has(self, pin: Pin) -> bool:
        return fnmatchcase(pin[0], self.port) and self.index in (None, pin[1])


@dataclass(frozen=True)
class _Group:
    when: Mapping[str, Sequence[Value]]
    launch: Sequence[tuple[_Pins, float]]
    capture: Sequence[tuple[_Pins, float]]
    through: Sequence[tuple[_Pins, _Pins, float]]
    ignore: Sequence[_Pins]


@dataclass(frozen=True)
class Arcs:
    """Delays of one cell, in ns, by its pins."""

    launch: Mapping[Pin, float]
    capture: Mapping[Pin, float]
    through: Mapping[Pin, Sequence[tuple[Pin, float]]]  # by output: inputs that reach it


@dataclass(frozen=True)
class _Inside:
    """Nets that take no wire: kinds of the driver's and the sink's pin, and whether it is alone."""

    source: str
    target: str
    alone: bool


@dataclass(frozen=True, kw_only=True)
class Library:
    """Delays of a family."""

    path: Path  # the file
    part: str  # device and speed grade
    inputs_ns: float  # of a port after the clock edge that made it
    outputs_ns: float  # before the clock edge that takes it
    base_ns: float  # wire to a single sink
    doubling_ns: float  # more for each doubling of sinks
    block_ns: float  # more at a block RAM or multiplier
    most_ns: float  # of any wire
    blocks: frozenset[str]
    inside: Sequence[_Inside]
    defaults: Mapping[str, Mapping[str, Value]]  # of parameters, by type of cell
    cells: Mapping[str, Sequence[_Group]]

    def arcs(self, kind: str, parameters: Mapping[str, Value], pins: Mapping[str, int]) -> Arcs:
        """Delays of a cell with these ports and widths that the netlist connects.

        Raises:
            BuildError: the file has no figure for the cell or one of its inputs. ``pins`` holds
                outputs with a negative width, so that inputs can be told from them.
        """
        groups = self.cells.get(kind)
        if groups is None:
            raise BuildError("no delays of this cell", field=str(self.path), value=kind)
        values = {**self.defaults.get(kind, {}), **parameters}
        chosen = [
            group
            for group in groups
            if all(values.get(name) in allowed for name, allowed in group.when.items())
        ]
        ins = [(port, i) for port, width in pins.items() for i in range(width)]
        outs = [(port, i) for port, width in pins.items() for i in range(-width)]
        launch: dict[Pin, float] = {}
        capture: dict[Pin, float] = {}
        through: dict[Pin, list[tuple[Pin, float]]] = {}
        known: set[Pin] = set()
        for group in chosen:
            for pattern, ns in group.launch:
                for pin in filter(pattern.has, outs):
                    launch[pin] = max(ns, launch.get(pin, ns))
            for pattern, ns in group.capture:
                for pin in filter(pattern.has, ins):
                    capture[pin] = max(ns, capture.get(pin, ns))
            for source, target, ns in group.through:
                from_pins = list(filter(source.has, ins))
                known.update(from_pins)
                for pin in filter(target.has, outs):
                    through.setdefault(pin, []).extend((each, ns) for each in from_pins)
            known.update(pin for pattern in group.ignore for pin in ins if pattern.has(pin))
        missing = next((pin for pin in ins if pin not in known and pin not in capture), None)
        if missing is not None:
            raise BuildError(
                "no delay of this input", field=str(self.path), value=f"{kind}.{missing[0]}"
            )
        return Arcs(launch, capture, through)

    def wire_ns(self, source: str, source_port: str, target: str, port: str, sinks: int) -> float:
        """A net from a cell's output to one of its sinks, in ns, before the factor."""
        if self._is_inside(source, source_port, target, port, sinks == 1):
            return 0.0
        length = self.base_ns + self.doubling_ns * math.log2(max(sinks, 1))
        if source in self.blocks or target in self.blocks:
            length += self.block_ns
        return min(length, self.most_ns)

    @cache  # noqa: B019 - a library lives as long as the process
    def _is_inside(
        self, source: str, source_port: str, target: str, port: str, alone: bool
    ) -> bool:
        return any(
            (alone or not rule.alone)
            and fnmatchcase(f"{source}.{source_port}", rule.source)
            and fnmatchcase(f"{target}.{port}", rule.target)
            for rule in self.inside
        )

    def __hash__(self) -> int:
        """By its file."""
        return hash(self.path)


@cache
def load_library(family: str) -> Library:
    """Delays of a family of `FAMILIES`."""
    path = TIMING_DIR / f"{family}.yaml"
    data = read_yaml_mapping(path, "delays of a family")
    wire = data["wire"]
    cells: dict[str, list[_Group]] = {}
    for entry in data["cells"]:
        for kind in entry["cells"]:
            cells.setdefault(kind, []).append(_group(entry))
    return Library(
        path=path,
        part=data["part"],
        inputs_ns=data["inputs_ns"],
        outputs_ns=data["outputs_ns"],
        **{name: wire[name] for name in ("base_ns", "doubling_ns", "block_ns", "most_ns")},
        blocks=frozenset(data["blocks"]),
        inside=[_Inside(e["from"], e["to"], e.get("alone", False)) for e in data["inside"]],
        defaults=data.get("defaults", {}),
        cells=cells,
    )


def _group(entry: Mapping[str, Any]) -> _Group:
    when = {n: v if isinstance(v, list) else [v] for n, v in entry.get("when", {}).items()}
    pairs = (tuple(text.split(" -> ")) for text in entry.get("through", {}))
    return _Group(
        when=when,
        launch=[(_Pins.parse(pin), ns) for pin, ns in entry.get("launch", {}).items()],
        capture=[(_Pins.parse(pin), ns) for pin, ns in entry.get("capture", {}).items()],
        through=[
            (_Pins.parse(source), _Pins.parse(target), ns)
            for (source, target), ns in zip(pairs, entry.get("through", {}).values(), strict=True)
        ],
        ignore=[_Pins.parse(pin) for pin in entry.get("ignore", ())],
    )
