# SPDX-License-Identifier: Apache-2.0
"""tw_fifo against a deque."""

from __future__ import annotations

from collections import deque
from typing import Any

import cocotb
from bench import KNOBS, Knob, generator, parameters, random_bits, reset, start_clock
from cocotb.triggers import RisingEdge


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def behaves_like_a_queue(dut: Any, knob: str) -> None:
    rng = generator("fifo" + knob)
    p = parameters()
    flow = Knob(knob, rng)
    await start_clock(dut)
    dut.push_i.value = dut.pop_i.value = 0
    await reset(dut)
    model: deque[int] = deque()
    push = pop = data = clear = 0
    full = empty = 0
    for _ in range(1500):
        await RisingEdge(dut.clk_i)
        assert int(dut.count_o.value) == len(model)
        assert int(dut.valid_o.value) == bool(model)
        assert int(dut.full_o.value) == (len(model) == p["Depth"])
        if model:
            assert int(dut.data_o.value) == model[0]
        full += len(model) == p["Depth"]
        empty += not model
        # What this edge did, with the inputs of the past cycle.
        room = len(model) < p["Depth"]
        if pop and model:
            model.popleft()
        if push and room:
            model.append(data)
        if clear:
            model.clear()
        push, pop = int(not flow.source_pauses()), int(not flow.sink_pauses())
        if knob == "none":
            push, pop = int(rng.random() < 0.6), int(rng.random() < 0.6)
        data, clear = random_bits(rng, p["Width"]), int(rng.random() < 0.01)
        dut.push_i.value, dut.pop_i.value, dut.data_i.value = push, pop, data
        dut.rst_i.value = clear
    assert knob == "none" or full or empty, "no corner was met"
