# SPDX-License-Identifier: Apache-2.0
"""tw_read between two random requesters and a behavioural AXI read slave."""

from __future__ import annotations

from collections import deque
from typing import Any

import cocotb
from bench import KNOBS, Knob, generator, parameters, random_bits, reset, start_clock
from cocotb.triggers import ClockCycles, RisingEdge

_BASE = 0x7_0000_0000
_SIZE = 1 << 20


def _drive(dut: Any, pending: list[tuple[int, int] | None], index: int = 0) -> None:
    """Offer the requests that are there; ``index`` is the instruction of request 1."""
    address = length = valid = 0
    for who, request in enumerate(pending):
        if request is not None:
            valid |= 1 << who
            address |= request[0] << (40 * who)
            length |= request[1] << (8 * who)
    dut.req_valid_i.value, dut.req_addr_i.value, dut.req_len_i.value = valid, address, length
    dut.load_index_i.value = index


async def prepare(dut: Any) -> None:
    """Clock, reset, quiet inputs."""
    await start_clock(dut)
    for name in ("halt_i", "req_valid_i", "req_addr_i", "req_len_i", "arready_i", "rvalid_i"):
        getattr(dut, name).value = 0
    dut.rresp_i.value = dut.rlast_i.value = dut.load_index_i.value = 0
    dut.mem_base_i.value, dut.load_inside_i.value = _BASE, 1
    await reset(dut)


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def data_returns_in_order_to_who_asked(dut: Any, knob: str) -> None:
    rng = generator("read" + knob)
    flow, p = Knob(knob, rng), parameters()
    width, limit = p["BeatBytes"], p["Outstanding"]
    await prepare(dut)
    pending: list[tuple[int, int] | None] = [None, None]
    accepted: deque[tuple[int, int, int, int]] = deque()  # not yet on the bus
    flying: deque[tuple[int, int, int]] = deque()  # owner, beats left, instruction
    index = 0
    # Owner, data, whether it is the last, instruction, error: at the pins, a cycle later inside.
    offered: tuple[int, int, bool, int, int] | None = None
    held: tuple[int, int, bool, int, int] | None = None
    arready = done = 0
    most = 0
    while done < 300:
        await RisingEdge(dut.clk_i)
        ready = int(dut.req_ready_o.value)
        assert ready in (0, 1, 2)
        assert not int(dut.range_err_o.value)
        # Data of the cycle before the past one.
        seen = int(dut.beat_valid_o.value)
        if held is not None:
            owner, data, last, asked, errors = held
            assert seen == 1 << owner, f"beat for {owner} goes to {seen:#b}"
            assert int(dut.beat_data_o.value) == data
            assert int(dut.resp_err_o.value) == (errors << owner)
            assert not int(dut.last_err_o.value)
            assert int(dut.load_index_o.value) == asked, "the instruction of another burst"
            done += last
        else:
            assert seen == 0
        if int(dut.arvalid_o.value) and arready:
            owner, address, length, asked = accepted.popleft()
            assert int(dut.araddr_o.value) == _BASE + address
            assert int(dut.arlen_o.value) == length
            assert int(dut.burst_o.value)
            flying.append((owner, length + 1, asked))
        else:
            assert not int(dut.burst_o.value)
        for who in (0, 1):
            if ready >> who & 1:
                request = pending[who]
                assert request is not None
                assert who == 0 or pending[0] is None, "load served before fetch"
                accepted.append((who, *request, index))
                pending[who] = None
        most = max(most, len(accepted) + len(flying))
        assert len(accepted) + len(flying) <= limit, "too many bursts in flight"
        for who in (0, 1):
            if pending[who] is None and rng.random() < (0.2, 0.7)[who]:
                length = int(rng.integers(8))
                beats = _SIZE // width - length
                pending[who] = (int(rng.integers(beats)) * width, length)
        index = int(rng.integers(2**32))
        _drive(dut, pending, index)
        arready = int(not flow.sink_pauses())
        dut.arready_i.value = arready
        held, offered = offered, None
        if flying and not flow.source_pauses():
            owner, left, asked = flying.popleft()
            errors = int(rng.random() < 0.05)
            offered = (owner, random_bits(rng, 8 * width), left == 1, asked, errors)
            dut.rdata_i.value, dut.rlast_i.value = offered[1], int(left == 1)
            dut.rresp_i.value = errors * int(rng.choice([2, 3]))
            if left > 1:
                flying.appendleft((owner, left - 1, asked))
        dut.rvalid_i.value = int(offered is not None)
    assert most == limit or knob == "none" or limit > 4, f"at most {most} in flight"


