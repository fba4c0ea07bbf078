# SPDX-License-Identifier: Apache-2.0
"""tw_bursts against the definition: whole beats, at most the longest burst, never over 4 KiB.

Of each burst it tells whether it lies within the memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cocotb
from bench import KNOBS, Knob, generator, parameters, reset, start_clock
from cocotb.triggers import RisingEdge


def bursts(row: int, nbytes: int, width: int, longest: int) -> Iterator[tuple[int, int]]:
    """(address, beats) of one row."""
    at, end = row // width * width, row + nbytes
    while at < end:
        page = 4096 - at % 4096
        beats = min(-(-(end - at) // width), longest, page // width)
        yield at, beats
        at += beats * width


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def rows_are_cut_into_legal_bursts(dut: Any, knob: str) -> None:
    rng = generator("bursts" + knob)
    p = parameters()
    flow = Knob(knob, rng)
    await start_clock(dut)
    dut.start_i.value = dut.ready_i.value = 0
    await reset(dut)
    for _ in range(40):
        base = int(rng.integers(2**38)) if rng.random() < 0.5 else 4096 * 9 - int(rng.integers(200))
        y_step, z_step = (int(n) for n in rng.integers(0, 9000, 2))
        nbytes = int(rng.choice([1, rng.integers(1, 100), rng.integers(1, 9000)]))
        ys, zs = (int(n) for n in rng.integers(1, 4, 2))
        expected = [
            burst
            for z in range(zs)
            for y in range(ys)
            for burst in bursts(
                base + z * z_step + y * y_step, nbytes, p["BeatBytes"], p["BurstBeats"]
            )
        ]
        # Often the memory ends inside the region.
        size = int(rng.choice([0, 2**38 - 4096, base + int(rng.integers(nbytes + 9000))]))
        size = size // 4096 * 4096
        for name, value in (
            ("mem_size_i", size),
            ("base_i", base),
            ("y_step_i", y_step),
            ("z_step_i", z_step),
            ("row_bytes_i", nbytes),
            ("y_size_i", ys),
            ("z_size_i", zs),
            ("start_i", 1),
        ):
            getattr(dut, name).value = value
        await RisingEdge(dut.clk_i)
        dut.start_i.value = 0
        ready, got, cycles = 0, [], 0
        while len(got) < len(expected):
            await RisingEdge(dut.clk_i)
            cycles += 1
            assert cycles < 20 * len(expected) + 100, "bursts stop"
            assert not int(dut.done_o.value), "done before the last burst"
            if int(dut.valid_o.value) and ready:
                got.append((int(dut.addr_o.value), int(dut.len_o.value) + 1))
                end = got[-1][0] + got[-1][1] * p["BeatBytes"]
                assert int(dut.inside_o.value) == (end <= size), (got[-1], size)
                assert int(dut.last_o.value) == (len(got) == len(expected))
            ready = int(not (flow.sink_pauses() or flow.source_pauses()))
            dut.ready_i.value = ready
        assert got == expected
        await RisingEdge(dut.clk_i)
        assert int(dut.done_o.value)
        if knob == "none":
            # Offered two cycles after the start, then one a cycle, but for one empty cycle
            # after a first row of a single burst.
            first = bursts(base, nbytes, p["BeatBytes"], p["BurstBeats"])
            single = ys * zs > 1 and sum(1 for _ in first) == 1
            assert cycles == 1 + len(expected) + single
