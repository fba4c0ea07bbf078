# SPDX-License-Identifier: Apache-2.0
"""A board of foreign parts under the top: a module `pynq`, and memory and bus of cocotbext-axi.

Nothing here is Tilewright's but the registers' addresses. Software runs in threads. Simulated time
stands while it thinks, and goes on while it waits for the bus or the interrupt.
"""

from __future__ import annotations

import queue
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from types import ModuleType
from typing import Any
from unittest import mock

import cocotb
import numpy as np
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AddressSpace, AxiBus, AxiSlave, MemoryRegion
from top.axi import Host, ProtocolMonitor

REGISTERS_BASE = 0x43C0_0000
MEMORY_BASE = 0x1680_0000
MEMORY_BYTES = 1 << 20
_ACCESS_CYCLES = 12
"""What a register access of a processor takes beside its bus cycles."""
_THINKING_SECONDS = 120.0
_GARBAGE = 0xEE


class Buffer(np.ndarray):
    """The CPU's copy of contiguous memory; only flush and invalidate bring one to the other."""

    board: PynqBoard
    offset: int
    origin: int

    @classmethod
    def of(cls, board: PynqBoard, size: int) -> Buffer:
        """A new buffer, whose two copies are garbage."""
        buffer = np.full(size, _GARBAGE, np.uint8).view(cls)
        buffer.board, buffer.offset = board, board.space_for(size)
        buffer.origin = buffer.ctypes.data
        buffer.flush()
        return buffer

    def __array_finalize__(self, whole: Any) -> None:
        for name in ("board", "offset", "origin"):
            setattr(self, name, getattr(whole, name, None))

    @property
    def _place(self) -> slice:
        start = self.offset + self.ctypes.data - self.origin
        return slice(start, start + self.nbytes)

    @property
    def device_address(self) -> int:
        """Where the accelerator finds it."""
        return MEMORY_BASE + self._place.start

    def flush(self) -> None:
        """Write the CPU's copy to memory."""
        self.board.memory.mem[self._place] = self.tobytes()

    def invalidate(self) -> None:
        """Read the CPU's copy from memory."""
        self[:] = np.frombuffer(self.board.memory.mem[self._place], np.uint8)

    def freebuffer(self) -> None:
        """Give the memory back."""
        self.board.taken.pop(self.offset)


class PynqBoard(Host):
    """The accelerator, its clients of cocotbext-axi, and software on top."""

    def __init__(self, dut: Any, *, reads: int, writes: int) -> None:
        super().__init__(dut)
        self.memory = MemoryRegion(MEMORY_BYTES)
        self.taken: dict[int, int] = {}
        space = AddressSpace()  # elsewhere nothing answers: a decode error
        space.register_region(self.memory, MEMORY_BASE)
        bus = AxiBus.from_prefix(dut, "m_axi")
        self._slave = AxiSlave(bus, dut.aclk, dut.aresetn, space, reset_active_level=False)
        self._monitor = ProtocolMonitor(dut, reads=reads, writes=writes)
        self._jobs: queue.SimpleQueue[tuple[Callable[[], Awaitable[Any]], Future[Any]] | None]
        self._jobs = queue.SimpleQueue()
        self.accesses: list[int] = []
        """Offsets of the registers that were read or written."""
        self.interrupts = 0
        """Rising edges of the interrupt."""

    async def start(self) -> None:
        """Clock, hardware reset, and the watches."""
        await super().start()
        cocotb.start_soon(self._monitor.run())
        cocotb.start_soon(self._count_interrupts())

    async def run(self, software: Callable[[], None]) -> None:
        """Serve software, which runs in a thread, until it returns."""
        with ThreadPoolExecutor(1) as threads, mock.patch.dict("sys.modules", pynq=self.module()):
            done = threads.submit(software)
            done.add_done_callback(lambda _: self._jobs.put(None))
            while (job := self._jobs.get(timeout=_THINKING_SECONDS)) is not None:
                work, answer = job
                try:
                    answer.set_result(await work())
                except Exception as error:  # the software's to judge
                    answer.set_exception(error)
            done.result()

    def space_for(self, size: int) -> int:
        """The first gap of contiguous memory that holds a buffer."""
        offset = 0
        for begin, taken in sorted(self.taken.items()):
            if offset + size <= begin:
                break
            offset = begin + taken
        if offset + size > MEMORY_BYTES:
            raise RuntimeError("no contiguous memory")
        self.taken[offset] = size
        return offset

    # -- what threads may call --------------------------------------------------------------

    def _simulate(self, work: Callable[[], Awaitable[Any]]) -> Any:
        answer: Future[Any] = Future()
        self._jobs.put((work, answer))
        return answer.result(_THINKING_SECONDS)

    def read_register(self, offset: int) -> int:
        """Over the AXI4-Lite bus."""

        async def work() -> int:
            self.accesses.append(offset)
            await ClockCycles(self.dut.aclk, _ACCESS_CYCLES)
            return int(await self._lite.read_dword(offset))

        return int(self._simulate(work))

    def write_register(self, offset: int, value: int) -> None:
        """Over the AXI4-Lite bus."""

        async def work() -> None:
            self.accesses.append(offset)
            await ClockCycles(self.dut.aclk, _ACCESS_CYCLES)
            await self._lite.write_dword(offset, value)

        self._simulate(work)

    def wait_for_interrupt(self) -> None:
        """Sleep until the level is high."""

        async def work() -> None:
            while not int(self.dut.irq_o.value):
                await RisingEdge(self.dut.aclk)

        self._simulate(work)

    # -- the module -------------------------------------------------------------------------

    def module(self) -> ModuleType:
        """`pynq`, as far as it is used: Overlay, MMIO, allocate, Interrupt."""
        board, module = self, ModuleType("pynq")

        class Overlay:
            def __init__(self, bitfile_name: str, *, device: Any = None) -> None:
                self.device = device
                self.ip_dict = {
                    "accelerator": {
                        "type": "tilewright:core:tilewright:1.0",
                        "phys_addr": REGISTERS_BASE,
                        "addr_range": 4096,
                    }
                }

            def is_loaded(self) -> bool:
                return True

        class MMIO:
            def __init__(self, base_addr: int, length: int, *, device: Any = None) -> None:
                assert (base_addr, length) == (REGISTERS_BASE, 4096)

            def read(self, offset: int = 0) -> int:
                return board.read_register(offset)

            def write(self, offset: int, data: int) -> None:
                board.write_register(offset, data)

        class Interrupt:
            def __init__(self, pinname: str) -> None:
                assert pinname == "accelerator/irq"

            def wait(self) -> None:  # pynq's is a coroutine of asyncio
                board.wait_for_interrupt()

        def allocate(
            shape: tuple[int], *, dtype: str, target: Any = None, cacheable: int = 0
        ) -> Buffer:
            assert dtype == "u1"
            return Buffer.of(board, shape[0])

        vars(module).update(Overlay=Overlay, MMIO=MMIO, Interrupt=Interrupt, allocate=allocate)
        return module

    async def _count_interrupts(self) -> None:
        while True:
            await RisingEdge(self.dut.irq_o)
            self.interrupts += 1
