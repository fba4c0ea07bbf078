# SPDX-License-Identifier: Apache-2.0
"""The report of a mapped group: what every core does when, and who has the bandwidth meanwhile."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from tilewright.host.common.chrome_trace import Event, process_name, thread_name, write_events
from tilewright.tuner.multicore.allocation import Timeline
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import Numbers
from tilewright.tuner.report.drawing import page as markup
from tilewright.tuner.report.drawing.bar_chart import GanttChart, Task
from tilewright.tuner.report.drawing.marks import SERIES
from tilewright.tuner.report.drawing.scales import Axis, spanning
from tilewright.tuner.report.drawing.table import Column, table_of
from tilewright.tuner.report.drawing.xy_chart import Series, XYChart, heights

OTHERS: Final = "others"
"""Kind of the jobs for whose networks there is no colour left."""

HIGHEST: Final = 2.0
"""Need that is drawn at most, as a multiple of the bandwidth."""


@dataclass(frozen=True, kw_only=True)
class MappedGroup:
    """A mapping of an instance, as it runs."""

    title: str  # what was mapped, onto what
    instance: Instance  # what was solved
    timeline: Timeline  # of the mapping
    cores: Sequence[str]  # names of the cores
    bound: float  # cycles that no mapping takes less than
    curve: Sequence[tuple[int, float]]  # samples, and the lowest makespan after them, where it fell
    conditions: Sequence[str] = ()  # lines that say how it was found


def page(group: MappedGroup) -> str:
    """The report as HTML; one file that loads nothing."""
    told, limit = group.timeline, group.instance.bandwidth
    moved = float((told.granted.sum(axis=1) * np.diff(told.times)).sum())
    return markup.document(
        group.title,
        markup.heading(group.title),
        markup.tiles(
            [
                ("makespan", f"{told.makespan:,.0f}", "cycles"),
                ("lower bound", f"{group.bound:,.0f}", "cycles that no mapping goes below"),
                ("to gain at most", f"{100 * (1 - group.bound / told.makespan):.3g} %", ""),
                ("memory in use", f"{100 * moved / (limit * told.makespan):.1f} %",
                 f"of {limit:g} bytes per cycle"),
            ]
        ),
        markup.section(
            "What every core does",
            markup.paragraph(
                "A job is drawn as high as it is fast: full where it has all the bandwidth that it "
                "needs, lower where it waits for memory.",
                "note",
            ),
            markup.figure(jobs_chart(group), "jobs"),
        ),
        markup.section(
            "Bandwidth over time",
            markup.paragraph(
                "What the running jobs need, and what the cores move. Where the need is above the "
                f"memory's {limit:g} bytes per cycle, jobs wait. Needs above {HIGHEST:g} times "
                "that are drawn there.",
                "note",
            ),
            markup.figure(bandwidth_chart(group), "bandwidth"),
        ),
        markup.section("The search", markup.figure(_search_chart(group), "search"))
        if len(group.curve) > 1
        else "",
        markup.section(
            "Jobs", markup.folded("every job in the order in which they begin", _jobs(group))
        ),
        markup.section("Conditions", markup.bullets(group.conditions)) if group.conditions else "",
    )  # fmt: skip


def needs(group: MappedGroup) -> Numbers:
    """Bytes per cycle that the jobs of each segment need to run at full speed, ``[segments]``."""
    running, table = group.timeline.running, group.instance.table
    cores = np.arange(table.cores)
    found: Numbers = np.where(running >= 0, table.bandwidth[running, cores], 0.0).sum(axis=1)
    return found


def jobs_chart(group: MappedGroup) -> GanttChart:
    """Every job on its core."""
    told, table = group.timeline, group.instance.table
    # Jobs are named NETWORK.LAYER; those of a table of a user's own may not be.
    names = [name.rpartition(".")[0].partition(".")[0] or "jobs" for name in table.names]
    time: dict[str, float] = {}
    for job, name in enumerate(names):
        time[name] = time.get(name, 0.0) + float(told.end[job] - told.start[job])
    ranked = sorted(time, key=lambda name: -time[name])
    # The longest have colours of their own where there are more networks than colours.
    own = ranked if len(ranked) <= len(SERIES) else ranked[: len(SERIES)]
    colours = dict(zip(own, SERIES, strict=False))
    if len(own) < len(ranked):
        colours[OTHERS] = "pale"
    tasks = []
    for job, core in enumerate(told.core.tolist()):
        rows = np.flatnonzero(told.running[:, core] == job)
        start, end = float(told.start[job]), float(told.end[job])
        latency = float(table.latency[job, core])
        tasks.append(
            Task(
                row=core,
                kind=names[job] if names[job] in colours else OTHERS,
                times=[*told.times[rows].tolist(), end],
                speeds=(told.granted[rows, core] / table.bandwidth[job, core]).tolist(),
                tip=f"{table.names[job]}\n{start:,.0f} to {end:,.0f} cycles\n"
                f"{100 * max(0.0, 1 - latency / (end - start)):.0f} % stalled, needs "
                f"{table.bandwidth[job, core]:.3g} bytes per cycle",
            )
        )
    return GanttChart(
        alt=f"{table.jobs} jobs on {table.cores} cores over {told.makespan:,.0f} cycles",
        rows=[f"{number} {name}" for number, name in enumerate(group.cores)],
        axis=Axis(title="cycles", low=0, high=told.makespan),
        tasks=tasks,
        colours=colours,
    )


def bandwidth_chart(group: MappedGroup) -> XYChart:
    """What is needed, and what is moved."""
    told, limit = group.timeline, group.instance.bandwidth
    times = told.times.tolist()
    lines = (
        ("needed", np.minimum(needs(group), HIGHEST * limit), "c1", 1.2),
        ("moved", told.granted.sum(axis=1), "c0", 2.2),
    )
    series = [
        Series(name=name, x=times, y=[*values.tolist(), float(values[-1])], colour=colour,
               width=width, step=True, hover=True)
        for name, values, colour, width in lines
    ]  # fmt: skip
    return XYChart(
        alt="Bytes per cycle that running jobs need and that the cores move, over time",
        x=Axis(title="cycles", low=0, high=told.makespan),
        y=Axis(title="bytes per cycle", low=0, high=1.05 * max(limit, *heights(series))),
        series=series,
        levels=[(limit, "the memory's bandwidth")],
        height=300,
    )


def _search_chart(group: MappedGroup) -> XYChart:
    samples = [samples for samples, _ in group.curve]
    values = [value for _, value in group.curve]
    return XYChart(
        alt="Lowest makespan by samples",
        x=spanning("samples", samples, log=True),
        y=spanning("makespan, cycles", [*values, group.bound]),
        series=[Series(name="lowest makespan", x=samples, y=values, step=True, hover=True)],
        levels=[(group.bound, "lower bound")],
        height=260,
    )


def _jobs(group: MappedGroup) -> str:
    told, jobs = group.timeline, group.instance.table

    def figure(title: str, explained: str = "") -> Column:
        return Column(title=title, number=True, explained=explained)

    def stalled(job: int) -> str:
        time = float(told.end[job] - told.start[job])
        latency = float(jobs.latency[job, told.core[job]])
        return f"{100 * max(0.0, 1 - latency / time):.1f}"

    return table_of(
        "every job",
        told.start.argsort(kind="stable").tolist(),
        {
            Column(title="job"): lambda job: jobs.names[job],
            figure("core"): lambda job: str(int(told.core[job])),
            figure("start", "cycle"): lambda job: f"{told.start[job]:,.0f}",
            figure("end", "cycle"): lambda job: f"{told.end[job]:,.0f}",
            figure("stalled, %", "share of its time that it waits"): stalled,
            figure("bytes", "from and to DRAM"): (
                lambda job: f"{jobs.bytes[job, int(told.core[job])]:,.0f}"
            ),
        },
    )


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
