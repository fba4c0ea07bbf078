# SPDX-License-Identifier: Apache-2.0
"""A model of a block design: cells, pins, nets, interfaces, address segments, and its validation.

Names have no leading slash here.
"""

from __future__ import annotations

import fnmatch
from dataclasses import dataclass, field
from typing import Any

from support.vivado.rtl import Core
from support.vivado.tcl import ScriptError


@dataclass(kw_only=True)
class Pin:
    direction: str
    kind: str
    width: int = 1
    optional: bool = False


@dataclass(kw_only=True)
class InterfacePin:
    """Of a bus; ``width`` 0 takes any, as does the protocol ``any``."""

    mode: str
    protocol: str
    width: int
    clock: str
    space: str = ""
    window: tuple[int, int] = (0, 1 << 64)
    group: str = ""
    segments: dict[str, tuple[int, int]] = field(default_factory=dict)
    through: str = ""


@dataclass(kw_only=True)
class Cell:
    name: str
    vlnv: str
    ip: dict[str, Any]
    values: dict[str, str]
    core: Core | None = None

    def is_on(self, port: dict[str, Any]) -> bool:
        condition = port.get("when")
        return not condition or self.values[condition] == "1"

    def dram_bytes(self) -> int:
        """The DRAM that the properties of a Zynq-7000 describe."""
        lanes = int(self.values["PCW_UIPARAM_DDR_BUS_WIDTH"].split()[0]) // 8
        return lanes * self.ip["ddr_bytes_per_lane"][self.values["PCW_UIPARAM_DDR_PARTNO"]]

    def pins(self) -> dict[str, Pin]:
        if self.core is not None:
            kinds = {
                port: interface.kind
                for interface in self.core.interfaces.values()
                if interface.library == "signal"
                for port, _, _ in interface.signals.values()
            }
            return {
                name: Pin(direction=direction, width=width, kind=kinds.get(name, "bus"))
                for name, (direction, width) in self.core.ports.items()
                if name in kinds
            }
        return {
            name: Pin(
                direction=pin["direction"], kind=pin["kind"], optional=pin.get("optional", False)
            )
            for name, pin in self.ip["pins"].items()
            if self.is_on(pin)
        }

    def interfaces(self) -> dict[str, InterfacePin]:
        if self.core is not None:
            return {
                name: core_interface(self.core, name)
                for name, interface in self.core.interfaces.items()
                if interface.kind == "aximm"
            }
        found = {}
        for name, port in self.ip["interfaces"].items():
            if not self.is_on(port) or port["mode"] == "other":
                continue
            width = port["width"]
            found[name] = InterfacePin(
                mode=port["mode"],
                protocol=port["protocol"],
                width=0 if width == "any" else int(self.values.get(str(width), width)),
                clock=port["clock"],
                space=port.get("space", ""),
                window=tuple(port.get("window", (0, 1 << 64))),
                group=port.get("group", ""),
                segments={
                    k: (base, self.dram_bytes() if size == "ddr" else size)
                    for k, (base, size) in port.get("segments", {}).items()
                },
                through=port.get("through", ""),
            )
        return found


def core_interface(core: Core, name: str) -> InterfacePin:
    interface = core.interfaces[name]
    master = interface.signals["AWVALID"][1] == "output"
    clocks = [
        port
        for other in core.interfaces.values()
        if other.kind == "clock" and name in other.parameters.get("ASSOCIATED_BUSIF", "").split(":")
        for port, _, _ in other.signals.values()
    ]
    if len(clocks) != 1:
        raise ScriptError(f"interface {name} has no clock (ASSOCIATED_BUSIF)")
    address = interface.signals["AWADDR"][2]
    return InterfacePin(
        mode="master" if master else "slave",
        protocol=interface.parameters["PROTOCOL"],
        width=interface.signals["WDATA"][2],
        clock=clocks[0],
        space=name if master else "",
        window=(0, 1 << address),
        group=name,
        segments={} if master else {"reg0": (0, 1 << address)},
    )


