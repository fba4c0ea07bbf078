# SPDX-License-Identifier: Apache-2.0
"""tw_fetch with a behavioural read engine and queues that fill up."""

from __future__ import annotations

from collections import deque
from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, Knob, generator, parameters, pulse, random_bits, reset, start_clock
from cocotb.triggers import RisingEdge
from units import unpacked

from tilewright.host.machine.registers import ErrorCode
from tilewright.host.machine.wires import ENTRY, ERROR

_BASE = 0x5000


class Engine:
    """Answers read requests in order."""

    def __init__(self, dut: Any, stream: bytes, flow: Knob, rng: np.random.Generator) -> None:
        self._dut = dut
        self._stream = stream
        self._flow = flow
        self._rng = rng
        self._beats: deque[int] = deque()
        self._ready = 0
        self.pending = 0
        """Beats that were asked for and did not come."""
        self._arriving: int | None = None
        dut.beat_valid_i.value = dut.req_ready_i.value = 0

    def _check_bus_index(self) -> None:
        """Should the beat that arrives be wrong, its first instruction is to blame."""
        if self._arriving is not None:
            assert int(self._dut.bus_index_o.value) == self._arriving

    def step(self) -> None:
        """One clock edge."""
        dut, width = self._dut, parameters()["BeatBytes"]
        self._check_bus_index()
        if int(dut.req_valid_o.value) and self._ready:
            start, beats = int(dut.req_addr_o.value) - _BASE, int(dut.req_len_o.value) + 1
            assert 0 <= start < len(self._stream), "request outside the program"
            assert start % width == 0
            assert beats <= parameters()["BurstBeats"]
            self._beats.extend(start + i * width for i in range(beats))
        offer = bool(self._beats) and not self._flow.source_pauses()
        dut.beat_valid_i.value = int(offer)
        self._arriving = None
        if offer:
            start = self._beats.popleft()
            self._arriving = start // 32
            beat = self._stream[start : start + width].ljust(width, b"\0")
            dut.beat_data_i.value = int.from_bytes(beat, "little")
        self.pending = len(self._beats)
        self._ready = int(not self._flow.sink_pauses())
        dut.req_ready_i.value = self._ready


async def begin(dut: Any, count: int) -> None:
    """Reset and start."""
    dut.halt_i.value = dut.start_i.value = dut.full_i.value = dut.all_idle_i.value = 0
    dut.beat_valid_i.value = dut.req_ready_i.value = dut.refuse_i.value = 0
    dut.insn_base_i.value, dut.insn_count_i.value = _BASE, count
    await reset(dut)
    await pulse(dut, "start_i")


def words(rng: np.random.Generator, opcodes: list[int]) -> list[int]:
    """Instructions with random bits above the opcode."""
    return [random_bits(rng, 252) << 4 | opcode for opcode in opcodes]


