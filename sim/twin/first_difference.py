# SPDX-License-Identifier: Apache-2.0
"""Where the RTL and the twin part: the first instruction that retires in different cycles."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.machine.isa import OPCODE_MASK, UNIT_OF, Opcode, Unit
from tilewright.host.machine.program import Program
from tilewright.host.runtime.device import Bytes
from tilewright.sim.twin.device import Twin
from tilewright.sim.verilator.device import VerilatorDevice

CHECKPOINTS: Final = 64
"""Instructions that are looked at first; then all since the last one that agreed."""


def first_difference(device: VerilatorDevice, twin: Twin, program: Program, memory: Bytes) -> str:
    """Name the first instruction, in time, that the RTL retires earlier or later than the twin.

    Every probe runs the RTL from the start, two for each instruction that is looked at: use it on
    failures only.
    """
    _, events = twin.timeline(program)
    by_unit = _instructions(program)
    retired = {unit: np.sort(events[indices, 1]) for unit, indices in by_unit.items()}
    unit_of = {int(index): unit for unit, indices in by_unit.items() for index in indices}
    order = sorted(unit_of, key=lambda index: int(events[index, 1]))
    delay = _probe(device, program, memory, 1)[0] - 1

    def problem(index: int) -> str:
        """What is wrong with the instruction, from the cycles before and after it retires."""
        cycle = int(events[index, 1])
        for end in (cycle, cycle + 1):
            ran, seen = _probe(device, program, memory, end - delay)
            for unit in Unit:
                expected = int(np.searchsorted(retired[unit], ran))
                if seen[unit] != expected:
                    other = int(by_unit[unit][min(seen[unit], expected)])
                    side = "already" if seen[unit] > expected else "not yet"
                    return (
                        f"instruction {other} ({unit.name}): after {ran} cycles {side} retired in "
                        f"the RTL; in the twin taken in cycle {events[other, 0]}, retired in cycle "
                        f"{events[other, 1]}"
                    )
        return ""

    step = max(1, len(order) // CHECKPOINTS)
    for start in range(0, len(order), step):
        until = order[: start + step]
        if problem(until[-1]):  # one before may differ alone: the next waited for something else
            return next(found for index in until if (found := problem(index)))
    return "no instruction differs"


def _instructions(program: Program) -> dict[Unit, npt.NDArray[np.int64]]:
    """Stream indices by unit, up to FINISH."""
    found: dict[Unit, list[int]] = {unit: [] for unit in Unit}
    for index, encoded in enumerate(program.executed()):
        found[UNIT_OF[Opcode(encoded[0] & OPCODE_MASK)]].append(index)
    return {unit: np.array(indices, dtype=np.int64) for unit, indices in found.items()}


def _probe(
    device: VerilatorDevice, program: Program, memory: Bytes, cycles: int
) -> tuple[int, dict[Unit, int]]:
    """Cycles that really ran, a few more than ``cycles``, and instructions retired by then."""
    counters = device.counters_after(program, memory, cycles)
    return counters.cycles, {u: counters[f"{u.name.lower()}_instructions"] for u in Unit}
