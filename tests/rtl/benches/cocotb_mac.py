# SPDX-License-Identifier: Apache-2.0
"""tw_mac: every style at every latency against NumPy, corners of int8 included."""

from __future__ import annotations

from collections import deque
from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, Knob, generator, parameters, start_clock
from cocotb.triggers import RisingEdge
from units import pack, unpack

STYLES = (
    "plain",
    "packed",
    "plain, 1 column in LUTs",
    "packed, 1 column in LUTs",
    "packed, 2 columns in LUTs",
    "all columns in LUTs",
)
"""As in bench_mac.sv."""

_CORNERS = (-128, -127, -1, 0, 1, 127)
_RANDOM = 600


def _operands(
    rng: np.random.Generator, shape: tuple[int, int, int], corners: list[tuple[int, int, int]]
) -> tuple[np.ndarray, np.ndarray]:
    """The next corner in all positions, or corners mixed at random, or any int8 values."""
    batch, block_in, block_out = shape
    inp = rng.integers(-128, 128, (batch, block_in))
    wgt = rng.integers(-128, 128, (block_out, block_in))
    kind = rng.random()
    if corners and kind < 0.7:
        a, even, odd = corners.pop()
        inp[:] = a
        wgt[0::2], wgt[1::2] = even, odd
    elif kind < 0.85:
        inp, wgt = rng.choice(_CORNERS, inp.shape), rng.choice(_CORNERS, wgt.shape)
    return inp, wgt


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def every_style_is_a_dot_product_at_every_latency(dut: Any, knob: str) -> None:
    rng = generator("mac" + knob)
    flow, p = Knob(knob, rng), parameters()
    await start_clock(dut)
    dut.valid_i.value = 0
    latencies = p["Pipeline"]
    shape = (latencies, len(STYLES), p["Batch"], p["BlockOut"])
    # [0] is due after the next edge at latency 1, [n - 1] at latency n; None: no product.
    line: deque[np.ndarray | None] = deque([None] * (latencies + 1), maxlen=latencies + 1)
    corners = [(a, w0, w1) for a in _CORNERS for w0 in _CORNERS for w1 in _CORNERS]
    seen = [0] * latencies
    inp, wgt = _operands(rng, (p["Batch"], p["BlockIn"], p["BlockOut"]), corners)
    while corners or min(seen) < _RANDOM:
        valid = not (flow.source_pauses() or flow.sink_pauses())
        if valid:  # the operands stay otherwise, like the outputs of a scratchpad
            inp, wgt = _operands(rng, (p["Batch"], p["BlockIn"], p["BlockOut"]), corners)
        dut.valid_i.value = int(valid)
        dut.inp_i.value, dut.wgt_i.value = pack(inp, 8), pack(wgt, 8)
        line.appendleft(inp @ wgt.T if valid else None)
        await RisingEdge(dut.clk_i)
        # The edge took these operands; sums show one edge later for each stage.
        sums = unpack(int(dut.sums_o.value), 32, shape)
        for latency in range(1, latencies + 1):
            expected = line[latency]
            if expected is None:
                continue
            seen[latency - 1] += 1
            for style, got in zip(STYLES, sums[latency - 1], strict=True):
                assert (got == expected).all(), f"{style}, latency {latency}"
