# SPDX-License-Identifier: Apache-2.0
"""The bandwidth allocator: recorded makespans, an exact plain model, and what physics allows."""

import csv
import itertools
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from support.randomness import fresh_rng, where
from support.search import allocation_model

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.multicore.allocation import Policy, Regulation, makespans, timeline
from tilewright.tuner.multicore.job_table import JobTable

RECORDED = Path(__file__).with_name("magma")


def recorded(name, kind):
    with (RECORDED / f"{name}-{kind}.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", ["s2-conv", "s3-mix"])
def test_reproduces_every_recorded_makespan(name):
    table = JobTable.from_csv(RECORDED / f"{name}-jobs.csv")
    mappings = recorded(name, "mappings")
    core = np.array([[int(digit) for digit in row["cores"]] for row in mappings])
    order = np.array([[int(job) for job in row["order"].split()] for row in mappings])
    priority = np.argsort(order, axis=1).astype(float)
    runs = recorded(name, "makespans")
    assert len(runs) == {"s2-conv": 60, "s3-mix": 40}[name]
    found = {
        bandwidth: makespans(table, float(bandwidth), core, priority)
        for bandwidth in {run["bandwidth"] for run in runs}
    }
    for run in runs:
        value = found[run["bandwidth"]][int(run["mapping"])]
        assert value == pytest.approx(float(run["makespan"]), rel=1e-9, abs=0)


def random_group(rng):
    """A small table of whole numbers, a bandwidth below and above what is needed, a mapping."""
    jobs, cores = int(rng.integers(1, 12)), int(rng.integers(1, 6))
    latency = rng.integers(1, 40, (jobs, cores))
    need = rng.integers(1, 10, (jobs, cores))
    limit = Fraction(int(rng.integers(1, 12 * cores)), int(rng.integers(1, 4)))
    core = rng.integers(0, cores, jobs)
    priority = rng.integers(0, 5, jobs).astype(float)  # many equal ones
    return latency, need, limit, core, priority


def random_regulation(rng, cores):
    """The same rules for the plain model and ours; some cores have no limit."""
    window = Fraction(int(rng.integers(1, 20)))
    budgets = [Fraction(int(v), 2) for v in rng.integers(1, 60, cores)]
    weights = [Fraction(int(v)) for v in rng.integers(1, 5, cores)]
    free = rng.random(cores) < 0.2
    most = [Fraction(10**9) if f else b for f, b in zip(free, budgets, strict=True)]
    native = Regulation(
        window=float(window),
        budgets=tuple(np.inf if f else float(b) for f, b in zip(free, budgets, strict=True)),
        weights=tuple(map(float, weights)),
    )
    return {"window": window, "budgets": most, "weights": weights}, native


@pytest.mark.parametrize("policy", list(Policy))
def test_equals_the_plain_model(policy):
    rng = fresh_rng()
    for case in range(150):
        latency, need, limit, core, priority = random_group(rng)
        exact, native = {}, None
        if policy is Policy.REGULATED:
            exact, native = random_regulation(rng, latency.shape[1])
        expected = allocation_model.makespan(
            latency.tolist(),
            need.tolist(),
            limit,
            core.tolist(),
            priority.tolist(),
            policy,
            **exact,
        )
        table = JobTable(latency, need)
        found = makespans(table, float(limit), [core], [priority], policy, native)[0]
        assert found == pytest.approx(float(expected), rel=1e-9), where(case=case)


@pytest.mark.parametrize("policy", [p for p in Policy if p is not Policy.PRIORITY])
def test_each_port_is_a_memory_of_its_own_and_the_last_decides(policy):
    """Under `Policy.PRIORITY` weights are of the whole group: its ports are no groups alone."""
    rng = fresh_rng()
    for case in range(100):
        latency, need, limit, core, priority = random_group(rng)
        cores = latency.shape[1]
        ports = np.unique(rng.integers(0, 3, cores), return_inverse=True)[1].tolist()
        native = None
        if policy is Policy.REGULATED:
            _, native = random_regulation(rng, cores)
        table = JobTable(latency, need)
        found = makespans(table, float(limit), [core], [priority], policy, native, ports)[0]
        alone = []
        for port in set(ports):
            own = np.flatnonzero(np.array(ports) == port)
            jobs = np.flatnonzero(np.isin(core, own))
            if not jobs.size:
                continue
            part = native and Regulation(
                window=native.window,
                budgets=tuple(native.budgets[c] for c in own),
                weights=tuple(native.weights[c] for c in own),
            )
            small = JobTable(latency[np.ix_(jobs, own)], need[np.ix_(jobs, own)])
            at = np.searchsorted(own, core[jobs])
            alone += [makespans(small, float(limit), [at], [priority[jobs]], policy, part)[0]]
        assert found == pytest.approx(max(alone), rel=1e-9), where(case=case)
        told = timeline(table, float(limit), core, priority, policy, native, ports)
        assert told.makespan == found, where(case=case)


def test_even_budgets_share_a_port_among_its_own_cores():
    assert Regulation.even(6.0, [0, 1, 0], window=10).budgets == (30.0, 60.0, 30.0)


@pytest.mark.parametrize("ports", [(0,), (0, 2), (-1, 0), (1, 1)])
def test_ports_that_cannot_be_are_refused(ports):
    table = JobTable([[1, 1]], [[1, 1]])
    with pytest.raises(ConfigError, match="ports: must be 2 numbers of ports"):
        makespans(table, 1.0, [[0]], [[0]], ports=ports)


