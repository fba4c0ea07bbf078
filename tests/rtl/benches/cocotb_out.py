# SPDX-License-Identifier: Apache-2.0
"""tw_out against an array of bytes: parts written, beats read."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, Knob, generator, parameters, start_clock
from cocotb.triggers import RisingEdge


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def reads_return_what_was_written(dut: Any, knob: str) -> None:
    rng = generator("out" + knob)
    flow, p = Knob(knob, rng), parameters()
    tile, part, width = p["TileBytes"], p["PartBytes"], p["BeatBytes"]
    depth = p["TotalBytes"] // tile
    near = min(depth, 20)
    memory = np.zeros((depth, tile), dtype=np.uint8)
    known = np.zeros((depth, tile), dtype=bool)
    await start_clock(dut)
    dut.write_i.value = dut.read_i.value = 0
    await RisingEdge(dut.clk_i)
    # Of the read two edges ago: bytes, and which of them are known.
    due: tuple[np.ndarray, np.ndarray] | None = None
    driven: tuple[np.ndarray, np.ndarray] | None = None
    compared = 0
    for _ in range(3000):
        await RisingEdge(dut.clk_i)
        if due is not None:
            raw = int(dut.read_data_o.value).to_bytes(width, "little")
            actual = np.frombuffer(raw, dtype=np.uint8)
            assert (actual[due[1]] == due[0][due[1]]).all()
            compared += int(due[1].any())
        due, driven = driven if driven is not None else due, None
        read, write = not flow.sink_pauses(), not flow.source_pauses()
        dut.read_i.value, dut.write_i.value = int(read), int(write)
        if read:
            first = int(rng.integers(near))
            dut.read_addr_i.value = first
            if tile >= width:
                slice_ = int(rng.integers(tile // width))
                dut.read_slice_i.value = slice_
                place = slice(slice_ * width, (slice_ + 1) * width)
                driven = memory[first, place].copy(), known[first, place].copy()
            else:
                lane = int(rng.integers(width // tile))
                dut.read_lane_i.value = lane
                data, valid = np.zeros((2, width // tile, tile), dtype=np.uint8)
                count = min(width // tile - lane, depth - first)
                data[lane : lane + count] = memory[first : first + count]
                valid[lane : lane + count] = known[first : first + count]
                driven = data.ravel(), valid.ravel().astype(bool)
        if write:
            at, which = int(rng.integers(near)), int(rng.integers(tile // part))
            data = rng.integers(0, 256, part, dtype=np.uint8)
            dut.write_addr_i.value, dut.write_part_i.value = at, which
            dut.write_data_i.value = int.from_bytes(data.tobytes(), "little")
            memory[at, which * part : (which + 1) * part] = data
            known[at, which * part : (which + 1) * part] = True
    assert compared > 100
