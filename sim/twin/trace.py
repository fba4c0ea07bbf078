# SPDX-License-Identifier: Apache-2.0
"""When each instruction of a program ran, as a Chrome trace (Perfetto, chrome://tracing).

The twin gives the cycles. What it shows of the RTL is as exact as the counters, all of which are
compared with the run before a trace of it is written. One microsecond of the viewer is a cycle.

Every unit is a process with its instructions, which overlap in its pipeline, and its waits: the
time between the last retirement and the next instruction taken, named after the token that came
last, or after nothing if tokens were there before (the instruction was not fetched yet, or ACC
banks were held).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.chrome_trace import Event, process_name, write_events
from tilewright.host.common.errors import DeviceError
from tilewright.host.machine.isa import UNIT_OF, Instruction, Memory, Opcode, Unit
from tilewright.host.machine.program import Program
from tilewright.host.runtime.device import Counters
from tilewright.sim.twin.device import Twin

NO_TOKEN: Final = "waits for an instruction or a bank"
"""Name of a wait that no token explains."""


def write_trace(path: Path, twin: Twin, program: Program, counters: Counters | None = None) -> int:
    """Write the trace of a program that ends without an error."""
    own, cycles = twin.timeline(program)
    if counters is not None and counters != own:
        names = [name for name in own.values if own[name] != counters[name]]
        raise DeviceError(
            "the run and the twin differ, so there is no trace of it",
            field=", ".join(names),
            value=", ".join(f"{counters[n]} instead of {own[n]}" for n in names[:3]),
            remedy="please report it with this command: the twin is to be exact",
        )
    events = list(trace_events(program, cycles))
    write_events(path, events, own.values)
    return sum(event["ph"] == "b" for event in events)


def trace_events(program: Program, cycles: npt.NDArray[np.uint64]) -> Iterator[Event]:
    """The events of a trace.

    Args:
        program: what ran.
        cycles: uint64 of shape (instructions, 2): taken, retired (`Twin.timeline`).
    """
    for unit in Unit:
        yield process_name(int(unit), unit.name)
    pushed: dict[tuple[Unit, Unit], deque[int]] = {}
    ends = dict.fromkeys(Unit, 0)
    instructions = _instructions(program)
    # Tokens are pushed in stream order of their producer, and popped in that of their consumer.
    for index, instruction in instructions:
        unit = UNIT_OF[instruction.opcode]
        for other in _units(instruction.values["push"]):
            pushed.setdefault((unit, other), deque()).append(int(cycles[index, 1]))
    for index, instruction in instructions:
        unit = UNIT_OF[instruction.opcode]
        taken, retired = (int(cycle) for cycle in cycles[index])
        tokens = [
            (pushed[other, unit].popleft(), other) for other in _units(instruction.values["pop"])
        ]
        if taken > ends[unit]:
            last = max(tokens, default=(0, unit))
            late = last[0] > ends[unit]
            yield {
                "ph": "X",
                "name": f"waits for {last[1].name}" if late else NO_TOKEN,
                "pid": int(unit),
                "tid": 1,
                "ts": ends[unit],
                "dur": taken - ends[unit],
            }
        ends[unit] = max(ends[unit], retired)
        common = {
            "cat": unit.name,
            "id": index,
            "pid": int(unit),
            "tid": 0,
            "name": _name(instruction),
        }
        yield {**common, "ph": "b", "ts": taken, "args": {"index": index, "is": str(instruction)}}
        yield {**common, "ph": "e", "ts": retired}


def _instructions(program: Program) -> list[tuple[int, Instruction]]:
    """(index, instruction) of the stream up to FINISH."""
    return list(enumerate(map(Instruction.decode, program.executed())))


def _units(mask: int) -> list[Unit]:
    """Units of a token mask."""
    return [unit for unit in Unit if mask >> unit & 1]


def _name(instruction: Instruction) -> str:
    """Short name of an instruction: opcode, and memory of a LOAD."""
    name = instruction.opcode.name
    if instruction.opcode is Opcode.LOAD:
        name += f" {Memory(instruction.values['memory']).name}"
    return name
