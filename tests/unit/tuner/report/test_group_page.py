# SPDX-License-Identifier: Apache-2.0
"""The report and the trace of a mapped group show what the allocator says."""

import json

import numpy as np
import pytest
from support.documents.chrome_trace import require_valid
from support.randomness import fresh_rng
from support.search.multicore import random_instance

from tilewright.host.common.errors import DeviceError
from tilewright.tuner.multicore.allocation import Policy, timeline
from tilewright.tuner.multicore.encoding import random_population
from tilewright.tuner.multicore.instance import Instance
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.report import group_page


def mapped(instance, rng):
    drawn = random_population(instance.table, 1, rng)
    told = timeline(
        instance.table, instance.bandwidth, drawn.core[0], drawn.priority[0], instance.policy
    )
    return group_page.MappedGroup(
        title="a <group>",
        instance=instance,
        timeline=told,
        cores=[f"kind{core % 2}" for core in range(instance.table.cores)],
        bound=told.makespan / 2,
        curve=[(1, 2 * told.makespan), (7, told.makespan)],
        conditions=("seed 1",),
    )


@pytest.fixture(scope="module", params=[Policy.PROPORTIONAL, Policy.EQUAL])
def group(request):
    rng = fresh_rng()
    return mapped(random_instance(rng, 40, 4, 0.5, request.param), rng)


def integral(group, values):
    return float((values * np.diff(group.timeline.times)).sum())


def test_every_job_is_drawn_once_and_its_area_is_its_latency(group):
    chart, table = group_page.jobs_chart(group), group.instance.table
    assert len(chart.tasks) == table.jobs
    for job, task in enumerate(chart.tasks):
        assert task.tip.startswith(f"{table.names[job]}\n")
        assert task.times[0] == pytest.approx(group.timeline.start[job], abs=1e-6)
        assert task.times[-1] == pytest.approx(group.timeline.end[job])
        area = float((np.diff(task.times) * np.array(task.speeds)).sum())
        assert area == pytest.approx(table.latency[job, task.row], rel=1e-6)


def test_the_bandwidth_that_is_drawn_moves_every_byte(group):
    table, told = group.instance.table, group.timeline
    moved = told.granted.sum(axis=1)
    assert integral(group, moved) == pytest.approx(
        table.bytes[np.arange(table.jobs), told.core].sum()
    )
    assert (moved <= group_page.needs(group) * (1 + 1e-9)).all()
    drawn = next(s for s in group_page.bandwidth_chart(group).series if s.name == "moved")
    assert list(drawn.y[:-1]) == moved.tolist()
    assert max(drawn.y) <= group.instance.bandwidth * (1 + 1e-9)


def test_the_page_is_one_file_and_escapes_names(group):
    text = group_page.page(group)
    assert "a &lt;group&gt;" in text
    assert "a <group>" not in text
    assert "src=" not in text
    assert "href=" not in text
    assert text.count('<svg viewBox="0 0 358') == 3  # each chart for a phone, too


def test_networks_without_a_colour_of_their_own_are_others():
    rng = fresh_rng()
    names = tuple(f"network{number % 12}.layer{number}" for number in range(36))
    table = JobTable(rng.uniform(1, 9, (36, 2)), rng.uniform(1, 2, (36, 2)), names)
    chart = group_page.jobs_chart(mapped(Instance(table=table, bandwidth=2.0), rng))
    assert list(chart.colours.values()) == [*(f"c{number}" for number in range(8)), "pale"]
    assert {task.kind for task in chart.tasks} == set(chart.colours)
    assert group_page.OTHERS in chart.colours


def test_the_trace_has_the_fields_of_the_format_and_every_job(group, tmp_path):
    path = tmp_path / "deep" / "trace.json"
    group_page.write_trace(path, group)
    document = json.loads(path.read_text())
    require_valid(document)
    events, told = document["traceEvents"], group.timeline
    jobs = {event["name"]: event for event in events if event["ph"] == "X"}
    assert sorted(jobs) == sorted(group.instance.table.names)
    for job, name in enumerate(group.instance.table.names):
        event = jobs[name]
        assert event["tid"] == told.core[job]
        assert event["ts"] == told.start[job]
        assert event["ts"] + event["dur"] == pytest.approx(told.end[job])
    moved = [e for e in events if e["ph"] == "C" and "moved" in e["args"]]
    times = np.array([event["ts"] for event in moved])
    values = np.array([event["args"]["moved"] for event in moved])
    assert float((values[:-1] * np.diff(times)).sum()) == pytest.approx(
        integral(group, told.granted.sum(axis=1))
    )
    assert document["otherData"]["makespan"] == told.makespan


def test_a_trace_that_cannot_be_written_is_one_clear_error(group, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(DeviceError, match="trace"):
        group_page.write_trace(tmp_path / "file" / "x.json", group)
