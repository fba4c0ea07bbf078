# SPDX-License-Identifier: Apache-2.0
"""`tilewright exhaust`: enumerate layers, confirm samples on the RTL, print what was found."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from tilewright.host.common.errors import DeviceError
from tilewright.host.common.print_table import print_table
from tilewright.host.lowering import lower
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.tuner.exhaustive.exhaust import Landscape, exhaust
from tilewright.tuner.measure.oracle import rtl_identity
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace

REPORT_SECONDS = 10.0
"""Between two lines of progress."""


def print_landscapes(
    hw: HwConfig,
    workloads: Sequence[Workload],
    memory: MemoryModel,
    *,
    kind: str,
    confirm: int,
    confirm_cycles: int,
    seed: int,
    workers: int,
    folder: Path,
    console: Console,
) -> list[Landscape]:
    """Enumerate each workload's schedules and print a table.

    Args:
        hw: configuration.
        workloads: layers.
        memory: DRAM timing.
        kind: of the schedule space.
        confirm: schedules a layer to run on the RTL, the best first.
        confirm_cycles: what takes more is not run on the RTL.
        seed: of the choice and of the operands.
        workers: threads.
        folder: where landscapes are kept.
        console: where to print.

    Returns:
        The landscapes, in the order of the workloads.

    Raises:
        DeviceError: the RTL counts other cycles than the twin, or its output is wrong.
    """
    rules, identity = host_rules(), rtl_identity()
    table = Table(
        title=Text(f"{hw.name}, memory {memory.name}, space {kind}: every schedule on the twin")
    )
    for name in ("layer", "points", "legal", "optimum", "of bound", "median", "worst"):
        table.add_column(name, justify="left" if name == "layer" else "right")
    for name in ("within 1 %", "within 5 %", "on the RTL"):
        table.add_column(name, justify="right")
    device: VerilatorDevice | None = None
    found = []
    for workload in workloads:
        space = ScheduleSpace(workload, hw, rules, kind)
        landscape = exhaust(
            space,
            memory,
            folder,
            identity=identity,
            workers=workers,
            on_progress=ProgressLines(console, workload.name),
        )
        found.append(landscape)
        legal = landscape.legal
        if not len(legal):
            table.add_row(Text(workload.name), f"{space.raw_size:,}", "0", *[""] * 7)
            continue
        chosen = _sample(landscape, confirm, confirm_cycles, seed)
        if chosen and device is None:
            device = VerilatorDevice(hw, memory)
        for schedule, cycles in chosen:
            assert device is not None
            _confirm(device, workload, schedule, cycles, seed)
        schedule, cycles = landscape.best
        bound = rules.bound(hw, workload, memory).cycles
        table.add_row(
            Text(workload.name),
            f"{space.raw_size:,}",
            f"{len(legal):,}",
            f"{cycles:,}",
            f"{bound / cycles:.3f}",
            f"{int(np.median(legal)):,}",
            f"{int(legal[-1]):,}",
            f"{landscape.share_within(1.01):.2%}",
            f"{landscape.share_within(1.05):.2%}",
            f"{len(chosen)} equal",
        )
        console.print(Text(f"{workload.name}: {cycles:,} cycles with {schedule.to_mapping()}"))
    if device is not None:
        device.close()
    print_table(table, console)
    return found


def _sample(
    landscape: Landscape, count: int, max_cycles: int, seed: int
) -> list[tuple[Schedule, int]]:
    """The best schedule and others at random, none above ``max_cycles``."""
    affordable = int((landscape.legal <= max_cycles).sum())
    if not count or not affordable:
        return []
    rng = np.random.default_rng(seed)
    others = rng.permutation(np.arange(1, affordable))[: count - 1]
    return [landscape.ranked(int(place)) for place in (0, *others)]


def _confirm(
    device: VerilatorDevice, workload: Workload, schedule: Schedule, cycles: int, seed: int
) -> None:
    layer = lower(device.hw, workload, schedule)
    tensors = random_tensors(workload, np.random.default_rng(seed))
    run = device.run(layer.program, layer.image(tensors), max_cycles=2 * cycles)
    problem = ""
    if run.counters.cycles != cycles:
        problem = f"the RTL counts {run.counters.cycles:,} cycles, the twin {cycles:,}"
    elif not np.array_equal(layer.output(run.memory), conv2d_int8(workload, tensors)):
        problem = "the RTL's output differs from the golden model"
    if problem:
        raise DeviceError(
            problem,
            field=workload.name,
            value=schedule.to_mapping(),
            remedy="this is a defect of Tilewright: please report it with this line",
        )


class ProgressLines:
    """A line of progress now and then."""

    def __init__(self, console: Console, name: str) -> None:
        self._console, self._name = console, name
        self._last = time.monotonic()

    def __call__(self, done: int, points: int) -> None:
        """So many points of all are done."""
        now = time.monotonic()
        if now - self._last >= REPORT_SECONDS and done < points:
            self._last = now
            self._console.print(Text(f"{self._name}: {done:,} of {points:,} schedules"))
