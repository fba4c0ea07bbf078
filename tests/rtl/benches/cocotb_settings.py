# SPDX-License-Identifier: Apache-2.0
"""tw_settings: what a run works with is what the registers held when its start was accepted."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from bench import generator, parameters, pulse, start_clock
from cocotb.triggers import RisingEdge

from tilewright.host.machine.isa import pack_fields
from tilewright.host.machine.wires import SETTINGS

_PAGE = 4096
_END = 1 << parameters().get("AddressBits", 40)
_NAMES = ("insn_base", "insn_count", "mem_base", "mem_size", "watchdog", "attributes")


def draw(rng: np.random.Generator) -> dict[str, int]:
    """Settings; half of them make sense, the others lie around the limits."""
    size = _PAGE * int(rng.choice([0, 1, rng.integers(2**20), 2**27 - 1]))
    insn = _PAGE * int(rng.choice([0, rng.integers(size // _PAGE + 1), 2**28 - 1]))
    room = max(0, (size - insn) // 32)
    return {
        "insn_base": insn,
        "insn_count": min(2**32 - 1, max(0, room + int(rng.choice([-1, 0, 0, 1, 2**31])))),
        "mem_base": int(np.clip(_END - size - _PAGE * rng.integers(-1, 2), 0, 2**40 - _PAGE)),
        "mem_size": size,
        "watchdog": int(rng.integers(2**32)),
        "attributes": int(rng.integers(2**11)),
    }


def offer(dut: Any, values: dict[str, int]) -> None:
    """Drive the registers."""
    dut.settings_i.value = pack_fields(SETTINGS, values)


def refused(values: dict[str, int]) -> bool:
    """Whether no run can have these settings."""
    end = values["insn_base"] + 32 * values["insn_count"]
    return values["mem_base"] + values["mem_size"] > _END or end > values["mem_size"]


@cocotb.test()
async def settings_are_taken_with_the_start_and_judged_at_once(dut: Any) -> None:
    rng = generator("settings")
    await start_clock(dut)
    dut.accept_i.value = 0
    seen = set()
    for _ in range(500):
        values = draw(rng)
        offer(dut, values)
        await pulse(dut, "accept_i")
        for wait in range(4):
            offer(dut, draw(rng))  # of the next run
            await RisingEdge(dut.clk_i)
            for name in _NAMES:
                assert int(getattr(dut, f"{name}_o").value) == values[name], name
            if wait:
                assert int(dut.refuse_o.value) == refused(values), values
        seen.add(refused(values))
    assert seen == {False, True}