def stream_of(instructions: list[int]) -> bytes:
    """As they lie in memory."""
    return b"".join(word.to_bytes(32, "little") for word in instructions)


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def every_instruction_goes_to_its_queue_in_order(dut: Any, knob: str) -> None:
    rng = generator("fetch" + knob)
    flow = Knob(knob, rng)
    await start_clock(dut)
    for _ in range(4):
        program = words(rng, [*rng.integers(1, 5, int(rng.integers(1, 120))).tolist(), 5])
        await begin(dut, len(program))
        engine = Engine(dut, stream_of(program), flow, rng)
        full = idle = was_idle = got = stalled = 0
        finished = False
        for _ in range(40_000):
            await RisingEdge(dut.clk_i)
            push = int(dut.push_o.value)
            assert not unpacked(dut.error_o, ERROR)["valid"]
            assert push.bit_count() <= 1
            assert not push & full, "pushed into a full queue"
            if push:
                entry = unpacked(dut.entry_o, ENTRY)
                assert entry == {"insn": program[got], "index": got}
                assert push == 1 << ((program[got] & 15) - 1)
                got += 1
            if int(dut.finish_o.value):
                assert was_idle, "in the cycle before, in which nothing was dispatched"
                assert got == len(program) - 1
                finished = True
                break
            engine.step()
            if knob == "back-pressure":
                # Now and then all queues stay full until the prefetch has to stop.
                stalled = stalled - 1 if stalled else 400 * int(rng.random() < 0.01)
                full = 15 if stalled else int(rng.integers(16))
            was_idle, idle = idle and not push, int(rng.random() < 0.3)
            dut.full_i.value, dut.all_idle_i.value = full, idle
        assert finished, f"{got} of {len(program)} dispatched"
        for _ in range(5):
            await RisingEdge(dut.clk_i)
            assert not int(dut.finish_o.value)
            assert not int(dut.req_valid_o.value)


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def what_follows_finish_is_not_asked_for_once_it_is_next(dut: Any, knob: str) -> None:
    """Its data may still come, but nothing may be in flight when it retires."""
    rng = generator("fetch tail" + knob)
    flow = Knob(knob, rng)
    await start_clock(dut)
    for body in (0, 1, 3, 30, 60):
        opcodes = [*rng.integers(1, 5, body).tolist(), 5]
        tail = rng.integers(0, 16, int(rng.integers(1, 200))).tolist()
        program = words(rng, opcodes + tail)
        await begin(dut, len(program))
        engine = Engine(dut, stream_of(program), flow, rng)
        got = 0
        for _ in range(20_000):
            await RisingEdge(dut.clk_i)
            assert not unpacked(dut.error_o, ERROR)["valid"]
            got += int(dut.push_o.value).bit_count()
            if got == body and unpacked(dut.entry_o, ENTRY)["insn"] == program[body]:
                assert not int(dut.req_valid_o.value), "asks for what is behind FINISH"
            if int(dut.finish_o.value):
                break
            engine.step()
            idle = not engine.pending and not int(dut.beat_valid_i.value)
            dut.all_idle_i.value = int(idle and rng.random() < 0.5)
        assert int(dut.finish_o.value), f"{got} of {body} dispatched"
        assert got == body
        for _ in range(5):
            await RisingEdge(dut.clk_i)
            assert not int(dut.req_valid_o.value)
            assert not int(dut.push_o.value)
            assert not unpacked(dut.error_o, ERROR)["valid"]


@cocotb.test()
async def settings_that_are_refused_run_nothing(dut: Any) -> None:
    rng = generator("fetch refuse")
    await start_clock(dut)
    program = words(rng, [1, 5])
    await begin(dut, len(program))
    dut.refuse_i.value = 1
    for _ in range(2):
        await RisingEdge(dut.clk_i)
        assert not int(dut.req_valid_o.value)
    error = unpacked(dut.error_o, ERROR)
    assert error == {"valid": 1, "code": ErrorCode.SETTINGS, "index": 0}


@cocotb.test()
@cocotb.parametrize(
    case=[
        ([1, 2, 0, 5], ErrorCode.ILLEGAL_OPCODE, 2),
        ([6, 5], ErrorCode.ILLEGAL_OPCODE, 0),
        ([3, 15, 5], ErrorCode.ILLEGAL_OPCODE, 1),
        ([4, 4, 4], ErrorCode.NO_FINISH, 3),
    ]
)
async def a_bad_stream_is_an_error(dut: Any, case: tuple[list[int], ErrorCode, int]) -> None:
    opcodes, code, index = case
    rng = generator(f"fetch errors {opcodes}")
    await start_clock(dut)
    program = words(rng, opcodes)
    await begin(dut, len(program))
    engine = Engine(dut, stream_of(program), Knob("none", rng), rng)
    for _ in range(300):
        await RisingEdge(dut.clk_i)
        assert not int(dut.finish_o.value)
        if (error := unpacked(dut.error_o, ERROR))["valid"]:
            assert (error["code"], error["index"]) == (code, index)
            return
        engine.step()
    raise AssertionError("no error")
