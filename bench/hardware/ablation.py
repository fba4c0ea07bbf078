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
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property

from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.bench.hardware.roofline import OFFLOADED, Case, measure
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


class Ablation(Study):
    """Every layer's best schedule of the whole accelerator on every variant."""

    says = ""

    @cached_property
    def schedules(self) -> dict[str, Schedule]:
        """The best schedule of each layer."""
        given, network = self.settings, load_network("vta-resnet18")
        hw, memory = load_hwconfig(given.hw), load_memory(given.memory)
        found = {}
        for name in OFFLOADED:
            case = Case(hw=hw, memory=memory, network=network.name, task=network[name])
            row = measure(case, given.search_cycles, 0, given.seed)
            found[name] = Schedule.from_mapping(json.loads(row["schedule"]))
        return found

    def cells(self) -> list[Cell]:
        return [{"variant": variant.name} for variant in VARIANTS]

    def measure(self, cell: Cell) -> Iterator[Row]:
        (variant,) = (v for v in VARIANTS if v.name == cell["variant"])
        config = variant.hw(load_hwconfig(self.settings.hw))
        twin, network = (
            Twin(config, load_memory(self.settings.memory)),
            load_network("vta-resnet18"),
        )
        for name, best in self.schedules.items():
            task, schedule = network[name], variant.schedule(best)
            verdict = legal(config, task, schedule)
            if not verdict.ok:
                raise ScheduleError(str(verdict), field=f"{variant.name}, {name}")
            counters = twin.counters(variant.program(lower(config, task, schedule).program))
            yield {"layer": name, "count": task.count, **counters.values}
        twin.close()

    def conditions(self) -> Row:
        given = self.settings
        return {
            "fidelity": "twin",
            "rtl": rtl_digest(),
            "hw": load_hwconfig(given.hw).parameters(),
            "memory": asdict(load_memory(given.memory)),
            "schedule": f"best of {given.search_cycles} twin cycles, seed {given.seed}, kept",
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        totals: dict[str, int] = {}
        for row in rows:
            cycles = row["cycles"] * row["count"]
            totals[row["variant"]] = totals.get(row["variant"], 0) + cycles
        return totals

    def text(self, document: Row) -> str:
        totals = document["summary"]
        return "\n".join(
            f"{name:22} {total:>12,} cycles  {total / totals['whole']:.3f}x"
            for name, total in totals.items()
        )