@cocotb.test()
async def a_burst_of_another_length_is_an_error_and_ends_with_rlast(dut: Any) -> None:
    rng = generator("read last")
    await prepare(dut)
    dut.arready_i.value = 1
    for _ in range(60):
        who, asked, sent = int(rng.integers(2)), int(rng.integers(6)), int(rng.integers(8))
        pending: list[tuple[int, int] | None] = [None, None]
        pending[who] = (0, asked)
        _drive(dut, pending, 77)
        await RisingEdge(dut.clk_i)
        _drive(dut, [None, None])
        for _ in range(3):
            await RisingEdge(dut.clk_i)
            assert not int(dut.idle_o.value)
        dut.rvalid_i.value, dut.rlast_i.value = 1, int(sent == 0)
        await RisingEdge(dut.clk_i)
        for beat in range(sent + 1):
            dut.rvalid_i.value, dut.rlast_i.value = int(beat < sent), int(beat + 1 == sent)
            await RisingEdge(dut.clk_i)
            # The last beat that was asked for tells; those after it are nobody's.
            wrong = beat <= asked and (beat == sent) != (beat == asked)
            assert int(dut.last_err_o.value) == (wrong << who), (asked, sent, beat)
            assert int(dut.beat_valid_o.value) == ((beat <= asked) << who)
            assert int(dut.load_index_o.value) == 77
            assert not int(dut.idle_o.value)
        await ClockCycles(dut.clk_i, 2)
        assert int(dut.idle_o.value), "a soft reset waits for it"
        # What nobody asked for changes nothing.
        dut.rvalid_i.value = dut.rlast_i.value = 1
        await RisingEdge(dut.clk_i)
        dut.rvalid_i.value = dut.rlast_i.value = 0
        await RisingEdge(dut.clk_i)
        assert not int(dut.beat_valid_o.value)
        assert not int(dut.last_err_o.value)
        await RisingEdge(dut.clk_i)
        assert int(dut.idle_o.value)


@cocotb.test()
async def a_request_of_load_outside_the_memory_is_taken_and_dropped(dut: Any) -> None:
    generator("read range")
    await prepare(dut)
    dut.load_inside_i.value = 0
    _drive(dut, [None, (64, 1)])
    for _ in range(2):
        await RisingEdge(dut.clk_i)
        assert int(dut.range_err_o.value)
        assert int(dut.req_ready_o.value) == 2
        assert not int(dut.arvalid_o.value)
    # Of fetch it says nothing.
    _drive(dut, [(64, 1), None])
    await ClockCycles(dut.clk_i, 2)
    assert not int(dut.range_err_o.value)
    assert int(dut.arvalid_o.value)


@cocotb.test()
async def a_halt_takes_no_request(dut: Any) -> None:
    generator("read halt")
    await prepare(dut)
    dut.halt_i.value = 1
    _drive(dut, [(0, 0), (0, 0)])
    for _ in range(20):
        await RisingEdge(dut.clk_i)
        assert not int(dut.req_ready_o.value)
        assert not int(dut.arvalid_o.value)
    assert int(dut.idle_o.value)


@cocotb.test()
async def a_reset_of_one_cycle_drops_what_is_in_flight(dut: Any) -> None:
    rng = generator("read reset")
    await prepare(dut)
    dut.arready_i.value = 1
    for _ in range(20):
        who, beats = int(rng.integers(2)), int(rng.integers(3))
        _drive(dut, [None, (0, 3)] if who else [(0, 3), None])
        await RisingEdge(dut.clk_i)
        _drive(dut, [None, None])
        await ClockCycles(dut.clk_i, 2)
        dut.rvalid_i.value, dut.rlast_i.value = int(beats > 0), 0
        await ClockCycles(dut.clk_i, max(beats, 1))
        dut.rvalid_i.value = dut.rst_i.value = 1
        await RisingEdge(dut.clk_i)
        dut.rvalid_i.value = dut.rst_i.value = 0
        await RisingEdge(dut.clk_i)
        assert not int(dut.beat_valid_o.value), "a beat of before the reset"
        assert (int(dut.arvalid_o.value), int(dut.idle_o.value)) == (0, 1)
