# SPDX-License-Identifier: Apache-2.0
"""tw_mac: the plain and the packed array against NumPy, corners of int8 included."""

from __future__ import annotations

from collections import deque
from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, Knob, generator, parameters, start_clock
from cocotb.triggers import RisingEdge
from units import pack, unpack

_CORNERS = (-128, -127, -1, 0, 1, 127)


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def both_styles_are_dot_products(dut: Any, knob: str) -> None:
    rng = generator("mac" + knob)
    flow, p = Knob(knob, rng), parameters()
    await start_clock(dut)
    dut.valid_i.value = 0
    shape = (p["Batch"], p["BlockOut"])
    line: deque[np.ndarray | None] = deque([None] * p["Pipeline"])
    corners = [(a, w0, w1) for a in _CORNERS for w0 in _CORNERS for w1 in _CORNERS]
    seen = 0
    while corners or seen < 600:
        inp = rng.integers(-128, 128, (p["Batch"], p["BlockIn"]))
        wgt = rng.integers(-128, 128, (p["BlockOut"], p["BlockIn"]))
        valid = not (flow.source_pauses() or flow.sink_pauses())
        if valid and corners and rng.random() < 0.7:
            a, even, odd = corners.pop()
            inp[:] = a
            wgt[0::2], wgt[1::2] = even, odd
        dut.valid_i.value = int(valid)
        dut.inp_i.value, dut.wgt_i.value = pack(inp, 8), pack(wgt, 8)
        line.append(inp @ wgt.T if valid else None)
        await RisingEdge(dut.clk_i)
        # The edge took these operands; sums show Pipeline edges after their own.
        expected = line.popleft()
        if expected is None:
            continue
        seen += 1
        plain = unpack(int(dut.plain_o.value), 32, shape)
        packed = unpack(int(dut.packed_o.value), 32, shape)
        assert (plain == expected).all(), "plain"
        assert (packed == expected).all(), "packed"
