# SPDX-License-Identifier: Apache-2.0
"""tw_padding against a walk over the padded region."""

from __future__ import annotations

from typing import Any

import cocotb
from bench import KNOBS, Knob, generator, reset, start_clock
from cocotb.triggers import RisingEdge


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def writes_every_padding_tile_once(dut: Any, knob: str) -> None:
    rng = generator("padding" + knob)
    flow = Knob(knob, rng)
    await start_clock(dut)
    dut.start_i.value = dut.ready_i.value = 0
    await reset(dut)
    for _ in range(50):
        left, right, top, bottom = (int(n) for n in rng.integers(0, 4, 4))
        x, y = (int(n) for n in rng.integers(0, 5, 2))
        planes = int(rng.integers(1, 4))
        width, height = left + x + right, top + y + bottom
        if not width or not height:
            continue  # an empty region is refused before the walk
        base = int(rng.integers(2**18))
        expected = [
            base + (plane * height + row) * width + column
            for plane in range(planes)
            for row in range(height)
            for column in range(width)
            if not (top <= row < top + y and left <= column < left + x)
        ]
        for name, value in (
            ("base_i", base),
            ("width_i", width),
            ("height_i", height),
            ("x_size_i", x),
            ("y_size_i", y),
            ("z_size_i", planes),
            ("pad_left_i", left),
            ("pad_right_i", right),
            ("pad_top_i", top),
            ("start_i", 1),
        ):
            getattr(dut, name).value = value
        await RisingEdge(dut.clk_i)
        dut.start_i.value = 0
        ready, got = 0, []
        for _ in range(4000):
            await RisingEdge(dut.clk_i)
            if int(dut.valid_o.value) and ready:
                got.append(int(dut.addr_o.value))
            elif int(dut.done_o.value):
                break
            ready = int(not (flow.sink_pauses() or flow.source_pauses()))
            dut.ready_i.value = ready
        assert int(dut.done_o.value)
        assert got == expected
