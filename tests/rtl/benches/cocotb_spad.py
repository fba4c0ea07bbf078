# SPDX-License-Identifier: Apache-2.0
"""tw_spad against an array of bytes: beats, runs of narrow tiles, 4-bit numbers, padding, reads."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, Knob, generator, parameters, start_clock
from cocotb.triggers import RisingEdge

from tilewright.host.machine.isa import pack_fields
from tilewright.host.machine.wires import SPAD_WRITE


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def reads_return_what_was_written(dut: Any, knob: str) -> None:
    rng = generator("spad" + knob)
    flow = Knob(knob, rng)
    p = parameters()
    tile, width, read_bytes = p["TileBytes"], p["BeatBytes"], p["ReadBytes"]
    memory = np.zeros(p["TotalBytes"], dtype=np.uint8)
    known = np.zeros(p["TotalBytes"], dtype=bool)
    tiles = p["TotalBytes"] // tile
    near = min(tiles, 24)  # few tiles, so that reads meet writes
    size = p["DiagBytes"]
    blocks = tile // size**2 if size else 1
    await start_clock(dut)
    dut.write_i.value = dut.read_i.value = 0
    await RisingEdge(dut.clk_i)
    wanted: tuple[np.ndarray, np.ndarray] | None = None
    compared = 0
    for _ in range(3000):
        write, read = not flow.source_pauses(), not flow.sink_pauses()
        row = int(rng.integers(near * tile // read_bytes))
        if read:
            place = slice(row * read_bytes, (row + 1) * read_bytes)
            wanted = memory[place].copy(), known[place].copy()
        dut.read_i.value, dut.read_addr_i.value = int(read), row
        dut.write_i.value = int(write)
        if write:
            data = rng.integers(0, 256, width, dtype=np.uint8)
            diagonal = bool(p["DiagBytes"] and rng.random() < 0.4)
            where = {"diagonal": int(diagonal)}
            if diagonal:
                first, phase = int(rng.integers(near)), int(rng.integers(16)) % blocks
                where["phase"] = phase
                start, count = first * tile, tile
                if size < width:
                    lane = int(rng.integers(width // size))
                    where |= {"lane": lane, "count": 1}
                    low, part = 0, data[size * lane : size * (lane + 1)]
                else:
                    slice_ = int(rng.integers(size // width))
                    where["slice"] = slice_
                    low, part = slice_ * width, data
                # Every row of a block that the beat has a byte for, in all blocks.
                square = memory[start : start + count].reshape(-1, p["RowBytes"]).copy()
                seen = known[start : start + count].reshape(-1, p["RowBytes"])
                below = size if square.shape[0] > size else 0
                beside = size - below
                for at, value in enumerate(part, start=low):
                    square[at::size] = 0
                    seen[at::size] = True
                    square[phase * below + at, phase * beside + at] = value
                chosen = square.reshape(-1)
            elif p["Int4"] and rng.random() < 0.4:
                first, slice_ = int(rng.integers(near)), int(rng.integers(tile // (2 * width)))
                scale = int(rng.integers(16)) if p["Int4"] > 1 else 0
                where |= {"int4": 1, "slice": slice_, "scale": scale}
                start, count = first * tile + slice_ * 2 * width, 2 * width
                nibbles = np.stack([data & 15, data >> 4], axis=-1).reshape(-1)
                chosen = (((nibbles ^ 8).astype(np.int16) - 8) * (scale + 1)) & 0xFF
            elif tile >= width:
                pad = bool(rng.random() < 0.2) and tile == read_bytes
                first, slice_ = int(rng.integers(near)), int(rng.integers(tile // width))
                where |= {"slice": slice_, "pad": int(pad)}
                start, count = (
                    (first * tile, tile) if pad else (first * tile + slice_ * width, width)
                )
                chosen = np.tile(data, count // width)
            else:
                lane = int(rng.integers(width // tile))
                number = int(rng.integers(1, width // tile - lane + 1))
                first = int(rng.integers(near - number + 1))
                where |= {"lane": lane, "count": number}
                start, count = first * tile, number * tile
                chosen = data[lane * tile : lane * tile + count]
            dut.write_at_i.value = pack_fields(SPAD_WRITE, {**where, "tile": first})
            dut.write_data_i.value = int.from_bytes(data.tobytes(), "little")
            memory[start : start + count] = chosen
            if not diagonal:
                known[start : start + count] = True
        await RisingEdge(dut.clk_i)
        if wanted is None:
            continue
        # The read of this edge shows after it: look at the next one with the port held.
        dut.write_i.value = dut.read_i.value = 0
        await RisingEdge(dut.clk_i)
        raw = int(dut.read_data_o.value).to_bytes(read_bytes, "little")
        actual = np.frombuffer(raw, dtype=np.uint8)
        data_before, valid = wanted
        assert (actual[valid] == data_before[valid]).all(), f"row {row}"
        compared += int(valid.all())
    assert compared > 50
