# SPDX-License-Identifier: Apache-2.0
"""A mapped group as a Chrome trace: a thread per core with its jobs, and counters of bandwidth."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tilewright.host.common.chrome_trace import Event, process_name, thread_name, write_events
from tilewright.tuner.report.group_page import MappedGroup, needs

CORES: Final = 0
MEMORY: Final = 1
"""Processes of the trace."""


def write_trace(path: Path, group: MappedGroup) -> None:
    """Write the trace of a mapped group; one microsecond of the viewer is a cycle."""
    other = {
        "title": group.title,
        "makespan": group.timeline.makespan,
        "bound": group.bound,
        "bytes_per_cycle": group.instance.bandwidth,
    }
    write_events(path, trace_events(group), other)


def trace_events(group: MappedGroup) -> Iterator[Event]:
    """The events of a trace: names, a slice per job, and what is needed and moved over time."""
    told, table = group.timeline, group.instance.table
    yield process_name(CORES, "cores")
    yield process_name(MEMORY, "memory")
    for core, name in enumerate(group.cores):
        yield thread_name(CORES, core, f"core {core}: {name}")
    for job in told.start.argsort(kind="stable").tolist():
        core = int(told.core[job])
        start, cycles = float(told.start[job]), float(told.end[job] - told.start[job])
        latency = float(table.latency[job, core])
        yield {
            "ph": "X",
            "cat": "job",
            "name": table.names[job],
            "pid": CORES,
            "tid": core,
            "ts": start,
            "dur": cycles,
            "args": {
                "no_stall_cycles": latency,
                "stalled_cycles": max(0.0, cycles - latency),
                "needed_bytes_per_cycle": float(table.bandwidth[job, core]),
                "bytes": float(table.bytes[job, core]),
            },
        }
    needed = [*needs(group).tolist(), 0.0]
    moved = [*told.granted.sum(axis=1).tolist(), 0.0]
    for time, need, granted in zip(told.times.tolist(), needed, moved, strict=True):
        for name, value in (("needed", need), ("moved", granted)):
            yield {
                "ph": "C",
                "name": f"{name}, bytes per cycle",
                "pid": MEMORY,
                "ts": time,
                "args": {name: value},
            }
