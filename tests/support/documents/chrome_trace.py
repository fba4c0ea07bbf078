# SPDX-License-Identifier: Apache-2.0
"""The fields that Google's "Trace Event Format" documents, as a check."""

from itertools import pairwise

_UNITS = ("ms", "ns")
_NAMES = ("process_name", "process_labels", "process_sort_index", "thread_name")
_PHASES = {
    "X": ("name", "cat", "ts", "dur", "pid", "tid"),
    "b": ("name", "cat", "ts", "id", "pid", "tid"),
    "e": ("name", "cat", "ts", "id", "pid", "tid"),
    "C": ("name", "ts", "pid", "args"),
    "M": ("name", "pid", "args"),
}
"""Phases that we write, each with the fields that it must have; ``cat`` only where a viewer may
filter by it."""
_OPTIONAL = {"X": ("cat",)}


def require_valid(document):
    """Fails where a document is not what the format says."""
    assert isinstance(document["traceEvents"], list)
    assert document.get("displayTimeUnit", "ms") in _UNITS
    slices, asynchronous = {}, {}
    for event in document["traceEvents"]:
        phase = event["ph"]
        assert phase in _PHASES, event
        for field in _PHASES[phase]:
            assert field in event or field in _OPTIONAL.get(phase, ()), (field, event)
        assert type(event["pid"]) is int, event
        assert isinstance(event["name"], str), event
        for field in ("ts", "dur"):
            assert field not in event or 0 <= event[field] < float("inf"), event
        if phase == "M":
            assert event["name"] in _NAMES, event
            assert isinstance(event["args"]["name"], str), event
        elif phase == "C":
            assert event["args"], event
            assert all(isinstance(value, int | float) for value in event["args"].values()), event
        elif phase == "X":
            slices.setdefault((event["pid"], event["tid"]), []).append(event)
        else:
            asynchronous.setdefault((event["cat"], event["id"]), []).append(phase)
    for of_thread in slices.values():  # the format wants slices of a thread nested or apart
        of_thread.sort(key=lambda event: event["ts"])
        for first, second in pairwise(of_thread):
            slack = 1e-9 * (second["ts"] + 1)
            assert first["ts"] + first["dur"] <= second["ts"] + slack, (first, second)
    assert all(sorted(phases) == ["b", "e"] for phases in asynchronous.values())
