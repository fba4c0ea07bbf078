# SPDX-License-Identifier: Apache-2.0
"""What each mechanism of the accelerator is worth: ResNet-18 C2-C11 with one of them taken away.

Every figure is a count of the twin, which has the counters of the RTL to the cycle. A layer keeps
its best schedule (of the search of `bench.roofline` on the whole accelerator) in every row:

* ``serial``: tokens let one instruction run at a time, in program order; no unit overlaps.
* ``one thread``: no virtual threads: a tile is loaded when the one before it is done.
* ``one read``, ``one write``: a single burst in flight in that direction.
* ``4-beat bursts``: short bursts; the memory sees four times as many.
* ``quarter of the lanes``: a vector unit of a quarter of the width.

    tilewright bench ablation
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from tilewright.bench.result import BenchResult
from tilewright.bench.roofline import OFFLOADED, Case, measure
from tilewright.host.common.errors import ScheduleError
from tilewright.host.lowering import legal, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import UNIT_OF, Instruction, Opcode
from tilewright.host.machine.program import Program
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.zoo import load_network
from tilewright.sim.synth.design import rtl_digest
from tilewright.sim.twin.device import Twin

INSN_BYTES = 32


def serial(program: Program) -> Program:
    """The same program with tokens that order every instruction after the one before it."""
    data = program.instructions
    stream = [Instruction.decode(data[i : i + INSN_BYTES]) for i in range(0, len(data), INSN_BYTES)]
    units = [UNIT_OF.get(instruction.opcode) for instruction in stream]
    changed = []
    for index, instruction in enumerate(stream):
        if instruction.opcode == Opcode.FINISH:
            changed.append(instruction)
            continue
        before = units[index - 1] if index else units[index]
        after = units[index + 1]
        masks = {
            "pop": 0 if before in (units[index], None) else 1 << int(before),
            "push": 0 if after in (units[index], None) else 1 << int(after),
        }
        changed.append(Instruction(instruction.opcode, {**instruction.values, **masks}))
    return replace(program, instructions=b"".join(each.encode() for each in changed))


@dataclass(frozen=True, kw_only=True)
class Variant:
    """One thing taken away from the configuration, the schedule or the program."""

    name: str
    hw: Callable[[HwConfig], HwConfig] = lambda hw: hw
    schedule: Callable[[Schedule], Schedule] = lambda schedule: schedule
    program: Callable[[Program], Program] = lambda program: program


VARIANTS = (
    Variant(name="whole"),
    Variant(name="one thread", schedule=lambda s: replace(s, h_threading=1, oc_threading=1)),
    Variant(name="serial", program=serial),
    Variant(name="one read", hw=lambda hw: hw.with_(read_outstanding=1)),
    Variant(name="one write", hw=lambda hw: hw.with_(write_outstanding=1)),
    Variant(name="4-beat bursts", hw=lambda hw: hw.with_(axi_burst_beats=4)),
    Variant(
        name="quarter of the lanes",
        hw=lambda hw: hw.with_(vector_lanes=max(1, hw.vector_lanes // 4)),
    ),
)


def run(*, hw: str, memory: str, search_cycles: int, seed: int) -> BenchResult:
    """Count the cycles of every variant.

    Args:
        hw: configuration of the whole accelerator.
        memory: by name.
        search_cycles: twin cycles that end the search of a layer's schedule.
        seed: of the search.

    Raises:
        ScheduleError: a variant does not take a layer's schedule.
    """
    base, timing = load_hwconfig(hw), load_memory(memory)
    network = load_network("vta-resnet18")
    tasks = [network[name] for name in OFFLOADED]
    schedules = {}
    for task in tasks:
        case = Case(hw=base, memory=timing, network=network.name, task=task)
        record = measure(case, search_cycles, 0, seed)
        schedules[task.name] = Schedule.from_mapping(json.loads(record["schedule"]))
    records: list[dict[str, Any]] = []
    summary: dict[str, int] = {}
    for variant in VARIANTS:
        config = variant.hw(base)
        twin = Twin(config, timing)
        for task in tasks:
            schedule = variant.schedule(schedules[task.name])
            verdict = legal(config, task, schedule)
            if not verdict.ok:
                raise ScheduleError(str(verdict), field=f"{variant.name}, {task.name}")
            counters = twin.counters(variant.program(lower(config, task, schedule).program))
            records.append(
                {
                    "variant": variant.name,
                    "layer": task.name,
                    "count": task.count,
                    **counters.values,
                }
            )
        twin.close()
        summary[variant.name] = sum(
            r["cycles"] * r["count"] for r in records if r["variant"] == variant.name
        )
        total = summary[variant.name]
        print(f"{variant.name:22} {total:>12,} cycles  {total / summary['whole']:.3f}x", flush=True)
    return BenchResult(
        rows=records,
        summary=summary,
        conditions={
            "fidelity": "twin",
            "rtl": rtl_digest(),
            "hw": base.parameters(),
            "memory": asdict(timing),
            "schedule": f"best of {search_cycles} twin cycles, seed {seed}, kept",
        },
    )