def check_axi(core: Core, table: dict[str, Any], known: dict[str, list[str]]) -> None:
    """Compare a core's interfaces with the standard: signals, widths, directions, parameters."""
    for interface in core.interfaces.values():
        if interface.kind not in known:
            raise ScriptError(f"{interface.name}: no kind of interface {interface.kind}")
        for parameter in interface.parameters:
            if parameter not in known[interface.kind]:
                raise ScriptError(f"{interface.name}: no interface parameter {parameter}")
        if interface.kind != "aximm":
            continue
        told = interface.parameters
        signals = table.get(told.get("PROTOCOL", ""))
        if signals is None:
            raise ScriptError(f"{interface.name}: no protocol {told.get('PROTOCOL')}")
        if unknown := sorted(set(interface.signals) - set(signals)):
            raise ScriptError(f"{interface.name}: no AXI signal {', '.join(unknown)}")
        driver = "master" if interface.signals.get("AWVALID", ("", ""))[1] == "output" else "slave"
        widths = {
            "data": int(told["DATA_WIDTH"]),
            "strobe": int(told["DATA_WIDTH"]) // 8,
            "address": int(told["ADDR_WIDTH"]),
            "id": int(told.get("ID_WIDTH", 0)),
        }
        for signal, (by, width, *optional) in signals.items():
            if signal not in interface.signals:
                if optional:
                    continue
                raise ScriptError(f"{interface.name}: signal {signal} is missing")
            port, direction, bits = interface.signals[signal]
            if direction != ("output" if by == driver else "input"):
                raise ScriptError(f"{interface.name}: {port} is an {direction}")
            if bits != widths.get(width, width):
                raise ScriptError(
                    f"{interface.name}: {port} has {bits} bits, must have "
                    f"{widths.get(width, width)}"
                )


