# SPDX-License-Identifier: Apache-2.0
"""Chrome traces of programs."""

import json
from dataclasses import replace

import pytest
from support.documents.chrome_trace import require_valid

from tilewright.host.common.errors import DeviceError
from tilewright.host.lowering import default_schedule, lower
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.isa import Unit
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.trace import NO_TOKEN, write_trace

HW = load_hwconfig("tiny-4x4")


@pytest.fixture(scope="module")
def layer():
    task = conv2d("small", 6, 8, 8, 3, 1, 1)
    return lower(HW, task, default_schedule(HW, task))


@pytest.fixture(scope="module")
def traced(layer, tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "deep" / "out.json"
    twin = Twin(HW, load_memory("ideal"))
    counters = twin.counters(layer.program)
    count = write_trace(path, twin, layer.program, counters)
    return json.loads(path.read_text()), counters, count


def test_every_instruction_of_every_unit_begins_and_ends(traced, layer):
    document, counters, count = traced
    require_valid(document)
    events = document["traceEvents"]
    assert count == layer.program.instruction_count - 1  # all but FINISH
    for unit in Unit:
        begun = {e["id"]: e["ts"] for e in events if e["ph"] == "b" and e["pid"] == unit}
        ended = {e["id"]: e["ts"] for e in events if e["ph"] == "e" and e["pid"] == unit}
        assert len(begun) == counters[f"{unit.name.lower()}_instructions"]
        assert begun.keys() == ended.keys()
        assert all(begun[each] < ended[each] for each in begun)
    assert max(e["ts"] for e in events if e["ph"] == "e") <= counters.cycles


def test_waits_do_not_overlap_and_name_their_cause(traced):
    document, _, _ = traced
    for unit in Unit:
        waits = [e for e in document["traceEvents"] if e["ph"] == "X" and e["pid"] == unit]
        ends = 0
        for wait in waits:
            assert wait["ts"] >= ends
            ends = wait["ts"] + wait["dur"]
            assert wait["name"] in {NO_TOKEN, *(f"waits for {u.name}" for u in Unit if u != unit)}
    named = {(e["pid"], e["name"]) for e in document["traceEvents"] if e["ph"] == "X"}
    assert (Unit.GEMM, "waits for LOAD") in named
    assert (Unit.STORE, "waits for VECTOR") in named


def test_a_run_with_other_counters_has_no_trace(layer, tmp_path):
    twin = Twin(HW, load_memory("ideal"))
    counters = twin.counters(layer.program)
    wrong = replace(counters, values={**counters.values, "cycles": counters.cycles + 1})
    with pytest.raises(DeviceError, match="cycles"):
        write_trace(tmp_path / "out.json", twin, layer.program, wrong)
    assert not (tmp_path / "out.json").exists()


def test_a_place_that_cannot_be_written_is_one_clear_error(layer, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DeviceError, match="trace"):
        write_trace(tmp_path / "file" / "x.json", Twin(HW, load_memory("ideal")), layer.program)
