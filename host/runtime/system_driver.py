# SPDX-License-Identifier: Apache-2.0
"""`SystemDriver`: the register protocol of a system of cores, over anything that reads and writes.

A core of a system has the registers of a core by itself in its window: `SystemDriver.core` gives
the `Driver` of one. Beside that stand its queue and its share of a memory port.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tilewright.host.common.errors import DeviceError
from tilewright.host.common.plain_values import check_integer
from tilewright.host.machine import system_config
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import (
    CORE_ENTRY,
    CORE_TABLE,
    CORE_TABLE_STEP,
    QUEUE_REGISTERS,
    SHARE_BASE,
    SHARE_COUNTER_NAMES,
    SHARE_COUNTERS,
    SHARE_REGISTERS,
    SHARE_STEP,
    SYSTEM_ID,
    SYSTEM_REGISTERS,
    Completion,
    QueueStatus,
    window,
)
from tilewright.host.machine.status import decode_status
from tilewright.host.runtime.driver import Driver, RegisterPort, check_places, require_register

_WORD: Final = 0xFFFF_FFFF
_SHARED: Final = {register.name: register.offset for register in SYSTEM_REGISTERS}
_ENTRY: Final = {register.name: register.offset for register in CORE_ENTRY}
_SHARE: Final = {register.name: register.offset for register in SHARE_REGISTERS}
_QUEUE: Final = {register.name: register.offset for register in QUEUE_REGISTERS}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What became of a descriptor."""

    tag: int  # of the descriptor
    begin: int  # time in cycles since the reset at which its program started
    cycles: int  # of its run; what counter ``cycles`` says if it ended well
    error: DeviceError | None = None  # why it ended otherwise
    in_scrub: bool = False  # the error is of the scrub before the program, which did not run


