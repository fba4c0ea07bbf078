# SPDX-License-Identifier: Apache-2.0
"""What tuners found on the twin's tables, run on the full RTL with its data checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from tilewright.bench.arena.records import Record
from tilewright.bench.arena.tables import Table
from tilewright.bench.framework.study import in_processes
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.tuner.measure.measurement import Request
from tilewright.tuner.measure.oracle import build_job, trial_job
from tilewright.tuner.search.space import Index

SEEDS: Final = 5
"""Seeds whose winners are confirmed."""

SLACK_CYCLES: Final = 1_000
"""The RTL may run so many cycles longer than the table says before it is stopped as wrong."""


def point_of(table: Table, flat: int) -> tuple[HwConfig, Schedule]:
    """Configuration and schedule at a position of a table."""
    point = table.task.space.decode(_index(table, flat))
    if isinstance(point, Schedule):
        return table.task.configs[0], point
    return point.hw, point.schedule


def confirm(
    records: Iterable[Record], tables: Mapping[str, Table], *, workers: int = 2
) -> Iterator[dict[str, Any]]:
    """Run each distinct winner of the first `SEEDS` seeds, and each optimum, on the full RTL."""
    wanted: dict[tuple[str, int], None] = {}
    for record in records:
        if record["seed"] < SEEDS and record["flat"] is not None:
            wanted[record["task"], record["flat"]] = None
            table = tables[record["task"]]
            wanted[record["task"], table.best] = None
    # Points of one configuration follow each other, so that a worker builds few of them.
    jobs = sorted(
        ((*point_of(tables[task], flat), task, flat) for task, flat in wanted),
        key=lambda job: (job[0].name, job[2], job[3]),
    )
    requests = [_request(tables[job[2]], *job) for job in jobs]
    for place, (failure, cycles) in in_processes(_run, requests, workers):
        hw, schedule, task, flat = jobs[place]
        expected = _cycles(tables[task], flat)
        yield {
            "what": "confirmation",
            "task": task,
            "flat": flat,
            "layer": tables[task].task.workload.name,
            "hw": hw.name,
            "schedule": schedule.to_mapping(),
            "expected_cycles": expected,
            "rtl_cycles": cycles,
            "equal": cycles == expected and not failure,
            "failure": failure,
        }


def _request(table: Table, hw: HwConfig, schedule: Schedule, _task: str, flat: int) -> Request:
    return Request(
        hw=hw,
        workload=table.task.workload,
        schedule=schedule,
        memory=table.task.memory,
        max_cycles=_cycles(table, flat) + SLACK_CYCLES,
    )


def _cycles(table: Table, flat: int) -> int:
    """What a table says of a legal position."""
    return table.measure(_index(table, flat)) or 0


def _index(table: Table, flat: int) -> Index:
    return tuple(int(i) for i in np.unravel_index(flat, table.cycles.shape))


def _run(request: Request) -> tuple[str, int | None]:
    """Why a point has no valid measurement on the RTL, and its cycles."""
    build_job("rtl", request.hw)
    measurement = trial_job("rtl", request)
    return measurement.failure, measurement.cycles if measurement.valid else None
