# SPDX-License-Identifier: Apache-2.0
"""The top's clients: DRAM behind `cocotbext.axi.AxiSlave`, registers behind `AxiLiteMaster`."""

from __future__ import annotations

import logging
from typing import Any

import cocotb
import numpy as np
from bench import Knob, start_clock
from cocotb.triggers import ClockCycles, RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiSlave

from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import COUNTER_BASE, COUNTERS, REGISTERS, Ctrl, Status

_OFFSET = {register.name: register.offset for register in REGISTERS}
MEM_BASE = 0x12_3456_7000
"""Where the program's memory lies: not 0, above 32 bits."""


class Dram:
    """Bytes that answer from `MEM_BASE` on; anything else, and a bad range, is SLVERR."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.bad_reads = range(0)
        self.bad_writes = range(0)
        self.refused: list[str] = []

    def load(self, image: np.ndarray) -> None:
        """Replace the contents; bad ranges stay."""
        self.data = bytearray(image.tobytes())
        self.refused = []

    def image(self) -> np.ndarray:
        """A copy of the contents."""
        return np.frombuffer(bytes(self.data), dtype=np.uint8)

    async def read(self, address: int, length: int) -> bytes:
        """Serve a beat."""
        offset = self._offset(address, length, self.bad_reads)
        return bytes(self.data[offset : offset + length])

    async def write(self, address: int, data: bytes) -> None:
        """Take the strobed bytes of a beat."""
        offset = self._offset(address, len(data), self.bad_writes)
        self.data[offset : offset + len(data)] = data

    def _offset(self, address: int, length: int, bad: range) -> int:
        offset = address - MEM_BASE
        if offset < 0 or offset + length > len(self.data):
            self.refused.append(f"{address:#x}")
            raise ValueError("outside the memory")
        if offset in bad:
            raise ValueError("bad range")
        return offset


class ProtocolMonitor:
    """Rules that an AXI slave model does not check: offers are held, bursts are limited."""

    _CHANNELS = (
        ("aw", ("awaddr", "awlen", "awsize", "awburst")),
        ("w", ("wdata", "wstrb", "wlast")),
        ("ar", ("araddr", "arlen", "arsize", "arburst")),
    )

    def __init__(self, dut: Any, *, reads: int, writes: int) -> None:
        self._dut = dut
        self._limits = (reads, writes)
        self.reads = 0
        self.writes = 0
        self.most_reads = 0
        self.most_writes = 0

    async def run(self) -> None:
        """Watch every cycle."""
        dut = self._dut
        channels = [
            (
                name,
                getattr(dut, f"m_axi_{name}valid"),
                getattr(dut, f"m_axi_{name}ready"),
                [getattr(dut, f"m_axi_{signal}") for signal in signals],
            )
            for name, signals in self._CHANNELS
        ]
        held: dict[str, tuple[int, ...]] = {}
        edge = RisingEdge(dut.aclk)
        while True:
            await edge
            taken = set()
            for name, valid, ready, signals in channels:
                if not int(valid.value):
                    assert name not in held, f"{name}: offer withdrawn"
                    continue
                payload = tuple(int(signal.value) for signal in signals)
                assert held.get(name, payload) == payload, f"{name}: offer changed"
                if int(ready.value):
                    held.pop(name, None)
                    taken.add(name)
                else:
                    held[name] = payload
            assert int(dut.m_axi_rready.value)
            assert int(dut.m_axi_bready.value)
            read_done = int(dut.m_axi_rvalid.value) and int(dut.m_axi_rlast.value)
            self.reads += ("ar" in taken) - bool(read_done)
            self.writes += ("aw" in taken) - int(dut.m_axi_bvalid.value)
            self.most_reads = max(self.most_reads, self.reads)
            self.most_writes = max(self.most_writes, self.writes)
            assert 0 <= self.reads <= self._limits[0], f"{self.reads} reads in flight"
            assert 0 <= self.writes <= self._limits[1], f"{self.writes} writes in flight"


class Host:
    """The registers of the device under test, driven as a host would drive them."""

    def __init__(self, dut: Any) -> None:
        self.dut = dut
        self._lite = AxiLiteMaster(
            AxiLiteBus.from_prefix(dut, "s_axil"), dut.aclk, dut.aresetn, reset_active_level=False
        )

    async def start(self) -> None:
        """Clock and hardware reset."""
        self.dut.aresetn.value = 0
        await start_clock(self.dut, "aclk")
        await ClockCycles(self.dut.aclk, 5)
        self.dut.aresetn.value = 1
        await RisingEdge(self.dut.aclk)

    async def read(self, name: str) -> int:
        """A control register."""
        return int(await self._lite.read_dword(_OFFSET[name]))

    async def write(self, name: str, value: int) -> None:
        """Write a control register."""
        await self._lite.write_dword(_OFFSET[name], value)

    async def write_wide(self, name: str, value: int) -> None:
        """Write a register pair."""
        await self.write(f"{name}_LO", value & 0xFFFF_FFFF)
        await self.write(f"{name}_HI", value >> 32)

    async def begin(self, program: Program, size: int, *, watchdog: int = 20_000) -> None:
        """Set the registers of a program whose memory has a size, and start it."""
        await self.write_wide("MEM_BASE", MEM_BASE)
        await self.write_wide("MEM_SIZE", size)
        await self.write_wide("INSN_BASE", program.regions["insn"].offset)
        await self.write("INSN_COUNT", program.instruction_count)
        await self.write("WATCHDOG", watchdog)
        await self.write("CTRL", Ctrl.START)

    async def wait(self, *, limit: int = 400) -> Status:
        """Poll STATUS until the run has ended, or fail."""
        for _ in range(limit):
            status = Status(await self.read("STATUS"))
            if not status & (Status.BUSY | Status.RESETTING):
                return status
            await ClockCycles(self.dut.aclk, 50)
        raise AssertionError(f"still {status!r} after {limit} polls")


class Accelerator(Host):
    """The device under test with its memory."""

    def __init__(self, dut: Any, knob: Knob, *, reads: int, writes: int) -> None:
        logging.getLogger("cocotb.tilewright_top").setLevel(logging.ERROR)
        super().__init__(dut)
        self.dram = Dram()
        self.monitor = ProtocolMonitor(dut, reads=reads, writes=writes)
        bus = AxiBus.from_prefix(dut, "m_axi")
        self._slave = AxiSlave(bus, dut.aclk, dut.aresetn, self.dram, reset_active_level=False)
        for name in ("cocotb.tilewright_top.m_axi", "cocotb.tilewright_top.s_axil"):
            logging.getLogger(name).setLevel(logging.ERROR)
        read, write = self._slave.read_if, self._slave.write_if
        knob.slow(
            (read.r_channel, write.b_channel),
            (read.ar_channel, write.aw_channel, write.w_channel),
        )
        write, read = self._lite.write_if, self._lite.read_if
        knob.slow(
            (write.aw_channel, write.w_channel, read.ar_channel), (write.b_channel, read.r_channel)
        )

    async def start(self) -> None:
        """Clock, hardware reset and the watch on the protocol."""
        await super().start()
        cocotb.start_soon(self.monitor.run())

    async def launch(self, program: Program, image: np.ndarray, *, watchdog: int = 20_000) -> None:
        """Load the memory, set the registers and start."""
        self.dram.load(image)
        await self.begin(program, image.size, watchdog=watchdog)

    async def soft_reset(self) -> None:
        """Soft reset; the bus has drained when it returns."""
        await self.write("CTRL", Ctrl.SOFT_RESET)
        status = await self.wait()
        assert status == Status(0), f"after soft reset: {status!r}"
        assert (self.monitor.reads, self.monitor.writes) == (0, 0), "soft reset left bursts"

    async def counters(self) -> dict[str, int]:
        """Snapshot and read every counter."""
        await self.write("SNAPSHOT", 1)
        raw = await self._lite.read(COUNTER_BASE, 8 * len(COUNTERS))
        words = np.frombuffer(bytes(raw.data), dtype="<u8")
        return {name: int(word) for (name, _), word in zip(COUNTERS, words, strict=True)}
