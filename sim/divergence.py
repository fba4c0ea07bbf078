# SPDX-License-Identifier: Apache-2.0
"""Where the RTL and the twin part: the first instruction that retires in different cycles."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.device import Bytes
from tilewright.host.hwconfig import INSTRUCTION_BYTES
from tilewright.host.isa import UNIT_OF, Opcode, Unit
from tilewright.host.program import Program
from tilewright.sim.twin_device import Twin
from tilewright.sim.verilator_device import VerilatorDevice

_OPCODE_MASK: Final = 0xF


def first_divergence(device: VerilatorDevice, twin: Twin, program: Program, memory: Bytes) -> str:
    """Name the first instruction, in time, that the RTL retires earlier or later than the twin.

    Bisects over cycles: each probe runs the RTL from the start, so use it on failures only.

    Args:
        device: full RTL on the twin's configuration and memory.
        twin: what is compared with it.
        program: runs on both without an error.
        memory: image to start from, as for `Device.run`.

    Returns:
        One line: index, unit, cycle on both sides; or that no instruction differs.
    """
    counters, events = twin.timeline(program)
    by_unit = _instructions(program)
    retired = {unit: np.sort(events[indices, 1]) for unit, indices in by_unit.items()}
    last = max(counters.cycles, device.run(program, memory).counters.cycles)

    def disagrees(cycle: int) -> bool:
        ran, seen = _probe(device, program, memory, cycle)
        return any(seen[unit] != int(np.searchsorted(retired[unit], ran)) for unit in Unit)

    low, high = 0, last + 1  # agrees after `low` cycles; `high` is past the end
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if disagrees(middle) else (middle, high)
    if high > last:
        return "no instruction differs"
    ran, seen = _probe(device, program, memory, high)
    for unit in Unit:
        expected = int(np.searchsorted(retired[unit], ran))
        if seen[unit] == expected:
            continue
        first = min(seen[unit], expected)
        index = by_unit[unit][first]
        taken, ended = events[index]
        side = "already retired" if seen[unit] > expected else "not yet retired"
        return (
            f"instruction {index} ({unit.name}): after {ran} cycles {side} in the RTL; "
            f"in the twin taken in cycle {taken}, retired in cycle {ended}"
        )
    return "no instruction differs"


def _instructions(program: Program) -> dict[Unit, npt.NDArray[np.int64]]:
    """Stream indices by unit, up to FINISH."""
    found: dict[Unit, list[int]] = {unit: [] for unit in Unit}
    for index, byte in enumerate(program.instructions[::INSTRUCTION_BYTES]):
        opcode = Opcode(byte & _OPCODE_MASK)
        if opcode is Opcode.FINISH:
            break
        found[UNIT_OF[opcode]].append(index)
    return {unit: np.array(indices, dtype=np.int64) for unit, indices in found.items()}


def _probe(
    device: VerilatorDevice, program: Program, memory: Bytes, cycles: int
) -> tuple[int, dict[Unit, int]]:
    """Cycles that really ran, about ``cycles``, and instructions retired by then."""
    counters = device.counters_after(program, memory, cycles)
    return counters.cycles, {u: counters[f"{u.name.lower()}_instructions"] for u in Unit}
