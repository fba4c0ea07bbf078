# SPDX-License-Identifier: Apache-2.0
"""`Driver`: the accelerator's register protocol, over anything that reads and writes registers.

Simulations and boards share it: who the accelerator is, how a program starts and how a run ends.
Waiting is the caller's, because a simulation has to be clocked and a board has not.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np

from tilewright.host.common.errors import DeviceError, ProgramError
from tilewright.host.machine.hwconfig import ISA_VERSION, HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import (
    ADDRESS_BITS,
    COHERENT,
    COUNTER_BASE,
    COUNTERS,
    DEVICE_ID,
    NOT_COHERENT,
    PAGE_BYTES,
    REGISTERS,
    SIZE_BITS,
    Ctrl,
    Status,
)
from tilewright.host.machine.status import decode_status
from tilewright.host.runtime.device import Bytes, Counters

WINDOW_BYTES: Final = COUNTER_BASE + 8 * len(COUNTERS)
"""Bytes of the AXI4-Lite window that the registers use."""

DEFAULT_WATCHDOG_CYCLES: Final = 1_000_000
MAX_WATCHDOG_CYCLES: Final = 2**32 - 1

_INTERRUPTS: Final = 0b11
_ADDRESS: Final = {register.name: register.offset for register in REGISTERS}
_CYCLES: Final = COUNTER_BASE + 8 * [name for name, _ in COUNTERS].index("cycles")
_WORD: Final = 0xFFFF_FFFF


class RegisterPort(Protocol):
    """32-bit accesses at byte offsets into the accelerator's AXI4-Lite window."""

    def read(self, address: int, /) -> int:
        """Read a register."""
        ...

    def write(self, address: int, value: int, /) -> None:
        """Write a register."""
        ...


class Driver:
    """Speaks to one accelerator."""

    def __init__(self, port: RegisterPort, base: int = 0) -> None:
        self._port: Final = port
        self._base: Final = base

    def check_identity(self, hw: HwConfig) -> None:
        """Refuse anything that is not the accelerator of a configuration."""
        expected = (
            ("ID", DEVICE_ID, "check the bitstream and the address of the accelerator"),
            ("ISA", ISA_VERSION, "build the bitstream and the programs from one release"),
            (
                "CONFIG_HASH",
                hw.config_hash,
                "use the hardware configuration that the device was built for",
            ),
        )
        for name, value, remedy in expected:
            require_register(name, self._read(name), value, hw.name, remedy)

    def set_coherent(self, *, coherent: bool) -> None:
        """Say whether the memory port snoops the CPU's caches; it lasts until a hardware reset."""
        self._write("AXI_ATTRIBUTES", COHERENT if coherent else NOT_COHERENT)

    def start(self, program: Program, base: int, *, watchdog_cycles: int) -> None:
        """Start a program; interrupts are acknowledged and enabled."""
        check_places(program, base)
        self._write64("INSN_BASE", program.regions["insn"].offset)
        self._write64("MEM_BASE", base)
        self._write64("MEM_SIZE", program.memory_bytes)
        self._write("INSN_COUNT", program.instruction_count)
        self._write("WATCHDOG", watchdog_cycles)
        self._write("IRQ_STATUS", _INTERRUPTS)
        self._write("IRQ_ENABLE", _INTERRUPTS)
        self._write("CTRL", Ctrl.START)

    def ended(self) -> bool:
        """Whether the run ended, well or not."""
        return bool(self._status() & (Status.DONE | Status.ERROR))

    def finish(self) -> Counters:
        """Acknowledge the interrupt of a run that ended, and read what it counted."""
        self._write("IRQ_STATUS", _INTERRUPTS)
        status = self._status()
        if status & Status.ERROR:
            raise decode_status(
                self._read("ERROR"), self._read("ERROR_INSN"), self._read("WAIT_STATE")
            )
        if not status & Status.DONE:
            raise DeviceError(
                "the interrupt must mean done or error", field="STATUS", value=int(status)
            )
        return self.snapshot()

    def snapshot(self) -> Counters:
        """All counters as they are at one moment, of a run under way too."""
        self._write("SNAPSHOT", 1)
        values = {}
        for index, (name, _) in enumerate(COUNTERS):
            values[name] = self._read64(COUNTER_BASE + 8 * index)
        return Counters(values=values)

    def cycles(self) -> int:
        """Cycles since the start, of a run under way too."""
        self._write("SNAPSHOT", 1)
        return self._read64(_CYCLES)

    def request_reset(self) -> None:
        """Begin a soft reset, which drains the bus first."""
        self._write("CTRL", Ctrl.SOFT_RESET)

    def was_reset(self) -> bool:
        """Whether a soft reset ended: the accelerator is idle and shows no error."""
        return not self._status() & (Status.RESETTING | Status.BUSY | Status.ERROR)

    def _status(self) -> Status:
        return Status(self._read("STATUS"))

    def _read(self, name: str) -> int:
        return self._port.read(self._base + _ADDRESS[name])

    def _write(self, name: str, value: int) -> None:
        self._port.write(self._base + _ADDRESS[name], value)

    def _read64(self, address: int) -> int:
        low, high = (self._port.read(self._base + address + word) for word in (0, 4))
        return low | high << 32

    def _write64(self, name: str, value: int) -> None:
        self._write(f"{name}_LO", value & _WORD)
        self._write(f"{name}_HI", value >> 32)


def require_register(name: str, found: int, expected: int, field: str, remedy: str) -> None:
    """Refuse hardware of which a register reads something else than it must."""
    if found != expected:
        raise DeviceError(
            f"register {name} must read {expected:#010x}",
            field=field,
            value=f"{found:#010x}",
            remedy=remedy,
        )


def check_places(program: Program, base: int) -> None:
    """Refuse what the address registers would cut off (see their meaning in `REGISTERS`)."""
    insn = program.regions["insn"].offset
    for field, value, limit in (
        ("MEM_BASE", base, 1 << ADDRESS_BITS),
        ("MEM_SIZE", program.memory_bytes, 1 << SIZE_BITS),
        ("INSN_BASE", insn, program.memory_bytes),
        ("MEM_BASE + MEM_SIZE", base + program.memory_bytes, (1 << ADDRESS_BITS) + PAGE_BYTES),
    ):
        if value % PAGE_BYTES or not 0 <= value < limit:
            raise ProgramError(
                f"must be a multiple of {PAGE_BYTES} from 0 to {limit - PAGE_BYTES:#x}",
                field=field,
                value=f"{value:#x}",
                remedy="lay memory and regions out in whole pages (layout_regions)",
            )
    end = insn + len(program.instructions)
    if end > program.memory_bytes:
        raise ProgramError(
            f"the program must lie in its memory of {program.memory_bytes:#x} bytes",
            field="insn",
            value=f"{end:#x}",
            remedy="make the region hold every instruction",
        )


def check_run(hw: HwConfig, program: Program, memory: Bytes, max_cycles: int) -> None:
    """Refuse arguments of `Device.run` that no accelerator of a configuration can take."""
    program.check(hw)
    if memory.dtype != np.uint8 or memory.shape != (program.memory_bytes,):
        raise ProgramError(
            f"memory must be a uint8 array of {program.memory_bytes} bytes",
            field="memory",
            value=f"{memory.dtype}{list(memory.shape)}",
            remedy="start from Program.image()",
        )
    if max_cycles < 0:
        raise ProgramError("must not be negative", field="max_cycles", value=max_cycles)