class Design:
    """A block design (see `validate`)."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.cells: dict[str, Cell] = {}
        self.nets: list[set[str]] = []
        self.links: dict[str, str] = {}
        """Slave interface by master interface."""
        self.external: set[str] = set()
        self.assigned: dict[tuple[str, str], tuple[int, int]] = {}
        """Offset and range by address space and segment."""
        self.excluded: set[tuple[str, str]] = set()
        self.validated = False
        self.saved = False

    # -- objects ----------------------------------------------------------------------------

    def pins(self) -> dict[str, Pin]:
        return {f"{c.name}/{n}": p for c in self.cells.values() for n, p in c.pins().items()}

    def interfaces(self) -> dict[str, InterfacePin]:
        return {f"{c.name}/{n}": p for c in self.cells.values() for n, p in c.interfaces().items()}

    def spaces(self) -> dict[str, list[str]]:
        """Master interfaces by address space."""
        found: dict[str, list[str]] = {}
        for name, interface in self.interfaces().items():
            if interface.space:
                found.setdefault(f"{name.split('/')[0]}/{interface.space}", []).append(name)
        return found

    def segments(self) -> dict[str, tuple[str, tuple[int, int]]]:
        """Slave interface, offset and range by segment."""
        return {
            f"{name.split('/')[0]}/{interface.group}/{segment}": (name, place)
            for name, interface in self.interfaces().items()
            for segment, place in interface.segments.items()
        }

    def objects(self, kind: str, pattern: str) -> list[str]:
        """The names of a kind that match."""
        named: dict[str, Any] = {
            "cells": self.cells,
            "pins": self.pins(),
            "intf_pins": self.interfaces(),
            "addr_spaces": self.spaces(),
            "addr_segs": self.segments(),
        }
        return fnmatch.filter(named[kind], pattern.removeprefix("/"))

    # -- changes ----------------------------------------------------------------------------

    def connect(self, names: list[str]) -> None:
        pins = self.pins()
        for name in names:
            if name not in pins:
                raise ScriptError(f"no pin {name}")
        joined = set(names)
        for net in [net for net in self.nets if net & joined]:
            self.nets.remove(net)
            joined |= net
        drivers = [name for name in joined if pins[name].direction == "output"]
        if len(drivers) > 1:
            raise ScriptError(f"two drivers on a net: {', '.join(sorted(drivers))}")
        self.nets.append(joined)

    def link(self, one: str, other: str) -> None:
        interfaces = self.interfaces()
        for name in (one, other):
            if name not in interfaces:
                raise ScriptError(f"no interface {name}")
            if name in self.links or name in self.links.values():
                raise ScriptError(f"interface {name} is connected already")
        master, slave = sorted((one, other), key=lambda name: interfaces[name].mode)
        if (interfaces[master].mode, interfaces[slave].mode) != ("master", "slave"):
            raise ScriptError(f"{one} and {other} are both {interfaces[one].mode}s")
        self.links[master] = slave

    def assign(self, space: str, segment: str, offset: int, size: int) -> None:
        if segment not in self.reachable(space):
            raise ScriptError(f"{space} does not reach {segment}")
        if size < 4096 or size & (size - 1):
            raise ScriptError(f"range {size:#x} of {segment} is no power of two from 4K")
        if offset % size:
            raise ScriptError(f"offset {offset:#x} of {segment} is no multiple of its range")
        slave, (base, whole) = self.segments()[segment]
        if size > whole:
            raise ScriptError(f"range {size:#x} of {segment} exceeds {whole:#x}")
        # Segments of a processing system lie where they lie; registers lie where they are put.
        if self.cells[slave.split("/")[0]].core is None and (
            offset < base or offset + size > base + whole
        ):
            raise ScriptError(f"{segment} lies at {base:#x}, not at {offset:#x}")
        windows = [self.interfaces()[name].window for name in self.masters(space, segment)]
        if not any(low <= offset and offset + size <= low + span for low, span in windows):
            raise ScriptError(f"{space} has no window at {offset:#x}")
        self.assigned[space, segment] = (offset, size)

    # -- reach ------------------------------------------------------------------------------

    def reached_from(self, master: str) -> set[str]:
        """Slave interfaces of memory behind a master, through interconnects."""
        interfaces, found = self.interfaces(), set()
        while (slave := self.links.get(master)) is not None:
            if not interfaces[slave].through:
                return {slave}
            master = f"{slave.split('/')[0]}/{interfaces[slave].through}"
        return found

    def masters(self, space: str, segment: str) -> list[str]:
        slave = self.segments()[segment][0]
        return [name for name in self.spaces()[space] if slave in self.reached_from(name)]

    def reachable(self, space: str) -> list[str]:
        return [name for name in self.segments() if self.masters(space, name)]

    # -- validation -------------------------------------------------------------------------

    def driver(self, pin: str) -> str | None:
        pins = self.pins()
        for net in self.nets:
            if pin in net:
                return next((name for name in net if pins[name].direction == "output"), None)
        return None

    def validate(self) -> None:
        """Refuse what Vivado refuses, or only warns of, and what would not work.

        That is an unconnected port, a clock, reset or interrupt from something else, a mismatch of
        protocol, width or clock, an address space without its segments.
        """
        self._validate_pins()
        self._validate_interfaces()
        for space in self.spaces():
            for segment in self.reachable(space):
                if (space, segment) not in self.assigned and (space, segment) not in self.excluded:
                    raise ScriptError(f"{segment} is neither assigned to {space} nor excluded")
        self.validated = True

    def _validate_pins(self) -> None:
        pins = self.pins()
        for cell in self.cells.values():
            for name in cell.ip.get("externals", ()):
                if f"{cell.name}/{name}" not in self.external:
                    raise ScriptError(f"{cell.name}/{name} is not connected")
        for name, pin in pins.items():
            if pin.direction != "input":
                continue
            driver = self.driver(name)
            if driver is None:
                if pin.optional:
                    continue
                raise ScriptError(f"pin {name} is not driven")
            if pins[driver].kind != pin.kind:
                raise ScriptError(f"{pin.kind} {name} is driven by {pins[driver].kind} {driver}")
            if pins[driver].width != pin.width:
                raise ScriptError(f"{name} and {driver} differ in width")
        core_outputs = [
            name
            for name, pin in pins.items()
            if pin.direction == "output" and self.cells[name.split("/")[0]].core is not None
        ]
        for name in core_outputs:
            if not any(name in net for net in self.nets):
                raise ScriptError(f"pin {name} is not connected")

    def _validate_interfaces(self) -> None:
        interfaces = self.interfaces()
        for name in interfaces:
            if name not in self.links and name not in self.links.values():
                raise ScriptError(f"interface {name} is not connected")
        for master, slave in self.links.items():
            one, other = interfaces[master], interfaces[slave]
            if "any" not in (one.protocol, other.protocol) and one.protocol != other.protocol:
                raise ScriptError(f"{master} is {one.protocol}, {slave} is {other.protocol}")
            if one.width and other.width and one.width != other.width:
                raise ScriptError(f"{master} has {one.width} bits, {slave} has {other.width}")
            clocks = {
                self.driver(f"{name.split('/')[0]}/{interfaces[name].clock}")
                for name in (master, slave)
            }
            if len(clocks) != 1:
                raise ScriptError(f"{master} and {slave} have different clocks")
