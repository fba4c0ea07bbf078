# SPDX-License-Identifier: Apache-2.0
"""tw_control: life of a run, first error wins, watchdog, soft reset that waits for the bus."""

from __future__ import annotations

from typing import Any

import cocotb
from bench import KNOBS, Knob, generator, pulse, reset, start_clock, until
from cocotb.triggers import ClockCycles, RisingEdge

from tilewright.host.machine.registers import ErrorCode, ErrorUnit, Status

_INPUTS = ("start_i", "soft_reset_i", "finish_i", "progress_i", "watchdog_i", "error_valid_i")


async def prepare(dut: Any) -> None:
    """Out of reset, bus idle."""
    await start_clock(dut)
    for name in (*_INPUTS, "error_code_i", "error_index_i", "state_i"):
        getattr(dut, name).value = 0
    dut.bus_idle_i.value = 1
    await reset(dut)


async def start(dut: Any) -> None:
    """Start; the units are reset first, then fetch starts once."""
    await pulse(dut, "start_i")
    resets = starts = 0
    for _ in range(5):
        await RisingEdge(dut.clk_i)
        resets += int(dut.unit_reset_o.value)
        assert not (starts and int(dut.unit_reset_o.value))
        starts += int(dut.fetch_start_o.value)
    assert (resets, starts) == (1, 1)
    assert status(dut) == Status.BUSY
    assert int(dut.running_o.value)


def status(dut: Any) -> Status:
    """The status outputs."""
    return Status(int(dut.status_o.value))


@cocotb.test()
async def a_run_ends_with_done(dut: Any) -> None:
    generator("control done")
    await prepare(dut)
    for _ in range(3):
        await start(dut)
        dut.finish_i.value = 1
        await RisingEdge(dut.clk_i)
        assert int(dut.event_o.value) == 1
        dut.finish_i.value = 0
        await RisingEdge(dut.clk_i)
        assert status(dut) == Status.DONE
        assert not int(dut.running_o.value)
        assert not int(dut.event_o.value)


@cocotb.test()
async def a_run_begins_when_the_bus_is_idle(dut: Any) -> None:
    generator("control clear")
    await prepare(dut)
    dut.bus_idle_i.value = 0
    dut.start_i.value = 1
    await RisingEdge(dut.clk_i)
    assert int(dut.accept_o.value)
    dut.start_i.value = 0
    for _ in range(20):
        await RisingEdge(dut.clk_i)
        assert status(dut) == Status.BUSY
        assert not int(dut.unit_reset_o.value), "what comes back would be the next run's"
        assert not int(dut.fetch_start_o.value)
    dut.bus_idle_i.value = 1
    await until(dut.clk_i, lambda: int(dut.fetch_start_o.value) == 1, 3, "the fetch")


@cocotb.test()
async def a_start_is_taken_when_idle_alone_and_never_beside_a_soft_reset(dut: Any) -> None:
    generator("control accept")
    await prepare(dut)

    async def offered() -> int:
        await pulse(dut, "start_i")
        return int(dut.accept_o.value)

    dut.soft_reset_i.value = 1
    assert not await offered()
    dut.soft_reset_i.value = 0
    await ClockCycles(dut.clk_i, 3)
    assert status(dut) == Status(0)
    assert await offered()
    for _ in range(6):
        assert not await offered(), "busy"
    dut.error_code_i.value = ErrorCode.ACC_BANK
    await pulse(dut, "error_valid_i")
    for _ in range(4):
        assert not await offered(), "failed"
    dut.bus_idle_i.value = 0
    await pulse(dut, "soft_reset_i")
    for _ in range(4):
        assert not await offered(), "resetting"
    dut.bus_idle_i.value = 1
    await ClockCycles(dut.clk_i, 2)
    assert status(dut) == Status(0)
    assert await offered()


