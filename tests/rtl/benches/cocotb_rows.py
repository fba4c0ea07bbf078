# SPDX-License-Identifier: Apache-2.0
"""tw_rows against nested loops."""

from __future__ import annotations

from typing import Any

import cocotb
from bench import KNOBS, Knob, generator, parameters, random_bits, start_clock
from cocotb.triggers import RisingEdge


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def walks_planes_of_rows(dut: Any, knob: str) -> None:
    rng = generator("rows" + knob)
    flow = Knob(knob, rng)
    bits = parameters()["AddrBits"]
    await start_clock(dut)
    dut.next_i.value = 0
    for _ in range(40):
        base, y_step, z_step = (random_bits(rng, bits) for _ in range(3))
        ys, zs = (int(n) for n in rng.integers(1, 6, 2))
        rows = [(base + z * z_step + y * y_step) % 2**bits for z in range(zs) for y in range(ys)]
        dut.base_i.value, dut.y_step_i.value, dut.z_step_i.value = base, y_step, z_step
        dut.y_size_i.value = dut.y_again_i.value = ys
        dut.z_size_i.value, dut.start_i.value = zs, 1
        await RisingEdge(dut.clk_i)
        dut.start_i.value = 0
        step = index = 0
        while index < len(rows):
            await RisingEdge(dut.clk_i)
            assert int(dut.addr_o.value) == rows[index]
            assert int(dut.last_y_o.value) == (index % ys == ys - 1)
            assert int(dut.last_o.value) == (index == len(rows) - 1)
            if index + 1 < len(rows):
                assert int(dut.after_o.value) == rows[index + 1]
            index += step
            step = int(not (flow.sink_pauses() or flow.source_pauses()))
            dut.next_i.value = step
        dut.next_i.value = 0
