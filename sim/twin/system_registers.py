# SPDX-License-Identifier: Apache-2.0
"""`TwinRegisters`: the twin of a system as its driver sees it, register by register.

An access takes the cycles that it takes on the RTL (rtl/system/tw_pages.sv), while programs go on.
So a host is as slow as it is there, and windows of budgets begin in the same cycles.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import DeviceError
from tilewright.host.machine import registers
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, HwConfig
from tilewright.host.machine.system_config import SYSTEM_VERSION, SystemConfig
from tilewright.host.runtime.scrub import scrub_program
from tilewright.sim.twin import library
from tilewright.sim.twin.build import build_twin
from tilewright.sim.twin.device import Refusal, Twin, refused
from tilewright.sim.verilator.library import RunOutcome, StopReason

_WRITE_CYCLES: Final = 3
_WRITTEN_AFTER: Final = 2
"""Cycles from the start of a write to the first in which the register shows it."""
_READ_CYCLES: Final = 4
_READ_AFTER: Final = 1
"""Cycles from the start of a read to the one whose state it tells."""

_SCRUB_MEMORY: Final = MemoryModel(
    name="scrub",
    read_latency=1,
    write_latency=1,
    read_bytes_per_cycle=64,
    write_bytes_per_cycle=64,
    shared_bytes_per_cycle=0,
    max_reads=1,
    max_writes=1,
)
"""rtl/system/tw_scrub.sv: a burst after another, a beat a cycle."""

_WORD: Final = 0xFFFF_FFFF
_SNAPSHOT: Final = next(each.offset for each in registers.REGISTERS if each.name == "SNAPSHOT")
_SHARED: Final = {register.offset: register.name for register in registers.SYSTEM_REGISTERS}
_QUEUE: Final = {register.offset: register.name for register in registers.QUEUE_REGISTERS}
_SHARE: Final = {register.offset: register.name for register in registers.SHARE_REGISTERS}
_KEPT: Final = {r.name: r.kept for r in (*registers.SYSTEM_REGISTERS, *registers.SHARE_REGISTERS)}
_ENTRY: Final = {register.offset: register.name for register in registers.CORE_ENTRY}


def scrub_cycles(hw: HwConfig) -> int:
    """Cycles of the program that zeroes the scratchpads of a core of a system."""
    twin = Twin(hw, _SCRUB_MEMORY)
    try:
        return twin.counters(scrub_program(hw)).cycles
    finally:
        twin.close()


class TwinRegisters:
    """One system of the twin; see `sim.verilator.simulated.AnySimulation`."""

    def __init__(self, system: SystemConfig, memory: MemoryModel) -> None:
        self._system = system
        self._library = library.load_twin(build_twin())
        cores = (library.CSystemCore * len(system.cores))()
        for entry, core in zip(cores, system.cores, strict=True):
            entry.hardware = library.CTwinHardware.of(core.hw)
            entry.port, entry.weight = core.port, core.weight
            entry.read_budget, entry.write_budget = core.read_budget, core.write_budget
            entry.scrub = scrub_cycles(core.hw)
        shape = library.CSystemShape(
            cores=len(system.cores),
            ports=system.memory_ports,
            window=system.window,
            port_reads=system.port_reads,
            port_writes=system.port_writes,
            queue_depth=system.queue_depth,
        )
        self._native: Final = library.create_twin(
            self._library, "system", memory, ctypes.byref(shape), cores
        )
        self._image: npt.NDArray[np.uint8] | None = None
        self._base = 0
        self._earlier = 0  # cycles before the last reset
        self._clear()

    def _clear(self) -> None:
        self._cycle = 0  # since the reset
        self._descriptor: list[dict[str, int]] = [{} for _ in self._system.cores]
        self._counters: list[list[int]] = [
            [0] * len(registers.COUNTERS) for _ in self._system.cores
        ]
        self._shares = [
            {"WEIGHT": c.weight, "READ_BUDGET": c.read_budget, "WRITE_BUDGET": c.write_budget}
            for c in self._system.cores
        ]

    # -- simulation ---------------------------------------------------------------------------

    @property
    def total_cycles(self) -> int:
        """Clock cycles since construction."""
        return self._earlier + self._cycle

    def run(self, max_cycles: int) -> RunOutcome:
        """Clock until the interrupt rises or the limit is reached."""
        before = self._cycle
        self._advance(before)
        progress = self._advance(before + max_cycles, to_interrupt=True)
        self._cycle = progress.cycle
        reason = StopReason.INTERRUPT if progress.interrupts else StopReason.CYCLE_LIMIT
        return RunOutcome(reason=reason, cycles=self._cycle - before)

    def set_timing(self, memory: MemoryModel) -> None:  # noqa: ARG002  (it is the one it has)
        """Forget what earlier runs left in the DRAM."""
        self._library.tw_system_reset_dram(self._native.handle)

    def attach(self, image: npt.NDArray[np.uint8], base: int) -> None:
        """Map a contiguous uint8 array at a physical address: instructions are read from it."""
        self._image, self._base = image, base

    def detach(self) -> None:
        """Unmap the memory."""
        self._image = None

    def reset(self) -> None:
        """Assert the hardware reset."""
        self._library.tw_system_reset(self._native.handle)
        self._earlier += self._cycle
        self._clear()

    def close(self) -> None:
        """Free the model; it must not be used again. Idempotent."""
        self._native.close()

    def _advance(self, cycle: int, *, to_interrupt: bool = False) -> library.CProgress:
        progress = library.CProgress()
        refusal = self._library.tw_system_advance(
            self._native.handle, cycle, to_interrupt, ctypes.byref(progress)
        )
        if refusal < 0:
            raise self._native.failure("twin")
        if refusal:
            raise refused(
                Refusal(refusal), progress.instruction, f"program of core {progress.core}"
            )
        return progress

    # -- registers ----------------------------------------------------------------------------

    def write(self, address: int, value: int) -> None:
        """Write a 32-bit register."""
        page, offset = self._page(address)
        self._advance(self._cycle + _WRITTEN_AFTER)
        if page == 0:
            self._write_shared(offset, value)
        else:
            self._write_window(page - 1, offset, value)
        self._cycle += _WRITE_CYCLES

    def read(self, address: int) -> int:
        """Read a 32-bit register."""
        page, offset = self._page(address)
        at = self._cycle + _READ_AFTER
        self._advance(at)
        value = (
            self._read_shared(offset, at) if page == 0 else self._read_window(page - 1, offset, at)
        )
        self._cycle += _READ_CYCLES
        return value

    def _page(self, address: int) -> tuple[int, int]:
        """Page of a register, 0 the shared one, and its offset in the page."""
        page, offset = divmod(address, registers.PAGE)
        if page > len(self._system.cores):
            raise _unknown(address)
        return page, offset

    def _entry(self, offset: int, base: int, step: int) -> tuple[int, int]:
        """Core of an entry of the shared page's tables, and the offset in the entry."""
        core, place = divmod(offset - base, step)
        if core >= len(self._system.cores):
            raise _unknown(offset)
        return core, place

    def _write_shared(self, offset: int, value: int) -> None:
        handle, name = self._native.handle, _SHARED.get(offset)
        if offset >= registers.SHARE_BASE:
            core, place = self._entry(offset, registers.SHARE_BASE, registers.SHARE_STEP)
            if place not in _SHARE:
                raise _unknown(offset)
            self._shares[core][_SHARE[place]] = value & _KEPT[_SHARE[place]]
            self._library.tw_system_set_share(handle, core, *self._shares[core].values())
        elif name == "QUEUE_ENABLE":
            self._library.tw_system_enable(handle, value)
        elif name == "WINDOW":
            if value & _KEPT["WINDOW"]:
                self._library.tw_system_set_window(handle, value & _KEPT["WINDOW"])
        elif name == "PORT_LIMITS":
            self._library.tw_system_set_limits(handle, value & 0xFF, value >> 8 & 0xFF)
        else:
            raise _unknown(offset)

    def _write_window(self, core: int, offset: int, value: int) -> None:
        handle, name = self._native.handle, _QUEUE.get(offset, "")
        if offset == _SNAPSHOT:
            counters = (ctypes.c_uint64 * len(registers.COUNTERS))()
            self._library.tw_system_counters(handle, core, counters)
            self._counters[core] = list(counters)
        elif name.startswith("DESC_"):
            self._descriptor[core][name] = value
        elif name == "QUEUE_PUSH":
            self._push(core, self._descriptor[core], scrub=value & 1)
        elif name == "COMPLETION_POP":
            self._library.tw_system_pop(handle, core)
        elif name != "QUEUE_IRQ_ENABLE":  # whoever has a completion interrupts
            raise _unknown(offset)

    def _push(self, core: int, descriptor: Mapping[str, int], *, scrub: int) -> None:
        def wide(name: str) -> int:
            return descriptor[f"{name}_LO"] | descriptor[f"{name}_HI"] << 32

        if self._image is None:
            raise DeviceError("no memory is attached", field="DESC_MEM_BASE")
        count = descriptor["DESC_INSN_COUNT"]
        start = wide("DESC_MEM_BASE") + wide("DESC_INSN_BASE") - self._base
        stream = self._image[start : start + count * INSTRUCTION_BYTES].tobytes()
        tag = descriptor["DESC_TAG"]
        if self._library.tw_system_push(self._native.handle, core, tag, scrub, stream, count) < 0:
            raise self._native.failure("twin")

    def _read_shared(self, offset: int, at: int) -> int:
        handle, system, name = self._native.handle, self._system, _SHARED.get(offset)
        if offset >= registers.SHARE_BASE:
            core, place = self._entry(offset, registers.SHARE_BASE, registers.SHARE_STEP)
            if place in _SHARE:
                return self._shares[core][_SHARE[place]]
            index, high = divmod(place - registers.SHARE_COUNTERS, 8)
            if not 0 <= index < len(registers.SHARE_COUNTER_NAMES):
                raise _unknown(offset)
            counters = (ctypes.c_uint64 * len(registers.SHARE_COUNTER_NAMES))()
            self._library.tw_system_shares(handle, core, counters)
            return counters[index] >> (32 if high else 0) & _WORD
        if offset >= registers.CORE_TABLE:
            core, place = self._entry(offset, registers.CORE_TABLE, registers.CORE_TABLE_STEP)
            if place not in _ENTRY:
                raise _unknown(offset)
            entry = system.cores[core]
            return entry.hw.config_hash if _ENTRY[place] == "HASH" else entry.port
        known = {
            "ID": registers.SYSTEM_ID,
            "VERSION": SYSTEM_VERSION,
            "CONFIG_HASH": system.config_hash,
        }
        if name in known:
            return known[name]
        if name == "IRQ_PENDING":
            return int(self._library.tw_system_pending(handle, at - 1))
        raise _unknown(offset)

    def _read_window(self, core: int, offset: int, at: int) -> int:
        handle, name = self._native.handle, _QUEUE.get(offset, "")
        index, high = divmod(offset - registers.COUNTER_BASE, 8)
        if 0 <= index < len(registers.COUNTERS):
            return self._counters[core][index] >> (32 if high else 0) & _WORD
        if name == "QUEUE_STATUS":
            return int(self._library.tw_system_completions(handle, core, at)) << 8
        if not name.startswith("COMPLETION_"):
            raise _unknown(offset)
        if name == "COMPLETION_STATUS":
            return int(registers.Completion.DONE)
        completion = library.CCompletion()
        self._library.tw_system_completion(handle, core, ctypes.byref(completion))
        field, _, part = name.removeprefix("COMPLETION_").lower().partition("_")
        return int(getattr(completion, field)) >> (32 if part == "hi" else 0) & _WORD


def _unknown(offset: int) -> DeviceError:
    return DeviceError(
        "the twin of a system has no such register",
        field="register",
        value=f"{offset:#x}",
        remedy="use fidelity rtl",
    )
