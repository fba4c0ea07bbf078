# SPDX-License-Identifier: Apache-2.0
"""tw_tokens against a table of integers."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, Knob, generator, parameters, reset, start_clock
from cocotb.triggers import RisingEdge


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def counts_pushes_minus_pops_and_reports_overflow(dut: Any, knob: str) -> None:
    rng = generator("tokens" + knob)
    flow = Knob(knob, rng)
    limit = 2 ** parameters()["CountBits"] - 1
    await start_clock(dut)
    dut.push_i.value = dut.pop_i.value = 0
    await reset(dut)
    count = np.zeros((4, 4), dtype=int)  # [producer, consumer]
    push, pop = np.zeros((4, 4), dtype=bool), np.zeros((4, 4), dtype=bool)
    overflows = 0
    for _ in range(1500):
        await RisingEdge(dut.clk_i)
        available = int(dut.available_o.value)
        overflow = int(dut.overflow_o.value)
        lost = push & ~pop & (count == limit)
        assert not overflow
        for producer in range(4):
            for consumer in range(4):
                bit = available >> (4 * consumer + producer) & 1
                assert bit == (count[producer, consumer] > 0)
        if lost.any():
            # The accelerator halts here; start again.
            overflows += 1
            dut.push_i.value = dut.pop_i.value = 0
            await RisingEdge(dut.clk_i)
            overflow = int(dut.overflow_o.value)
            assert overflow == sum(int(lost[p].any()) << p for p in range(4)), f"{overflow:#x}"
            await reset(dut)
            count[:] = 0
            push[:] = pop[:] = False
            continue
        count += push.astype(int) - pop.astype(int)
        push = rng.random((4, 4)) < (0.0 if flow.source_pauses() else 0.3)
        pop = (rng.random((4, 4)) < (0.0 if flow.sink_pauses() else 0.25)) & (count > 0)
        dut.push_i.value = sum(int(push[p, c]) << (4 * p + c) for p in range(4) for c in range(4))
        dut.pop_i.value = sum(int(pop[p, c]) << (4 * c + p) for p in range(4) for c in range(4))
    assert overflows or limit > 3 or knob == "idle", "the corner was not met"
