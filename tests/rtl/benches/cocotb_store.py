# SPDX-License-Identifier: Apache-2.0
"""tw_store with a behavioural OUT and AXI write slave against the definition of STORE."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, Knob, generator, parameters, reset, start_clock
from cocotb.triggers import RisingEdge
from support.programs.loops import tiles
from units import Surroundings, answer, random_tokens

from tilewright.host.machine.isa import Instruction, Opcode
from tilewright.host.machine.registers import ErrorCode

_BASE = 0x3_0001_0000
_SIZE = 1 << 15
_BUFFERED = 4
"""Beats that wait for WREADY; those read before a halt keep their strobes."""


class Slave:
    """AW, W and B channels, and the read port of OUT."""

    def __init__(self, dut: Any, rng: np.random.Generator, knob: Knob) -> None:
        self.p = parameters()
        self._dut = dut
        self._rng = rng
        self._knob = knob
        self.out = rng.integers(0, 256, (self.p["OutDepth"], self.p["TileBytes"]), dtype=np.uint8)
        self.memory = np.zeros(_SIZE, dtype=np.uint8)
        self.bursts: deque[tuple[int, int]] = deque()
        self._beat = 0
        self.waiting = 0  # bursts whose beats are in, without a response
        self.flying = 0
        self._ready = (0, 0)
        self.strobes = 0
        self.strobed_beats = 0
        self.fails: Callable[[], bool] = lambda: False
        dut.mem_base_i.value = _BASE
        dut.mem_size_i.value = _SIZE
        for name in ("awready_i", "wready_i", "bvalid_i", "bresp_i"):
            getattr(dut, name).value = 0

    def step(self) -> None:
        """One clock edge."""
        dut, p = self._dut, self.p
        width = p["BeatBytes"]
        if int(dut.bvalid_i.value):
            self.flying -= 1
        if int(dut.awvalid_o.value) and self._ready[0]:
            address, beats = int(dut.awaddr_o.value), int(dut.awlen_o.value) + 1
            assert address % width == 0
            assert beats <= p["BurstBeats"]
            assert address // 4096 == (address + beats * width - 1) // 4096, "crosses 4 KiB"
            assert address >= _BASE
            assert address + beats * width <= _BASE + _SIZE
            self.bursts.append((address - _BASE, beats))
            self.flying += 1
            assert self.flying <= p["Outstanding"]
        if int(dut.wvalid_o.value) and self._ready[1]:
            address, beats = self.bursts[0]
            start = address + self._beat * width
            strobe = int(dut.wstrb_o.value)
            data = int(dut.wdata_o.value).to_bytes(width, "little")
            for lane in range(width):
                if strobe >> lane & 1:
                    self.memory[start + lane] = data[lane]
            self.strobes += strobe.bit_count()
            self.strobed_beats += strobe != 0
            self._beat += 1
            assert int(dut.wlast_o.value) == (self._beat == beats), "wlast"
            if self._beat == beats:
                self._beat = 0
                self.bursts.popleft()
                self.waiting += 1
        if int(dut.out_read_o.value):
            dut.out_data_i.value = self._read()
        late = self._knob.name != "none" and self._rng.random() < 0.7
        respond = self.waiting > 0 and not late
        self.waiting -= respond
        dut.bvalid_i.value = int(respond)
        dut.bresp_i.value = 2 if respond and self.fails() else 0
        stop = self._knob.sink_pauses
        # Beats are taken only when their address is known.
        self._ready = (int(not stop()), int(bool(self.bursts) and not stop()))
        dut.awready_i.value, dut.wready_i.value = self._ready

    def _read(self) -> int:
        dut, p = self._dut, self.p
        tile, width = int(dut.out_addr_o.value), p["BeatBytes"]
        if p["TileBytes"] >= width:
            slice_ = int(dut.out_slice_o.value)
            return int.from_bytes(
                self.out[tile, slice_ * width : (slice_ + 1) * width].tobytes(), "little"
            )
        lane = int(dut.out_lane_o.value)
        beat = self._rng.integers(0, 256, (width // p["TileBytes"], p["TileBytes"]), dtype=np.uint8)
        for offset in range(len(beat) - lane):
            if tile + offset < p["OutDepth"]:
                beat[lane + offset] = self.out[tile + offset]
        return int.from_bytes(beat.tobytes(), "little")


def random_store(rng: np.random.Generator, p: dict[str, int]) -> Instruction:
    """A legal instruction whose rows lie anywhere in the memory."""
    x, y, z = (int(n) for n in rng.integers(1, (12, 4, 3)))
    x = min(x, p["OutDepth"] // (y * z))
    tile, align = p["TileBytes"], min(p["TileBytes"], p["BeatBytes"])
    y_stride = x + int(rng.integers(4))
    z_stride = y_stride * y + int(rng.integers(4))
    span = ((z - 1) * z_stride + (y - 1) * y_stride + x) * tile
    return Instruction(
        Opcode.STORE,
        {
            "sram_base": int(rng.integers(p["OutDepth"] - x * y * z + 1)),
            "dram_offset": int(rng.integers((_SIZE - span) // align + 1)) * align,
            "x_size": x,
            "y_size": y,
            "z_size": z,
            "y_stride": y_stride,
            "z_stride": z_stride,
            **random_tokens(rng, 3),
        },
    )


def apply(instruction: Instruction, out: np.ndarray, memory: np.ndarray) -> int:
    """Copy tile by tile; returns the bytes."""
    v, tile = instruction.values, out.shape[1]
    for source, place, _ in tiles(v):
        assert place is not None
        at = v["dram_offset"] + tile * place
        memory[at : at + tile] = out[source]
    return tile * int(v["x_size"] * v["y_size"] * v["z_size"])


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def tiles_reach_memory_as_defined(dut: Any, knob: str) -> None:
    rng = generator("store" + knob)
    await start_clock(dut)
    slave = Slave(dut, rng, Knob(knob, rng))
    program = [random_store(rng, slave.p) for _ in range(50)]
    around = Surroundings(dut, slave, program, rng, knob)
    await reset(dut)
    expected = slave.memory.copy()
    total = sum(apply(instruction, slave.out, expected) for instruction in program)
    await around.run()
    await RisingEdge(dut.clk_i)
    assert answer(dut)["idle"]
    assert int(dut.bus_idle_o.value)
    assert not slave.bursts
    assert slave.strobes == total
    wrong = np.flatnonzero(slave.memory != expected)
    assert not wrong.size, f"{wrong.size} bytes differ, first {int(wrong[0]):#x}"


@cocotb.test()
async def a_halt_drains_announced_bursts_without_strobes(dut: Any) -> None:
    rng = generator("store halt")
    await start_clock(dut)
    for _ in range(8):
        slave = Slave(dut, rng, Knob("back-pressure", rng))
        program = [random_store(rng, slave.p) for _ in range(12)]
        around = Surroundings(dut, slave, program, rng)
        await reset(dut)
        edge = RisingEdge(dut.clk_i)
        await around.cycles(int(rng.integers(20, 200)))
        dut.halt_i.value = 1
        await edge
        slave.step()
        slave.strobed_beats = 0
        for _ in range(2000):
            await edge
            slave.step()
            assert not answer(dut)["token_push"], "token pushed while halted"
            if int(dut.bus_idle_o.value):
                break
        assert int(dut.bus_idle_o.value), "the bus does not drain"
        assert not slave.bursts
        assert slave.flying == 0
        assert slave.strobed_beats <= _BUFFERED, "beats that were not buffered have strobes"
        written = slave.memory != 0
        possible = np.zeros_like(written)
        ones = np.ones_like(slave.out)
        for instruction in program:
            mark = np.zeros_like(slave.memory)
            apply(instruction, ones, mark)
            possible |= mark != 0
        assert possible[written].all(), "a byte was written that no instruction writes"


_ROWS = {
    "sram_base": 0, "dram_offset": 0, "x_size": 1, "y_size": 3, "z_size": 2, "y_stride": 2,
    "z_stride": 8,
}  # fmt: skip
"""Six bursts: the bench sees that the instruction before has retired while some have no answer."""


@cocotb.test()
@cocotb.parametrize(
    case=[
        ({"x_size": 0}, ErrorCode.ILLEGAL_FIELD),
        ({"y_size": 0}, ErrorCode.ILLEGAL_FIELD),
        ({"z_size": 0}, ErrorCode.ILLEGAL_FIELD),
        ({"pop": 8}, ErrorCode.ILLEGAL_FIELD),
        ({"push": 8}, ErrorCode.ILLEGAL_FIELD),
        ({"dram_offset": _SIZE}, ErrorCode.DRAM_RANGE),
        ({"dram_offset": 1}, ErrorCode.DRAM_ALIGNMENT),
        ({"sram_base": 2**18 - 1}, ErrorCode.SRAM_RANGE),
        (_ROWS, ErrorCode.AXI_WRITE),
    ]
)
async def a_bad_field_or_response_is_reported(
    dut: Any, case: tuple[dict[str, int], ErrorCode]
) -> None:
    change, code = case
    rng = generator(f"store errors {sorted(change)} {code}")
    await start_clock(dut)
    slave = Slave(dut, rng, Knob("none", rng))
    program = [random_store(rng, slave.p) for _ in range(4)]
    program[2] = Instruction(Opcode.STORE, {**program[2].values, **change})
    around = Surroundings(dut, slave, program, rng, wrong={2: code})
    await reset(dut)
    slave.fails = lambda: code == ErrorCode.AXI_WRITE and around.retired == 2
    await around.reports(code, 2)
