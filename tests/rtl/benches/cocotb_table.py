# SPDX-License-Identifier: Apache-2.0
"""tw_table against an array of bytes: rows are written, results are looked up or pass."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from bench import generator, parameters, start_clock
from cocotb.triggers import ReadOnly, RisingEdge

from tilewright.host.machine.isa import TABLE_ENTRIES, TABLE_ROW_ENTRIES, pack_fields
from tilewright.host.machine.wires import SPAD_WRITE

ROWS = TABLE_ENTRIES // TABLE_ROW_ENTRIES


@cocotb.test()
async def results_are_looked_up_when_asked(dut: Any) -> None:
    rng = generator("table")
    p = parameters()
    table = np.zeros(TABLE_ENTRIES, dtype=np.uint8)
    known = np.zeros(TABLE_ENTRIES, dtype=bool)
    await start_clock(dut)
    dut.write_i.value = dut.use_i.value = 0
    await RisingEdge(dut.clk_i)
    looked_up = 0
    for cycle in range(3000):
        write = cycle < ROWS or rng.random() < 0.1
        row = cycle if cycle < ROWS else int(rng.integers(ROWS))
        data = rng.integers(0, 256, p["BeatBytes"], dtype=np.uint8)
        results = rng.integers(0, 256, p["Lanes"], dtype=np.uint8)
        use = not write and bool(rng.random() < 0.7)  # the port is for one of them at a time
        dut.write_i.value = int(write)
        dut.write_at_i.value = pack_fields(SPAD_WRITE, {"tile": row, "count": 1})
        dut.write_data_i.value = int.from_bytes(data.tobytes(), "little")
        dut.use_i.value = int(use)
        dut.result_i.value = int.from_bytes(results.tobytes(), "little")
        await ReadOnly()
        wanted = table[results] if use and p["Present"] else results
        if not use or not p["Present"] or known[results].all():
            assert dut.result_o.value.to_unsigned() == int.from_bytes(wanted.tobytes(), "little")
            looked_up += use
        if write:
            entries = slice(TABLE_ROW_ENTRIES * row, TABLE_ROW_ENTRIES * (row + 1))
            table[entries], known[entries] = data[:TABLE_ROW_ENTRIES], True
        await RisingEdge(dut.clk_i)
    assert looked_up > 1000
