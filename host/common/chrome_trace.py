# SPDX-License-Identifier: Apache-2.0
"""Chrome traces: the JSON that ui.perfetto.dev and chrome://tracing show.

Source: Google, "Trace Event Format": an object whose ``traceEvents`` have a phase ``ph``, a process
``pid``, and times in microseconds. Here a microsecond of the viewer is a cycle.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tilewright.host.common.errors import DeviceError
from tilewright.host.common.whole_file import MARK, write_whole

Event = dict[str, Any]


def write_events(path: Path, events: Iterable[Event], other: Mapping[str, Any]) -> None:
    """Write a trace."""
    document = {
        "generator": MARK,
        "traceEvents": list(events),
        "displayTimeUnit": "ns",
        "otherData": dict(other),
    }
    try:
        write_whole(path, json.dumps(document) + "\n")
    except OSError as error:
        raise DeviceError(
            f"the trace cannot be written ({error.strerror})",
            field="trace",
            value=str(path),
            remedy="name a file in a folder that can be written",
        ) from error


def process_name(pid: int, name: str) -> Event:
    """The name of a process."""
    return {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}


def thread_name(pid: int, tid: int, name: str) -> Event:
    """The name of a thread of a process."""
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}
