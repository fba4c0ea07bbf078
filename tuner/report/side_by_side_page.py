# SPDX-License-Identifier: Apache-2.0
"""What networks on the cores of a system cost each other, as one self-contained HTML file."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.chrome_trace import Event, process_name, thread_name, write_events
from tilewright.tuner.report.drawing import page as markup
from tilewright.tuner.report.drawing.bar_chart import (
    BarChart,
    Bars,
    GanttChart,
    Layout,
    Task,
    stacked,
)
from tilewright.tuner.report.drawing.marks import series_colour
from tilewright.tuner.report.drawing.scales import Axis, spanning
from tilewright.tuner.report.drawing.table import Cell, Column, table_of

_WAITS: Final = (
    ("read_waited", "reads wait for others"),
    ("read_throttled", "reads wait for their budget"),
    ("write_waited", "writes wait for others"),
    ("write_throttled", "writes wait for their budget"),
)
MOST_SLICES: Final = 2000
"""Frames of a page, which a browser has to draw."""

WORDS: Final = (
    ("alone", "cycles of a frame while the other cores rest, without weights and budgets"),
    ("together", "cycles per frame while all networks run"),
    ("slow-down", "together over alone"),
    ("latency", "from the end of the network's frame before to the end of the frame"),
    ("throughput", "sum of alone over together; as large as the networks are many: no loss"),
    ("fairness", "Jain's index of alone over together: 1 if all lose the same share"),
)


@dataclass(frozen=True, kw_only=True)
class Slice:
    """A frame on a core."""

    network: str  # whose it is
    number: int  # of the frame, from 0
    core: int  # that runs it
    begin: int  # cycles from the first start of the run
    end: int
    alone: int  # cycles that it takes alone

    @property
    def speed(self) -> float:
        """Share of its speed alone."""
        return min(1.0, self.alone / (self.end - self.begin))


def page(
    rows: Sequence[Mapping[str, Any]],
    summary: Mapping[str, Any],
    conditions: Mapping[str, Any],
    slices: Sequence[Slice] = (),
) -> str:
    """The page."""
    title = f"{', '.join(str(row['network']) for row in rows)} on {conditions['system']}"
    parts = [markup.heading(title, f"{conditions['fidelity']}, memory {conditions['memory']}")]
    if summary["makespan"] is None:
        parts.append(markup.paragraph("The run together was stopped before its end.", "wrong"))
    else:
        parts += [markup.tiles(_figures(summary, conditions, len(rows))), _waits(rows, summary)]
    return markup.document(
        title,
        *parts,
        markup.section("Networks", _table(rows), markup.definitions(WORDS)),
        _frames(slices),
        markup.section(
            "Conditions",
            markup.bullets(
                [f"{name}: {value}" for name, value in conditions.items() if name != "hw"]
            ),
        ),
    )


def _figures(
    summary: Mapping[str, Any], conditions: Mapping[str, Any], networks: int
) -> list[tuple[str, str, str]]:
    milliseconds = summary["makespan"] / conditions["clock_mhz"] / 1e3
    wrong = summary["wrong_bytes"]
    return [
        ("makespan", f"{summary['makespan']:,}", f"cycles, {milliseconds:.2f} ms"),
        ("throughput", f"{summary['throughput']:.3f}", f"of {networks}"),
        ("fairness", f"{summary['jain']:.3f}", "Jain's index"),
        ("results", "not compared" if wrong is None else "exact" if not wrong else "WRONG", ""),
    ]


def _waits(rows: Sequence[Mapping[str, Any]], summary: Mapping[str, Any]) -> str:
    """Cycles in which each core waited at its arbiter, as shares of the makespan."""
    cores = {row["core"]: row for row in rows}
    shares = [
        [100 * row[name] / summary["makespan"] for row in cores.values()] for name, _ in _WAITS
    ]
    highest = max(1.0, *(sum(column) for column in zip(*shares, strict=True)))
    bars = [
        Bars(
            name=words,
            values=values,
            colour=series_colour(number),
            tips=[f"{value:.2f} % of the makespan" for value in values],
        )
        for number, ((_, words), values) in enumerate(zip(_WAITS, shares, strict=True))
    ]
    chart = BarChart(
        alt="cycles of waiting at the memory port, by core",
        rows=[f"core {core}" for core in cores],
        axis=spanning("cycles of the makespan, %", [0.0, highest], zero=True),
        bars=stacked(bars),
        layout=Layout.STACKED,
    )
    return markup.section(
        "Waits at the memory port",
        markup.paragraph(
            "Most of them are hidden behind work: the slow-down says what is lost.", "note"
        ),
        markup.figure(chart, "waits"),
    )


def _frames(slices: Sequence[Slice]) -> str:
    """When each frame ran, and how fast."""
    shown = slices[:MOST_SLICES]
    if not shown:
        return ""
    cores = sorted({each.core for each in shown})
    networks = list(dict.fromkeys(each.network for each in shown))
    last = max(each.end for each in shown)
    chart = GanttChart(
        alt="frames of each core over time",
        rows=[f"core {core}" for core in cores],
        axis=Axis(title="cycles", low=0.0, high=float(last)),
        tasks=[
            Task(
                row=cores.index(each.core),
                kind=each.network,
                times=(each.begin, each.end),
                speeds=(each.speed,),
                tip=f"{each.network} {each.number}: {each.begin:,} to {each.end:,}, "
                f"{100 * each.speed:.1f} % of its speed alone",
            )
            for each in shown
        ],
        colours={name: series_colour(number) for number, name in enumerate(networks)},
    )
    note = "A frame is drawn as high as it is fast."
    if len(slices) > len(shown):
        note += f" The first {len(shown)} of {len(slices)} frames are shown."
    return markup.section(
        "Frames over time", markup.paragraph(note, "note"), markup.figure(chart, "frames")
    )


def _table(rows: Sequence[Mapping[str, Any]]) -> str:
    keys = {
        "core": "core", "frames": "frames", "alone": "alone_cycles", "together": "together_cycles",
        "slow-down": "slow_down", "first": "latency_first", "median": "latency_median",
        "worst": "latency_worst", "frames/s": "frames_per_s",
    }  # fmt: skip

    def figure(key: str) -> Callable[[Mapping[str, Any]], str | Cell]:
        return lambda row: "-" if row[key] is None else f"{row[key]:,}"

    columns: dict[str | Column, Callable[[Mapping[str, Any]], str | Cell]] = {
        Column(title="network"): lambda row: str(row["network"]),
        **{title: figure(key) for title, key in keys.items()},
    }
    return table_of("networks", rows, columns)


_CORES: Final = 0
"""Process of the trace."""


def write_trace(path: Path, slices: Sequence[Slice], other: Mapping[str, Any]) -> None:
    """Write the trace; one microsecond of the viewer is a cycle."""
    write_events(path, trace_events(slices), other)


def trace_events(slices: Sequence[Slice]) -> Iterator[Event]:
    """The events: names of the cores, a slice per frame."""
    yield process_name(_CORES, "cores")
    for core in sorted({each.core for each in slices}):
        yield thread_name(_CORES, core, f"core {core}")
    for each in slices:
        yield {
            "ph": "X",
            "cat": "frame",
            "name": f"{each.network} {each.number}",
            "pid": _CORES,
            "tid": each.core,
            "ts": each.begin,
            "dur": each.end - each.begin,
            "args": {"alone_cycles": each.alone, "speed": round(each.speed, 4)},
        }