@cocotb.test()
async def a_soft_reset_in_the_cycle_of_the_end_leaves_no_trace(dut: Any) -> None:
    generator("control reset at the end")
    await prepare(dut)
    dut.error_code_i.value = ErrorCode.ACC_BANK
    for name in ("finish_i", "error_valid_i"):
        await start(dut)
        getattr(dut, name).value = dut.soft_reset_i.value = 1
        await RisingEdge(dut.clk_i)
        assert not int(dut.event_o.value), "an interrupt of a run that was given up"
        getattr(dut, name).value = dut.soft_reset_i.value = 0
        for _ in range(3):
            await RisingEdge(dut.clk_i)
            assert not int(dut.event_o.value)
        assert status(dut) == Status(0)


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def the_first_error_is_kept_until_soft_reset(dut: Any, knob: str) -> None:
    rng = generator("control error" + knob)
    flow = Knob(knob, rng)
    await prepare(dut)
    for _ in range(20):
        await start(dut)
        codes = [int(n) for n in rng.integers(1, 12, 5)]
        indices = [int(n) for n in rng.integers(0, 2**32, 5)]
        states = int(rng.integers(2**16))
        valid = int(rng.integers(1, 32))
        dut.error_code_i.value = sum(code << (8 * u) for u, code in enumerate(codes))
        dut.error_index_i.value = sum(index << (32 * u) for u, index in enumerate(indices))
        dut.state_i.value = states
        dut.error_valid_i.value = valid
        dut.bus_idle_i.value = 0
        await RisingEdge(dut.clk_i)
        assert int(dut.event_o.value) == 2
        # A later error changes nothing.
        dut.error_code_i.value = 0x0101010101
        dut.state_i.value = 0
        await RisingEdge(dut.clk_i)
        await RisingEdge(dut.clk_i)
        first = (valid & -valid).bit_length() - 1
        for _ in range(int(rng.integers(1, 10)) if knob != "none" else 1):
            assert int(dut.halt_o.value)
            assert not int(dut.event_o.value)
            assert status(dut) == Status.BUSY | Status.ERROR, "still draining"
            await RisingEdge(dut.clk_i)
        dut.error_valid_i.value = 0
        dut.bus_idle_i.value = 1
        await RisingEdge(dut.clk_i)
        await RisingEdge(dut.clk_i)
        assert status(dut) == Status.ERROR
        assert int(dut.error_o.value) == codes[first] | first << 8
        assert int(dut.error_insn_o.value) == indices[first]
        assert int(dut.wait_state_o.value) == states
        # A start without soft reset does nothing.
        await pulse(dut, "start_i")
        await RisingEdge(dut.clk_i)
        assert status(dut) == Status.ERROR
        dut.bus_idle_i.value = 0
        await pulse(dut, "soft_reset_i")
        while flow.source_pauses() or flow.sink_pauses():
            await RisingEdge(dut.clk_i)
            assert not int(dut.unit_reset_o.value), "reset before the bus has drained"
        dut.bus_idle_i.value = 1
        await until(dut.clk_i, lambda: int(dut.unit_reset_o.value) == 1, 3, "unit reset")
        await RisingEdge(dut.clk_i)
        assert status(dut) == Status(0)
        assert not int(dut.halt_o.value)
        assert not int(dut.error_o.value)


@cocotb.test()
async def the_watchdog_counts_cycles_without_progress(dut: Any) -> None:
    rng = generator("control watchdog")
    await prepare(dut)
    for _ in range(10):
        limit = int(rng.integers(5, 60))
        dut.watchdog_i.value = 0
        await start(dut)
        dut.progress_i.value = 1
        await RisingEdge(dut.clk_i)
        dut.watchdog_i.value = limit
        states = int(rng.integers(2**16))
        dut.state_i.value = states
        for _ in range(5):
            dut.progress_i.value = 0
            for _ in range(limit - 2):
                await RisingEdge(dut.clk_i)
                assert status(dut) == Status.BUSY, "fired early"
            dut.progress_i.value = 1
            await RisingEdge(dut.clk_i)
        dut.progress_i.value = 0
        cycles = await until(dut.clk_i, lambda: status(dut) != Status.BUSY, limit + 5, "watchdog")
        assert limit <= cycles + 1 <= limit + 3
        assert int(dut.error_o.value) == ErrorCode.WATCHDOG | ErrorUnit.WATCHDOG << 8
        assert int(dut.wait_state_o.value) == states
        await pulse(dut, "soft_reset_i")
        await RisingEdge(dut.clk_i)
        await RisingEdge(dut.clk_i)
        assert status(dut) == Status(0)
    dut.watchdog_i.value = 0
    await start(dut)
    await ClockCycles(dut.clk_i, 300)
    assert status(dut) == Status.BUSY, "0 means never"
