# SPDX-License-Identifier: Apache-2.0
"""`fewest_cycles`: the schedule that a closed form prefers, of a few candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

from tilewright.host.common.errors import ScheduleError
from tilewright.host.lowering.legality import Legality
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload

P = TypeVar("P")


def fewest_cycles(
    hw: HwConfig,
    workload: Workload,
    candidates: Iterable[Schedule],
    make_plan: Callable[[HwConfig, Workload, Schedule], P | Legality],
    cycles: Callable[[P], float],
) -> Schedule:
    """The legal candidate of the fewest cycles, the first of several."""
    best: tuple[float, Schedule] | None = None
    lacks = ""
    for schedule in candidates:
        found = make_plan(hw, workload, schedule)
        if isinstance(found, Legality):
            lacks = found.detail
            continue
        taken = cycles(found)
        if best is None or taken < best[0]:
            best = taken, schedule
    if best is None:
        raise ScheduleError(
            f"no default schedule is legal; the smallest tile: {lacks}",
            field=f"{workload.name} on {hw.name}",
            remedy="enlarge the buffers or run this operator on the CPU",
        )
    return best[1]
