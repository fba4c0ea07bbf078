# SPDX-License-Identifier: Apache-2.0
"""Timing paths of nextpnr in the names of the RTL: registers, modules, share of the wires."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

WRAPPER: Final = "ecp5_wrapper"
"""Module around the accelerator, top of the netlist."""
INSTANCE: Final = "u_top"
"""The accelerator in it."""


@dataclass(frozen=True, kw_only=True)
class TimingPath:
    """A path from register to register.

    Attributes:
        source, target: registers (or block RAMs, multipliers), by their names in the RTL.
        source_module, target_module: modules of the RTL that hold them.
    """

    source: str
    target: str
    source_module: str
    target_module: str
    cell_ns: float  # time in cells, with clock-to-output and setup, in ns
    routing_ns: float  # time on wires between cells, in ns
    cells: Mapping[str, int]  # cells between the registers by type, such as ``{"LUT4": 9}``
    modules: Mapping[str, float]  # time in ns by the module that the path runs through

    @property
    def total_ns(self) -> float:
        """Delay of the path in ns."""
        return self.cell_ns + self.routing_ns


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """The slowest arrival at the registers of one module."""

    module: str  # module that holds the registers
    target: str  # slowest of them
    arrival_ns: float  # delay of the slowest path to it, in ns


class Owners:
    """Which module of the RTL a cell or net of the flattened netlist comes from.

    Yosys keeps the path of instances in names and, where no mapping rule overwrote it, the line of
    the source. One module is one file, so that a line names its module.
    """

    def __init__(
        self, sources: Mapping[str, str], prefixes: Mapping[str, str], kinds: Mapping[str, str]
    ) -> None:
        """Keep what is known."""
        self._sources = sources
        self._prefixes = prefixes
        self._kinds = kinds

    @classmethod
    def of_netlist(cls, design: Mapping[str, Any]) -> Owners:
        """Read cells and nets of the wrapper in a netlist of Yosys."""
        module = design["modules"][WRAPPER]
        sources = {
            name: stem
            for name, cell in module["cells"].items()
            if (stem := _stem(cell.get("attributes", {}).get("src", "")))
        }
        votes: dict[str, Counter[str]] = {}
        for name, net in module["netnames"].items():
            if stem := _stem(net.get("attributes", {}).get("src", "")):
                votes.setdefault(name.rpartition(".")[0], Counter())[stem] += 1
        prefixes = {path: count.most_common(1)[0][0] for path, count in votes.items()}
        kinds = {name: str(cell["type"]) for name, cell in module["cells"].items()}
        return cls(sources, prefixes, kinds)

    def kind(self, cell: str) -> str:
        """Library cell that a placed cell was before packing, ``other`` when it was none."""
        return self._kinds.get(cell.partition("$")[0], "other")

    def module(self, name: str) -> str:
        """Module of a cell or net by name, ``?`` when nothing tells."""
        if found := self._sources.get(name.partition("$")[0]):
            return found
        path = name
        while path:
            path = path.rpartition(".")[0]
            if found := self._prefixes.get(path):
                return found
        return "?"


def _stem(source: str) -> str:
    """Module of the first RTL file of a ``src`` attribute (``file:line|file:line``)."""
    for part in source.split("|"):
        if match := re.match(r"(tw_\w+|tilewright_top|" + WRAPPER + r")\.sv:", part):
            return match[1]
    return ""


def register_name(cell: str) -> str:
    """The RTL name of a register from that of its cell, which ends in pin and index."""
    name = re.sub(r"_TRELLIS_FF_Q(_\d+)?$", "", cell.partition("$")[0])
    return name.removeprefix(f"{INSTANCE}.")


def timing_path(steps: Sequence[Mapping[str, Any]], owners: Owners) -> TimingPath:
    """Add up the steps: clock-to-output, wires and cells in turn, setup."""
    routing = sum(step["delay"] for step in steps if step["type"] == "routing")
    cell = sum(step["delay"] for step in steps if step["type"] != "routing")
    modules: Counter[str] = Counter()
    for step in steps:
        modules[owners.module(step["to"]["cell"])] += step["delay"]
    source, target = steps[0]["from"]["cell"], steps[-1]["to"]["cell"]
    # nextpnr splits a carry cell in two, which share the name before the dollar sign.
    hops = [step["to"]["cell"].partition("$")[0] for step in steps if step["type"] == "routing"]
    between = dict.fromkeys(hops[:-1])
    return TimingPath(
        source=register_name(source),
        target=register_name(target),
        source_module=owners.module(source),
        target_module=owners.module(target),
        cell_ns=round(cell, 3),
        routing_ns=round(routing, 3),
        cells=dict(Counter(owners.kind(name) for name in between).most_common()),
        modules={name: round(ns, 3) for name, ns in modules.most_common()},
    )


def endpoints(
    nets: Sequence[Mapping[str, Any]], clock: str, owners: Owners
) -> tuple[Endpoint, ...]:
    """The slowest arrival at each module's registers, slowest module first."""
    worst: dict[str, Endpoint] = {}
    for net in nets:
        if clock not in net["event"]:
            continue
        for sink in net["endpoints"]:
            module, arrival = owners.module(sink["cell"]), sink["delay"][1]
            if clock not in sink["event"]:
                continue
            if module not in worst or worst[module].arrival_ns < arrival:
                worst[module] = Endpoint(
                    module=module,
                    target=register_name(sink["cell"]),
                    arrival_ns=round(arrival, 3),
                )
    return tuple(sorted(worst.values(), key=lambda e: (-e.arrival_ns, e.module)))
