# SPDX-License-Identifier: Apache-2.0
"""`tilewright exhaust`: enumerate layers, confirm samples on the RTL, print what was found."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from tilewright.host.common.errors import DeviceError
from tilewright.host.common.print_table import plain_table, print_table
from tilewright.host.lowering import lower
from tilewright.host.lowering.operands import random_operands
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.golden import conv2d_int8
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.tuner.exhaustive.exhaust import Landscape, exhaust
from tilewright.tuner.exhaustive.options import ExhaustOptions
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.spaces import ScheduleSpace


def print_landscapes(
    hw: HwConfig,
    workloads: Sequence[Workload],
    memory: MemoryModel,
    *,
    settings: ExhaustOptions,
    console: Console,
    on_progress: Callable[[str, int, int], None] | None = None,
) -> list[Landscape]:
    """Enumerate each workload's schedules and print a table."""
    rules, identity = host_rules(), identity_of(Fidelity.TWIN.value)
    table = plain_table(
        "layer", "points", "legal", "optimum", "of bound", "median", "worst", "within 1 %",
        "within 5 %", "on the RTL",
    )  # fmt: skip
    table.title = Text(
        f"{hw.name}, memory {memory.name}, space {settings.space}: every schedule on the twin"
    )
    device: VerilatorDevice | None = None
    found = []
    for workload in workloads:
        space = ScheduleSpace(workload, hw, rules, settings.space)
        landscape = exhaust(
            space,
            memory,
            settings.folder,
            identity=identity,
            workers=settings.workers,
            on_progress=None if on_progress is None else partial(on_progress, workload.name),
        )
        found.append(landscape)
        legal = landscape.legal
        if not len(legal):
            table.add_row(Text(workload.name), f"{space.raw_size:,}", "0", *[""] * 7)
            continue
        chosen = _sample(landscape, settings)
        if chosen and device is None:
            device = VerilatorDevice(hw, memory)
        for schedule, cycles in chosen:
            assert device is not None
            _confirm(device, workload, schedule, cycles, settings.seed)
        schedule, cycles = landscape.best
        bound = rules.bound(hw, workload, memory).cycles
        table.add_row(
            Text(workload.name),
            f"{space.raw_size:,}",
            f"{len(legal):,}",
            f"{cycles:,}",
            f"{100 * bound / cycles:.1f} %",
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


def _sample(landscape: Landscape, settings: ExhaustOptions) -> list[tuple[Schedule, int]]:
    """The best schedule and others at random, none with too many cycles."""
    affordable = int((landscape.legal <= settings.confirm_cycles).sum())
    if not settings.confirm or not affordable:
        return []
    rng = np.random.default_rng(settings.seed)
    others = rng.permutation(np.arange(1, affordable))[: settings.confirm - 1]
    return [landscape.ranked(int(place)) for place in (0, *others)]


def _confirm(
    device: VerilatorDevice, workload: Workload, schedule: Schedule, cycles: int, seed: int
) -> None:
    layer = lower(device.hw, workload, schedule)
    tensors = random_operands(device.hw, workload, np.random.default_rng(seed))
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


def landscape_row(landscape: Landscape) -> dict[str, Any]:
    """What the table tells of a landscape, as plain values."""
    legal = landscape.legal
    row: dict[str, Any] = {
        "layer": landscape.space.workload.name,
        "points": landscape.space.raw_size,
        "legal": len(legal),
    }
    if not len(legal):
        return row
    schedule, cycles = landscape.best
    return row | {
        "optimum_cycles": cycles,
        "median_cycles": int(np.median(legal)),
        "worst_cycles": int(legal[-1]),
        "share_within_1_percent": landscape.share_within(1.01),
        "share_within_5_percent": landscape.share_within(1.05),
        "schedule": schedule.to_mapping(),
    }
