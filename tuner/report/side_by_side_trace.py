# SPDX-License-Identifier: Apache-2.0
"""Frames of networks on the cores of a system as a Chrome trace: a thread per core."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.chrome_trace import Event, process_name, thread_name, write_events
from tilewright.tuner.report.side_by_side_page import Slice

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
