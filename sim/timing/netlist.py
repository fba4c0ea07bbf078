# SPDX-License-Identifier: Apache-2.0
"""A flattened netlist of Yosys as numbered cells and bits, and the names of the RTL in it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.sim.timing.delays import Value

PORT = "port"
"""Type of the cells that stand for the ports of the top module."""


@dataclass(frozen=True)
class Cell:
    """A cell and the bits at its pins; constants are left out."""

    name: str
    line: str  # of the RTL that it comes from, such as ``tw_load.120``; empty: not known
    kind: str  # its type in the family's library
    parameters: Mapping[str, Value]
    inputs: Sequence[tuple[str, int, int]]  # port, index, bit
    outputs: Sequence[tuple[str, int, int]]


@dataclass(frozen=True)
class Netlist:
    """Cells, who drives each bit, and how many sinks it has."""

    cells: Sequence[Cell]
    driver: Mapping[int, tuple[int, str]]  # by bit: cell and port
    sinks: Counter[int]  # inputs of cells, by bit
    names: Mapping[int, str] = field(repr=False)  # RTL name of each bit

    def name(self, bit: int) -> str:
        """The signal of the RTL that a bit belongs to, without instance prefixes ``u_``."""
        return self.names.get(bit, "?")


def read_netlist(design: Mapping[str, Any], top: str) -> Netlist:
    """Number the cells and bits of the top module; a port becomes a cell of type `PORT`."""
    module = design["modules"][top]
    cells = [_cell(name, data) for name, data in module["cells"].items() if "$" not in data["type"]]
    for name, port in module["ports"].items():
        pins = [("io", i, bit) for i, bit in enumerate(port["bits"]) if isinstance(bit, int)]
        into = port["direction"] == "output"
        cells.append(Cell(name, "", PORT, {}, pins if into else [], [] if into else pins))
    driver: dict[int, tuple[int, str]] = {}
    sinks: Counter[int] = Counter()
    for number, cell in enumerate(cells):
        driver.update((bit, (number, port)) for port, _, bit in cell.outputs)
        sinks.update(bit for _, _, bit in cell.inputs)
    return Netlist(cells, driver, sinks, _names(module["netnames"]))


def _cell(name: str, data: Mapping[str, Any]) -> Cell:
    inputs: list[tuple[str, int, int]] = []
    outputs: list[tuple[str, int, int]] = []
    for port, bits in data["connections"].items():
        side = outputs if data["port_directions"][port] == "output" else inputs
        side.extend((port, i, bit) for i, bit in enumerate(bits) if isinstance(bit, int))
    line = re.match(r"(\w+)\.sv:(\d+)", data.get("attributes", {}).get("src", ""))
    where = f"{line[1]}.{line[2]}" if line else ""
    return Cell(name, where, data["type"], _plain(data.get("parameters", {})), inputs, outputs)


def _plain(parameters: Mapping[str, Any]) -> dict[str, Value]:
    """Parameters as numbers where Yosys wrote bits; it marks text of 0 and 1 by a blank."""
    return {
        name: int(value, 2) if re.fullmatch("[01]{1,32}", str(value)) else str(value).rstrip()
        for name, value in parameters.items()
    }


def _names(nets: Mapping[str, Any]) -> dict[int, str]:
    """The name of each bit that says most: of the RTL, of a register, close to where it is made."""
    best: dict[int, tuple[tuple[object, ...], str]] = {}
    for name, net in nets.items():
        made_here = not name.endswith("_i")
        rank = ("$" in name, not made_here, not name.endswith("_q"), -name.count("."), len(name))
        wide = len(net["bits"]) > 1
        offset = int(net.get("offset", 0))
        for i, bit in enumerate(net["bits"]):
            if isinstance(bit, int) and (bit not in best or rank < best[bit][0]):
                best[bit] = (rank, f"{name}[{i + offset}]" if wide else name)
    return {bit: readable(name) for bit, (_, name) in best.items()}


def readable(name: str) -> str:
    """A flattened name in short: no ``u_``, no wrapper, no core around units, no mapped cell."""
    parts = [part.removeprefix("u_") for part in name.lstrip("\\").split(".")]
    shown = [part for part in parts if not part.startswith(("gen_", "genblk"))]
    if len(shown) > 1 and shown[0] == "top":
        shown = shown[1:]
    if len(shown) > 2 and shown[0] == "core":
        shown = shown[1:]
    text = ".".join(shown or parts)
    return re.sub(r"_(LUT\d|CARRY4|FD[RSCP]E|MUXF\d|TRELLIS_FF|CCU2C|PFUMX|L6MUX21)_.*", "", text)


def unit(name: str) -> str:
    """The instances around a signal: ``load.stepper`` of ``load.stepper.left_q[3]``."""
    path, _, _ = name.rpartition(".")
    return re.sub(r"\[\d+\]", "", path) or "top"