@pytest.mark.parametrize("policy", list(Policy))
def test_a_timeline_keeps_to_the_bandwidth_and_moves_every_byte(policy):
    rng = fresh_rng()
    for case in range(60):
        latency, need, limit, core, priority = random_group(rng)
        table = JobTable(latency, need)
        native = None
        if policy is Policy.REGULATED:
            _, native = random_regulation(rng, table.cores)
        told = timeline(table, float(limit), core, priority, policy, native)
        note = where(case=case)
        cycles = np.diff(told.times)
        assert (cycles > 0).all(), note
        mine = need[np.arange(table.jobs), core]
        assert (told.granted.sum(axis=1) <= float(limit) * (1 + 1e-9)).all(), note
        moved = np.zeros(table.jobs)
        for c in range(table.cores):
            for segment, job in enumerate(told.running[:, c]):
                if job < 0:
                    assert told.granted[segment, c] == 0, note
                    continue
                assert core[job] == c, note
                assert told.granted[segment, c] <= mine[job] * (1 + 1e-9), note
                assert told.start[job] <= told.times[segment], note
                assert told.times[segment + 1] <= told.end[job] * (1 + 1e-9), note
                moved[job] += told.granted[segment, c] * cycles[segment]
        work = latency[np.arange(table.jobs), core] * mine
        assert moved == pytest.approx(work.astype(float), rel=1e-9), note
        assert (told.end - told.start >= work / mine * (1 - 1e-9)).all(), note
        assert told.makespan == pytest.approx(told.end.max(), rel=1e-12), note
        assert told.makespan == makespans(
            table, float(limit), [core], [priority], policy, native
        ), note
        order = np.lexsort((np.arange(table.jobs), priority))
        for c in range(table.cores):
            queue = [job for job in order if core[job] == c]
            for first, second in itertools.pairwise(queue):
                assert told.start[second] == told.end[first], note


@pytest.mark.parametrize("policy", list(Policy))
def test_no_makespan_is_below_its_busiest_core_nor_its_bytes(policy):
    rng = fresh_rng()
    table = JobTable(np.exp(rng.normal(8, 2, (50, 4))), np.exp(rng.normal(0, 1.5, (50, 4))))
    core = rng.integers(0, 4, (200, 50))
    priority = rng.random((200, 50))
    rows = np.arange(50)
    busiest = max_per_row(core, table.latency[rows, core], 4)
    for bandwidth in (0.3, 2.0, 40.0):
        found = makespans(table, bandwidth, core, priority, policy)
        transfer = table.bytes[rows, core].sum(axis=1) / bandwidth
        assert (found >= np.maximum(busiest, transfer) * (1 - 1e-9)).all()
        if policy is not Policy.REGULATED:
            assert (found <= (busiest_sum(table, core) + transfer) * (1 + 1e-9)).all()


def max_per_row(core, latency, cores):
    return np.max([np.where(core == c, latency, 0).sum(axis=1) for c in range(cores)], axis=0)


def busiest_sum(table, core):
    return table.latency[np.arange(table.jobs), core].sum(axis=1)


def test_equal_shares_hand_on_what_is_not_needed():
    table = JobTable([[10.0] * 3] * 3, [[1.0] * 3, [9.0] * 3, [9.0] * 3])
    assert timeline(table, 9, [0, 1, 2], [0, 0, 0], "equal").granted[0].tolist() == [1, 4, 4]


def test_a_job_on_a_core_that_cannot_run_it_never_ends():
    table = JobTable([[10, np.inf], [10, 10]], np.ones((2, 2)))
    assert makespans(table, 1, [[0, 1], [1, 0]], np.zeros((2, 2))).tolist() == [20, np.inf]
    with pytest.raises(ConfigError, match=r"core\[0\]: must be a core that can run J0, not 1"):
        timeline(table, 1, [1, 0], [0, 0])


TABLE = JobTable(np.full((3, 2), 5.0), np.ones((3, 2)))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"bandwidth": 0}, "bandwidth: must be a number from 1e-100 to .*, not 0"),
        ({"bandwidth": float("nan")}, "bandwidth: must be a number from .*, not nan"),
        ({"policy": "propotional"}, "policy: no policy of that name: .*did you mean.*proportional"),
        ({"core": [[0, 1]]}, r"core: core and priority must have one shape, \[population, 3\]"),
        ({"core": [[0, 1, 2]]}, "core: must be integers from 0 to 1, not 'int64 from 0 to 2'"),
        ({"core": [[0, -1, 1]]}, "core: must be integers from 0 to 1"),
        ({"core": [[0, 0.5, 1]]}, "core: must be integers from 0 to 1"),
        ({"priority": [[0, 1, 2]] * 2}, "priority: core and priority must have one shape"),
        ({"priority": [[0, 1, float("nan")]]}, "priority: must be numbers, not nan"),
        ({"regulation": Regulation.even(1, [0, 0])}, "regulation: only the policy regulated has"),
        (
            {"policy": "regulated", "regulation": Regulation.even(1, [0, 0, 0])},
            "budgets: must be 2 budgets, one per core, not 3",
        ),
    ],
)
def test_refuses_what_is_no_mapping_nor_policy(changed, message):
    asked = {"bandwidth": 1, "core": [[0, 1, 1]], "priority": [[0, 1, 2]]}
    with pytest.raises(ConfigError, match=message):
        makespans(TABLE, **(asked | changed))


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"budgets": (1, 0)}, r"budgets\[1\]: must be a number from 1e-100 to .*, not 0"),
        ({"weights": (1, -1)}, r"weights\[1\]: must be a number from 1e-100 to .*, not -1"),
        ({"weights": (1,)}, "weights: must be 2 weights, one per core, not 1"),
        ({"window": 0}, "window: must be a number from 1e-100 to .*, not 0"),
    ],
)
def test_refuses_a_regulation_that_never_lets_a_core_work(changed, message):
    with pytest.raises(ConfigError, match=message):
        Regulation(**({"window": 10, "budgets": (1, 1)} | changed))
