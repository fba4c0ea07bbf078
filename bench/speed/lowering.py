# SPDX-License-Identifier: Apache-2.0
"""How fast schedules become programs: lowering in Python and in C++ over the VTA schedule spaces.

For each of ResNet-18's C2-C11: a random sample of the legal points of the ``vta`` space (all of
them by default) is lowered natively in one call, and as many of them in Python as ``--seconds``
allow, whose programs must be equal. Times are CPU seconds of this process, the best of
``--repeat``, so that other work on the machine disturbs them little. The mean is over the sample
as a search would meet it; the median program is one of the hundred whose length is nearest to the
median.

    tilewright bench lowering --quick
"""

from __future__ import annotations

import itertools
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewright.bench.commands import LoweringSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.host.lowering import lower
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.host.network.zoo import load_network
from tilewright.sim.tools.toolchain import find_compiler
from tilewright.sim.twin.library import TOTALS
from tilewright.sim.twin.native_lowering import NativeLowering, Points, encode_schedules
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

LENGTH = TOTALS.index("instruction_count")
NEAR_MEDIAN = 100
"""Programs that stand for the median one."""


def cpu_seconds(work: Callable[[], object], repeat: int) -> float:
    """CPU seconds of the fastest of several calls."""
    times = []
    for _ in range(repeat):
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times)


def all_schedules(hw: HwConfig, task: Workload) -> list[Schedule]:
    """Every point of the ``vta`` space, legal or not."""
    space = ScheduleSpace(task, hw, host_rules(), "vta")
    sizes = (range(len(knob.values)) for knob in space.knobs)
    return [space.decode(index) for index in itertools.product(*sizes)]


def python_times(
    native: NativeLowering, schedules: list[Schedule], seconds: float
) -> tuple[int, int, float]:
    """Programs, instructions and CPU seconds of lowering in Python; checks them on the way."""
    programs = instructions = 0
    spent = 0.0
    for schedule in schedules:
        started = time.process_time()
        layer = lower(native.hw, native.workload, schedule)
        spent += time.process_time() - started
        programs += 1
        instructions += layer.program.instruction_count
        if native.lower(schedule) != layer:
            raise SystemExit(f"{native.workload.name}: another program with {schedule}")
        if spent > seconds:
            break
    return programs, instructions, spent


def near_median(points: Points, lengths: npt.NDArray[np.int64]) -> Points:
    """The points whose programs' lengths are nearest to the median."""
    order = np.argsort(np.abs(lengths - np.median(lengths)), kind="stable")
    return points[order[:NEAR_MEDIAN]]


def measure(
    hw: HwConfig, task: Workload, rng: np.random.Generator, given: LoweringSettings
) -> dict[str, Any]:
    """One layer, as a flat record."""
    schedules = all_schedules(hw, task)
    every = encode_schedules(schedules)
    native = NativeLowering(hw, task)
    check = cpu_seconds(lambda: native.rules(every), given.repeat)
    legal = np.flatnonzero(native.rules(every) == 0)
    chosen = rng.permutation(legal)[: given.sample or None]
    points = every[chosen]
    lengths = native.totals(points)[:, LENGTH]
    spent = cpu_seconds(lambda: native.totals(points), given.repeat)
    middle = near_median(points, lengths)
    median_spent = cpu_seconds(lambda: native.totals(middle), 10 * given.repeat)
    programs, instructions, python_spent = python_times(
        native, [schedules[index] for index in chosen], given.seconds
    )
    native.close()
    return {
        "hw": hw.name,
        "layer": task.name,
        "space": len(schedules),
        "legal": len(legal),
        "native_programs": len(points),
        "native_instructions": int(lengths.sum()),
        "native_seconds": spent,
        "native_ns_per_instruction": round(spent / lengths.sum() * 1e9, 2),
        "native_programs_per_s": round(len(points) / spent),
        "native_median_programs_per_s": round(len(middle) / median_spent),
        "median_instructions": int(np.median(lengths)),
        "mean_instructions": round(float(lengths.mean())),
        "largest_instructions": int(lengths.max()),
        "check_ns": round(check / len(every) * 1e9),
        "python_programs": programs,
        "python_instructions": instructions,
        "python_seconds": python_spent,
        "python_ns_per_instruction": round(python_spent / instructions * 1e9),
    }


def summarise(records: Sequence[Row]) -> dict[str, float]:
    """The figures over all layers."""

    def total(name: str) -> float:
        return float(sum(record[name] for record in records))

    native = total("native_seconds") / total("native_instructions")
    python = total("python_seconds") / total("python_instructions")
    mean = total("native_instructions") / total("native_programs")
    return {
        "lowering_native_programs_per_s": round(total("native_programs") / total("native_seconds")),
        "lowering_native_median_programs_per_s": min(
            record["native_median_programs_per_s"] for record in records
        ),
        "lowering_native_ns_per_instruction": round(native * 1e9, 2),
        "lowering_python_ns_per_instruction": round(python * 1e9),
        "lowering_python_programs_per_s": round(1 / (python * mean), 2),
        "lowering_native_over_python": round(python / native),
        "lowering_check_ns": max(record["check_ns"] for record in records),
    }


class LoweringSpeed(Study):
    """The layers of ResNet-18 that the accelerator runs, one after another."""

    says = (
        "{layer:4} {legal:5} legal of {space:5}  "
        "{native_programs_per_s:6,} programs/s "
        "({native_median_programs_per_s:7,} of median size)  "
        "{native_ns_per_instruction:6.1f} ns/instruction, Python "
        "{python_ns_per_instruction:6,}"
    )

    def measure(self, cell: Cell) -> Iterator[Row]:
        del cell
        hw, rng = load_hwconfig(self.settings.hw), np.random.default_rng(self.settings.seed)
        for task in load_network("vta-resnet18").workloads:
            if task.name != "C1":
                yield measure(hw, task, rng, self.settings)

    def conditions(self) -> Row:
        given = self.settings
        return {
            "hw": load_hwconfig(given.hw).parameters(),
            "space": "vta, legal points",
            "time": f"CPU seconds of one process, best of {given.repeat}",
            "sample_per_layer": given.sample or "all",
            "python_seconds_per_layer": given.seconds,
            "seed": given.seed,
            "compiler": find_compiler().version,
            "python": platform.python_version(),
            "processor": platform.processor() or platform.machine(),
        }

    def summarise(self, rows: Sequence[Row]) -> Row:
        return summarise(rows)
