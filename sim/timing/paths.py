# SPDX-License-Identifier: Apache-2.0
"""Longest paths from register to register through a netlist, by families of their ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tilewright.host.common.errors import BuildError
from tilewright.sim.timing.delays import Arcs, Library, Pin
from tilewright.sim.timing.netlist import PORT, Netlist, readable, unit

_NO_NAME: Final = "?"


@dataclass(frozen=True, kw_only=True)
class Path:
    """The longest path of a family: from one unit's registers to another's.

    Attributes:
        source, target: the registers (or memories, multipliers, ports) by signals of the RTL.
        source_unit, target_unit: instances that hold them, such as ``load.stepper``.
    """

    source: str
    target: str
    source_unit: str
    target_unit: str
    pin: str  # of the target's cell that is reached, such as ``FDRE.CE``
    cell_ns: float  # time in cells, clock-to-output and set-up included
    wire_ns: float  # time on wires
    wires: int  # nets that take time
    cells: Mapping[str, int]  # between the registers, by type
    signals: Sequence[str]  # on the way, by names of the RTL

    @property
    def total_ns(self) -> float:
        """Delay in ns."""
        return self.cell_ns + self.wire_ns

    @property
    def luts(self) -> int:
        """LUTs on the way."""
        return sum(n for kind, n in self.cells.items() if kind.startswith(("LUT", "INV")))

    @property
    def carries(self) -> int:
        """Carry cells on the way."""
        return self.cells.get("CARRY4", 0) + self.cells.get("CCU2C", 0)


@dataclass(frozen=True)
class _End:
    ns: float  # arrival with set-up
    bit: int
    cell: int
    port: str
    setup: float


class Timing:
    """A netlist with the delays of its cells; `analyse` adds wires with a factor."""

    def __init__(self, netlist: Netlist, library: Library) -> None:
        """Look up the delays of every cell, and put the bits in an order of their paths."""
        self._netlist = netlist
        self._library = library
        self._starts: dict[int, float] = {}
        self._ends: list[tuple[int, float, int, str]] = []  # bit, set-up, cell, port
        # By output bit: input bits that reach it through a cell, ns in it, and the wire in front.
        self._into: dict[int, list[tuple[int, float, int, float]]] = {}
        known: dict[object, Arcs] = {}
        for number, cell in enumerate(netlist.cells):
            if cell.kind == PORT:
                self._starts.update((bit, library.inputs_ns) for _, _, bit in cell.outputs)
                self._ends += [
                    (bit, library.outputs_ns, number, port) for port, _, bit in cell.inputs
                ]
                continue
            pins: dict[str, int] = {}
            for port, index, _ in cell.inputs:
                pins[port] = max(pins.get(port, 0), index + 1)
            for port, index, _ in cell.outputs:
                pins[port] = min(pins.get(port, 0), -index - 1)
            key = (
                cell.kind,
                tuple(pins.items()),
                tuple(v for v in cell.parameters.items() if v[0] not in ("INIT", "LUT")),
            )
            if (arcs := known.get(key)) is None:
                arcs = known[key] = library.arcs(cell.kind, cell.parameters, pins)
            self._place(number, arcs)
        self._order = self._sorted()

    def _place(self, number: int, arcs: Arcs) -> None:
        cell = self._netlist.cells[number]
        at: dict[Pin, int] = {(port, index): bit for port, index, bit in cell.inputs}
        for (port, _), bit in at.items():
            setup = arcs.capture.get((port, _))
            if setup is not None:
                self._ends.append((bit, setup, number, port))
        for port, index, bit in cell.outputs:
            launch = arcs.launch.get((port, index))
            if launch is not None:
                self._starts[bit] = max(launch, self._starts.get(bit, launch))
            inner = [
                (at[pin], ns, number, self._wire(at[pin], number, pin[0]))
                for pin, ns in arcs.through.get((port, index), ())
                if pin in at
            ]
            if inner:
                self._into.setdefault(bit, []).extend(inner)

    def _wire(self, bit: int, target: int, port: str) -> float:
        """Length of a net to one of its sinks, in ns before the factor."""
        source = self._netlist.driver.get(bit)
        if source is None:
            return 0.0
        cells = self._netlist.cells
        return self._library.wire_ns(
            cells[source[0]].kind, source[1], cells[target].kind, port, self._netlist.sinks[bit]
        )

    def _sorted(self) -> list[int]:
        """Bits that cells make from others, each behind all that it is made from."""
        waiting: dict[int, int] = {}
        readers: dict[int, list[int]] = {}
        for bit, inner in self._into.items():
            sources = {source for source, _, _, _ in inner if source in self._into}
            waiting[bit] = len(sources)
            for source in sources:
                readers.setdefault(source, []).append(bit)
        ready = [bit for bit, number in waiting.items() if number == 0]
        order: list[int] = []
        while ready:
            bit = ready.pop()
            order.append(bit)
            for reader in readers.get(bit, ()):
                waiting[reader] -= 1
                if waiting[reader] == 0:
                    ready.append(reader)
        if len(order) < len(waiting):
            looped = next(bit for bit, number in waiting.items() if number > 0)
            raise BuildError(
                "the netlist has a loop without a register", field=self._netlist.name(looped)
            )
        return order

    def analyse(self, factor: float) -> Analysis:
        """Arrivals with every wire ``factor`` times its length."""
        arrival = dict(self._starts)
        before: dict[int, tuple[int, float, int, float]] = {}
        for bit in self._order:
            best = arrival.get(bit)
            for step in self._into[bit]:
                source = arrival.get(step[0])
                if source is None:
                    continue
                ns = source + step[1] + factor * step[3]
                if best is None or ns > best:
                    best, before[bit] = ns, step
            if best is not None:
                arrival[bit] = best
        ends = []
        for bit, setup, cell, port in self._ends:
            start = arrival.get(bit)
            if start is not None:
                ns = start + setup + factor * self._wire(bit, cell, port)
                ends.append(_End(ns, bit, cell, port, setup))
        ends.sort(key=lambda end: -end.ns)
        return Analysis(self, factor, before, ends)


class Analysis:
    """Arrivals for one factor of the wires."""

    def __init__(
        self,
        timing: Timing,
        factor: float,
        before: Mapping[int, tuple[int, float, int, float]],
        ends: Sequence[_End],
    ) -> None:
        """Keep what `Timing.analyse` found; ``ends`` come slowest first."""
        self._timing = timing
        self._factor = factor
        self._before = before
        self.ends = ends

    @property
    def worst_ns(self) -> float:
        """Delay of the slowest path in ns; 0 without any."""
        return self.ends[0].ns if self.ends else 0.0

    def slower_than(self, ns: float) -> int:
        """How many inputs of registers are reached later."""
        return sum(end.ns > ns for end in self.ends)

    def families(self) -> dict[tuple[str, str], Path]:
        """The slowest path from each unit to each other, slowest first."""
        found: dict[tuple[str, str], Path] = {}
        sources: dict[int, int] = {}
        for end in self.ends:
            start = self._start(end.bit, sources)
            key = (unit(self._from(start)), unit(self._to(end)))
            if key not in found:
                found[key] = self._path(end, key)
        return found

    def _start(self, bit: int, known: dict[int, int]) -> int:
        """The bit that a path to this one begins at."""
        walked = []
        while bit not in known and bit in self._before:
            walked.append(bit)
            bit = self._before[bit][0]
        start = known.get(bit, bit)
        known.update((each, start) for each in walked)
        return start

    def _from(self, bit: int) -> str:
        """Name of what launches a bit: a memory or multiplier goes by its own name."""
        timing = self._timing
        netlist = timing._netlist
        number, _ = netlist.driver[bit]
        return _end_name(netlist, number, bit)

    def _to(self, end: _End) -> str:
        netlist = self._timing._netlist
        cell = netlist.cells[end.cell]
        bit = cell.outputs[0][2] if cell.outputs else end.bit
        return _end_name(netlist, end.cell, bit)

    def _path(self, end: _End, family: tuple[str, str]) -> Path:
        timing = self._timing
        netlist = timing._netlist
        bits = [end.bit]
        cells: Counter[str] = Counter()
        last = timing._wire(end.bit, end.cell, end.port)
        wires = [last]
        while (step := self._before.get(bits[-1])) is not None:
            cells[netlist.cells[step[2]].kind] += 1
            wires.append(step[3])
            bits.append(step[0])
        wire_ns = self._factor * sum(wires)
        signals = [netlist.name(bit) for bit in reversed(bits)]
        return Path(
            source=self._from(bits[-1]),
            target=self._to(end),
            source_unit=family[0],
            target_unit=family[1],
            pin=f"{netlist.cells[end.cell].kind}.{end.port}",
            cell_ns=round(end.ns - wire_ns, 3),
            wire_ns=round(wire_ns, 3),
            wires=sum(ns > 0 for ns in wires),
            cells=dict(cells.most_common()),
            signals=[name for name in signals if "$" not in name and name != _NO_NAME],
        )


def _end_name(netlist: Netlist, number: int, bit: int) -> str:
    """What a path starts or ends at: a register by its signal, other cells by their own name."""
    cell = netlist.cells[number]
    if cell.kind == PORT:
        return f"ports.{cell.name}"
    signal = netlist.name(bit)
    if cell.kind.startswith(("FD", "TRELLIS_FF")) and "$" not in signal:
        return signal
    own = readable(cell.name)
    return own if "$" not in own else signal if "$" not in signal else cell.line or _NO_NAME
