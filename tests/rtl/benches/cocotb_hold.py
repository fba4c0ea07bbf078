# SPDX-License-Identifier: Apache-2.0
"""tw_hold against a queue: order of the beats, no loss, no more of them than fit, no delay."""

from __future__ import annotations

from collections import deque
from typing import Any

import cocotb
from bench import KNOBS, Knob, generator, parameters, random_bits, reset, start_clock
from cocotb.triggers import RisingEdge


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def beats_leave_in_order_and_always_fit(dut: Any, knob: str) -> None:
    rng = generator("hold" + knob)
    p = parameters()
    flow = Knob(knob, rng)
    depth = max(16, p["BurstBeats"])
    await start_clock(dut)
    for name in ("start_i", "retire_i", "asked_i", "asked_len_i", "beat_valid_i", "done_i"):
        getattr(dut, name).value = 0
    await reset(dut)
    # A LOAD: parts of each beat, and the beats of its bursts. The first ones have one part: what
    # nothing is held for passes at once; a source that never pauses may keep beats held for good.
    loads = deque(
        (
            int(rng.choice([1, 1, 2, 8])) if number >= 25 else 1,
            rng.integers(1, p["BurstBeats"] + 1, int(rng.integers(1, 9))).tolist(),
        )
        for number in range(150)
    )
    on_bus: deque[tuple[int, int, bool]] = deque()  # value, parts, last of a LOAD in parts
    held: deque[tuple[int, int, bool]] = deque()
    bursts: list[int] = []
    parts = left = active = asked = 0
    through = refused = 0
    starting = finishing = False
    length = 0
    while loads or bursts or on_bus or held:
        # Inputs of the coming cycle.
        starting = False
        if not bursts and loads:
            parts, bursts = loads.popleft()
            starting = parts > 1
        beat = bool(on_bus) and not flow.source_pauses()
        arriving = on_bus[0] if beat else None
        head = held[0] if held else arriving
        if head is not None and not left:
            left = head[1]
        done = left == 1
        finishing = head is not None and done and head[2]
        # A LOAD asks from the cycle after its start.
        offer = bool(bursts) and not starting and not flow.sink_pauses()
        length = bursts[0] if bursts else 1
        room = not active or asked + length <= depth
        dut.start_i.value, dut.retire_i.value = int(starting), int(finishing)
        dut.asked_i.value, dut.asked_len_i.value = int(offer and room), length - 1
        dut.beat_valid_i.value, dut.done_i.value = int(beat), int(done)
        if arriving is not None:
            dut.beat_data_i.value = arriving[0]
        await RisingEdge(dut.clk_i)
        # What the outputs were in that cycle.
        assert int(dut.room_o.value) == int(room)
        assert int(dut.valid_o.value) == int(head is not None)
        if head is not None:
            assert int(dut.data_o.value) == head[0]
            left -= 1
        through += beat and not held and done
        refused += offer and not room
        if arriving is not None:
            held.append(on_bus.popleft())
        if head is not None and done:
            held.popleft()
            asked -= 1
        assert len(held) <= depth
        if offer and room:
            bursts.pop(0)
            asked += length
            on_bus.extend(
                (
                    random_bits(rng, 8 * p["BeatBytes"]),
                    parts,
                    parts > 1 and not bursts and n == length - 1,
                )
                for n in range(length)
            )
        active += int(starting) - int(finishing)
    assert through > 20, "beats pass in the cycle in which they arrive"
    assert refused > 20 or p["BurstBeats"] == 1, "the limit was met"