class SystemDriver:
    """Speaks to one system.

    Threads may share a driver where they only read times and counters of shares; a system has one
    driver at a time.
    """

    def __init__(self, port: RegisterPort, system: system_config.SystemConfig) -> None:
        self._port: Final = port
        self._system: Final = system
        self._pair: Final = threading.Lock()

    def check_identity(self) -> None:
        """Refuse anything that is not this system."""
        expected = [
            ("ID", _SHARED["ID"], SYSTEM_ID, "check the bitstream and the address of the system"),
            ("VERSION", _SHARED["VERSION"], system_config.SYSTEM_VERSION,
             "build both from one release"),
            ("CONFIG_HASH", _SHARED["CONFIG_HASH"], self._system.config_hash,
             "use the system that the device was built for"),
        ]  # fmt: skip
        for number, core in enumerate(self._system.cores):
            place = CORE_TABLE + CORE_TABLE_STEP * number + _ENTRY["HASH"]
            remedy = "use the system that the device was built for"
            expected.append((f"HASH of core {number}", place, core.hw.config_hash, remedy))
        for name, address, value, remedy in expected:
            require_register(name, self._port.read(address), value, self._system.name, remedy)

    def core(self, number: int) -> Driver:
        """The driver of one core, as if it were alone."""
        return Driver(self._port, window(number))

    # -- shares of memory ports -------------------------------------------------------------

    def set_window(self, cycles: int) -> None:
        """Set the cycles in which budgets count, 1 to 65535."""
        check_integer("window", cycles, 1, system_config.MAX_WINDOW)
        self._port.write(_SHARED["WINDOW"], cycles)

    def set_limits(self, *, reads: int, writes: int) -> None:
        """Set the bursts in flight of each memory port, 1 to 32.

        Weights count in full in a direction whose limit is below the bursts that each core of the
        port can have in flight (`read_outstanding`, `write_outstanding`).
        """
        check_integer("reads", reads, 1, system_config.MAX_IN_FLIGHT)
        check_integer("writes", writes, 1, system_config.MAX_IN_FLIGHT)
        self._port.write(_SHARED["PORT_LIMITS"], reads | writes << 8)

    def set_share(self, core: int, *, weight: int, read_budget: int, write_budget: int) -> None:
        """Set a core's weight, 1 to 15, and its budgets in beats a window; 0: no limit."""
        check_integer("weight", weight, 1, system_config.MAX_WEIGHT)
        check_integer("read_budget", read_budget, 0, system_config.MAX_WINDOW)
        check_integer("write_budget", write_budget, 0, system_config.MAX_WINDOW)
        base = SHARE_BASE + SHARE_STEP * core
        for name, value in (
            ("WEIGHT", weight),
            ("READ_BUDGET", read_budget),
            ("WRITE_BUDGET", write_budget),
        ):
            self._port.write(base + _SHARE[name], value)

    def share_counters(self, core: int) -> dict[str, int]:
        """What was counted of a core since the reset (`SHARE_COUNTER_NAMES`)."""
        base = SHARE_BASE + SHARE_STEP * core + SHARE_COUNTERS
        return {
            name: self._shared64(base + 8 * index, base + 8 * index + 4)
            for index, (name, _) in enumerate(SHARE_COUNTER_NAMES)
        }

    # -- queues -----------------------------------------------------------------------------

    def start(self, cores: int) -> None:
        """Start what the windows of several cores hold, in the same cycle; bit i is core i."""
        self._port.write(_SHARED["START"], cores)

    def enable_queues(self, cores: int) -> None:
        """Let the queues of these cores begin, in the same cycle, and of no others."""
        self._port.write(_SHARED["QUEUE_ENABLE"], cores)

    def pending(self) -> int:
        """Cores that interrupt; bit i is core i."""
        return self._port.read(_SHARED["IRQ_PENDING"])

    def time(self) -> int:
        """Cycles since the reset."""
        return self._shared64(_SHARED["TIME_LO"], _SHARED["TIME_HI"])

    def interrupt_on_completion(self, core: int) -> None:
        """Let a core interrupt while it has a completion."""
        self._write(core, "QUEUE_IRQ_ENABLE", 1)

    def push(
        self,
        core: int,
        program: Program,
        base: int,
        *,
        tag: int,
        watchdog_cycles: int,
        scrub: bool = False,
    ) -> None:
        """Append a descriptor; there must be room for it (`waiting`)."""
        check_places(program, base)
        self._write64(core, "DESC_INSN_BASE", program.regions["insn"].offset)
        self._write64(core, "DESC_MEM_BASE", base)
        self._write64(core, "DESC_MEM_SIZE", program.memory_bytes)
        self._write(core, "DESC_INSN_COUNT", program.instruction_count)
        self._write(core, "DESC_WATCHDOG", watchdog_cycles)
        self._write(core, "DESC_TAG", tag)
        self._write(core, "QUEUE_PUSH", int(scrub))

    def waiting(self, core: int) -> int:
        """Descriptors in a core's queue, the one that runs included."""
        return self._read(core, "QUEUE_STATUS") & 0xFF

    def held(self, core: int) -> bool:
        """Whether an error of the window's own run keeps the core's queue from its next descriptor.

        Read the error (`core(number).finish()`), then reset: `core(number).request_reset()`.
        """
        return bool(self._read(core, "QUEUE_STATUS") & QueueStatus.HELD)

    def completions(self, core: int) -> Iterator[Ended]:
        """Take the completions that a core has."""
        for _ in range(self._read(core, "QUEUE_STATUS") >> 8 & 0xFF):
            yield self._completion(core)
            self._write(core, "COMPLETION_POP", 1)

    def _completion(self, core: int) -> Ended:
        status = self._read(core, "COMPLETION_STATUS")
        error: DeviceError | None = None
        if status & Completion.ERROR:
            error = decode_status(
                status & 0xFFF,
                self._read(core, "COMPLETION_ERROR_INSN"),
                self._read(core, "COMPLETION_WAIT_STATE"),
            )
        elif not status & Completion.DONE:
            error = DeviceError("a soft reset ended the run", field=f"core {core}")
        return Ended(
            tag=self._read(core, "COMPLETION_TAG"),
            begin=self._read64(core, "COMPLETION_BEGIN"),
            cycles=self._read64(core, "COMPLETION_CYCLES"),
            error=error,
            in_scrub=bool(status & Completion.SCRUB),
        )

    def _shared64(self, low: int, high: int) -> int:
        """Both words of a pair of the shared page, which keeps one upper word at a time."""
        with self._pair:
            return self._port.read(low) | self._port.read(high) << 32

    def _read(self, core: int, name: str) -> int:
        return self._port.read(window(core) + _QUEUE[name])

    def _write(self, core: int, name: str, value: int) -> None:
        self._port.write(window(core) + _QUEUE[name], value)

    def _read64(self, core: int, name: str) -> int:
        return self._read(core, f"{name}_LO") | self._read(core, f"{name}_HI") << 32

    def _write64(self, core: int, name: str, value: int) -> None:
        self._write(core, f"{name}_LO", value & _WORD)
        self._write(core, f"{name}_HI", value >> 32)
