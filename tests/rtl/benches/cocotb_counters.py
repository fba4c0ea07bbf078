# SPDX-License-Identifier: Apache-2.0
"""tw_counters against a dictionary: one state a unit and cycle, sums of everything else."""

from __future__ import annotations

from typing import Any

import cocotb
from bench import KNOBS, Knob, generator, parameters, pulse, start_clock
from cocotb.triggers import ClockCycles, RisingEdge

from tilewright.host.machine.registers import COUNTERS, UNIT_NAMES, WaitState

_STATE = {
    WaitState.IDLE: "idle",
    WaitState.BUSY: "busy",
    WaitState.MEMORY: "memory",
    **{WaitState[f"TOKEN_{unit.upper()}"]: f"token_{unit}" for unit in UNIT_NAMES},
}
_NAMES = [name for name, _ in COUNTERS]


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def every_cycle_is_counted_once(dut: Any, knob: str) -> None:
    rng = generator("counters" + knob)
    flow, width = Knob(knob, rng), parameters()["BeatBytes"]
    # A narrow build wraps in this test; the value read is zero-extended from the same width.
    modulus = 1 << parameters()["CountBits"]
    await start_clock(dut)
    for name in ("running_i", "snapshot_i", "state_i", "retire_i", "write_bytes_i", "index_i"):
        getattr(dut, name).value = 0
    await pulse(dut, "clear_i")
    count = dict.fromkeys(_NAMES, 0)
    for _ in range(1200):
        running = not (flow.source_pauses() or flow.sink_pauses())
        snapshot, clear = rng.random() < 0.05, rng.random() < 0.005
        states = []
        for unit in UNIT_NAMES:
            own = WaitState[f"TOKEN_{unit.upper()}"]
            states.append(WaitState(int(rng.choice([s for s in WaitState if s != own]))))
        flags = {
            n: int(rng.integers(2))
            for n in ("mac", "vector", "read_beat", "read_burst", "write_burst")
        }
        retire, written = int(rng.integers(16)), int(rng.integers(width + 1))
        dut.running_i.value, dut.snapshot_i.value, dut.clear_i.value = (
            int(running),
            int(snapshot),
            int(clear),
        )
        dut.state_i.value = sum(state << (4 * u) for u, state in enumerate(states))
        dut.retire_i.value, dut.write_bytes_i.value = retire, written
        for name, value in flags.items():
            getattr(dut, f"{name}_i").value = value
        await RisingEdge(dut.clk_i)
        if clear:
            count = dict.fromkeys(_NAMES, 0)
        elif running:
            count["cycles"] += 1
            for u, (unit, state) in enumerate(zip(UNIT_NAMES, states, strict=True)):
                count[f"{unit}_{_STATE[state]}"] += 1
                count[f"{unit}_instructions"] += retire >> u & 1
            count["macs_tiles"] += flags["mac"]
            count["vector_tiles"] += flags["vector"]
            count["bytes_read"] += width * flags["read_beat"]
            count["bytes_written"] += written
            count["read_bursts"] += flags["read_burst"]
            count["write_bursts"] += flags["write_burst"]
    dut.running_i.value, dut.clear_i.value, dut.snapshot_i.value = 0, 0, 1
    await RisingEdge(dut.clk_i)
    dut.snapshot_i.value = 0
    shadow = dict(count)
    for index, name in enumerate(_NAMES):
        dut.index_i.value = index
        await RisingEdge(dut.clk_i)
        await RisingEdge(dut.clk_i)
        assert int(dut.value_o.value) == shadow[name] % modulus, name
    dut.index_i.value = len(_NAMES)
    await RisingEdge(dut.clk_i)
    await RisingEdge(dut.clk_i)
    assert int(dut.value_o.value) == 0


@cocotb.test()
async def a_snapshot_does_not_move_while_the_run_goes_on(dut: Any) -> None:
    generator("counters snapshot")
    await start_clock(dut)
    dut.snapshot_i.value = dut.running_i.value = dut.state_i.value = dut.index_i.value = 0
    dut.clear_i.value = 1
    await RisingEdge(dut.clk_i)
    dut.clear_i.value, dut.running_i.value = 0, 1
    await ClockCycles(dut.clk_i, 10)
    await pulse(dut, "snapshot_i")
    for _ in range(5):
        await RisingEdge(dut.clk_i)
        await RisingEdge(dut.clk_i)
        assert int(dut.value_o.value) == 10
