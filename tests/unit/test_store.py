# SPDX-License-Identifier: Apache-2.0
"""The store keeps every acknowledged trial and refuses files that it cannot trust."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.analytic import BASE, MEMORY, SMALL, counters_of

from tilewright.host.board import MemoryModel
from tilewright.host.errors import StoreError
from tilewright.host.hwconfig import HwConfig
from tilewright.host.schedule import Schedule
from tilewright.host.workload import Workload
from tilewright.tuner.measurement import Measurement, Request, Status
from tilewright.tuner.store import SCHEMA_VERSION, Store, StoredConfig

SETTINGS = {"budget": 10, "seed": 0, "tasks": [SMALL.to_mapping()]}


def request(tile_h: int = 1, *, memory: MemoryModel = MEMORY, max_cycles: int = 1000) -> Request:
    schedule = Schedule(tile_h=tile_h, tile_w=1, tile_ci=1, tile_co=1)
    return Request(hw=BASE, workload=SMALL, schedule=schedule, memory=memory, max_cycles=max_cycles)


def measured(cycles: int = 500) -> Measurement:
    return Measurement(
        status=Status.OK,
        fidelity="test",
        cycles=cycles,
        counters=counters_of(cycles),
        limit_cycles=1000,
        host_seconds=0.25,
        output_checked=True,
    )


def add(store: Store, study: int, sequence: int, request: Request, answer: Measurement) -> None:
    store.add_trial(
        study,
        sequence=sequence,
        task="S",
        origin="random",
        request=request,
        measurement=answer,
        oracle="oracle-1",
    )


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "runs" / "s.sqlite") as opened:
        yield opened


@settings(max_examples=30, deadline=None)
@given(
    status=st.sampled_from(list(Status)),
    cycles=st.integers(1, 2**50),
    failure=st.text(max_size=50),
    seconds=st.floats(0, 1e6),
    checked=st.booleans(),
    tile=st.integers(1, 10_000),
)
def test_a_trial_comes_back_as_it_went_in(
    tmp_path_factory, status, cycles, failure, seconds, checked, tile
) -> None:
    answer = Measurement(
        status=status,
        fidelity="test",
        cycles=cycles if status is Status.OK else None,
        counters=counters_of(cycles),
        failure=failure,
        limit_cycles=cycles,
        host_seconds=seconds,
        output_checked=checked,
    )
    path = tmp_path_factory.mktemp("s") / "s.sqlite"
    with Store(path) as store:
        study = store.open_study("a", SETTINGS, {})
        add(store, study.id, 0, request(tile), answer)
    with Store(path) as store:
        (trial,) = store.trials(study.id)
    assert trial.measurement == answer
    hw = HwConfig.from_mapping(trial.hw)
    rebuilt = Request(
        hw=hw,
        workload=Workload.from_mapping(trial.workload),
        schedule=Schedule.from_mapping(trial.schedule),
        memory=MemoryModel(name="test", **trial.memory),
        max_cycles=1000,
    )
    assert rebuilt == request(tile)


def test_equal_settings_resume_and_other_settings_are_refused(store: Store) -> None:
    study = store.open_study("a", SETTINGS, {"v": "1"})
    store.set_status(study.id, "complete")
    assert store.open_study("a", SETTINGS, {"v": "2"}).id == study.id
    assert store.study("a").status == "running"
    with pytest.raises(StoreError, match=r"budget \(was 10, now 11\).*--name") as caught:
        store.open_study("a", {**SETTINGS, "budget": 11}, {})
    assert "seed" not in str(caught.value)


def test_trials_come_in_proposal_order_whatever_the_order_of_commits(store: Store) -> None:
    study = store.open_study("a", SETTINGS, {})
    for sequence in (2, 0, 1):
        add(store, study.id, sequence, request(sequence + 1), measured())
    assert [t.sequence for t in store.trials(study.id)] == [0, 1, 2]


@pytest.mark.parametrize(("sequence", "tile"), [(0, 2), (1, 1)])
def test_refuses_the_same_trial_or_number_twice(store: Store, sequence: int, tile: int) -> None:
    study = store.open_study("a", SETTINGS, {})
    add(store, study.id, 0, request(1), measured())
    with pytest.raises(StoreError, match="another process"):
        add(store, study.id, sequence, request(tile), measured())
    assert len(store.trials(study.id)) == 1


def test_a_measurement_of_an_earlier_study_is_found_and_marked(store: Store) -> None:
    old = store.open_study("old", SETTINGS, {})
    add(store, old.id, 0, request(1), measured(500))
    new = store.open_study("new", SETTINGS, {})
    found = store.earlier(new.id, request(1), "oracle-1")
    assert found is not None
    assert (found.cycles, found.cached, found.valid) == (500, True, True)
    assert store.earlier(old.id, request(1), "oracle-1") is None
    assert store.earlier(new.id, request(2), "oracle-1") is None
    assert store.earlier(new.id, request(1), "oracle-2") is None
    slow = MemoryModel(**{**vars(MEMORY), "read_latency": 99})
    assert store.earlier(new.id, request(1, memory=slow), "oracle-1") is None
    renamed = MemoryModel(**{**vars(MEMORY), "name": "label"})
    assert store.earlier(new.id, request(1, memory=renamed), "oracle-1") is not None


def test_an_earlier_measurement_above_the_limit_is_a_timeout(store: Store) -> None:
    old = store.open_study("old", SETTINGS, {})
    add(store, old.id, 0, request(1), measured(500))
    new = store.open_study("new", SETTINGS, {})
    found = store.earlier(new.id, request(1, max_cycles=499), "oracle-1")
    assert found is not None
    assert (found.status, found.cycles, found.valid) == (Status.TIMEOUT, None, False)


@pytest.mark.parametrize(("now", "known"), [(1000, True), (900, True), (1001, False)])
def test_an_earlier_timeout_counts_up_to_its_limit(store: Store, now: int, known: bool) -> None:
    old = store.open_study("old", SETTINGS, {})
    late = Measurement(status=Status.TIMEOUT, fidelity="test", limit_cycles=1000)
    add(store, old.id, 0, request(1), late)
    new = store.open_study("new", SETTINGS, {})
    found = store.earlier(new.id, request(1, max_cycles=now), "oracle-1")
    assert (found is not None) is known


@pytest.mark.parametrize("status", [Status.FAILED, Status.MISMATCH])
def test_earlier_failures_are_tried_again(store: Store, status: Status) -> None:
    old = store.open_study("old", SETTINGS, {})
    add(store, old.id, 0, request(1), Measurement(status=status, fidelity="test"))
    new = store.open_study("new", SETTINGS, {})
    assert store.earlier(new.id, request(1), "oracle-1") is None


def test_a_configuration_is_replaced_in_place(store: Store) -> None:
    study = store.open_study("a", SETTINGS, {})
    for name, status in (("one", "measured"), ("two", "pruned"), ("one", "incomplete")):
        config = StoredConfig(
            config_hash=name, hw={"name": name}, area={}, bounds={"S": 1}, status=status, reason=""
        )
        store.put_config(study.id, config)
    found = [(c.config_hash, c.status) for c in store.configs(study.id)]
    assert found == [("one", "incomplete"), ("two", "pruned")]


def test_kill_nine_loses_no_acknowledged_trial(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from unit.test_store import SETTINGS, add, measured, request
from tilewright.tuner.store import Store
store = Store(Path(sys.argv[1]))
study = store.open_study("a", SETTINGS, {})
for n in range(100_000):
    add(store, study.id, n, request(n + 1), measured())
    print(n, flush=True)
"""
    path = tmp_path / "s.sqlite"
    tests = str(Path(__file__).resolve().parents[1])
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": tests},
    ) as child:
        assert child.stdout is not None
        last = -1
        while last < 20:
            last = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        rest = child.stdout.read().split("\n")
        last = max([last, *(int(line) for line in rest[:-1])])
    with Store(path) as store:
        kept = [t.sequence for t in store.trials(store.study("a").id)]
    assert kept[: last + 1] == list(range(last + 1))
    assert len(kept) <= last + 2


def test_a_missing_store_is_refused_when_it_must_exist(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such trial store"):
        Store(tmp_path / "none.sqlite", must_exist=True)
    assert not (tmp_path / "none.sqlite").exists()


def test_a_newer_store_is_refused_untouched(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    Store(path).close()
    with sqlite3.connect(path) as raw:
        raw.execute("UPDATE schema_version SET version = ?", (SCHEMA_VERSION + 1,))
    before = path.read_bytes()
    with pytest.raises(StoreError, match=f"version {SCHEMA_VERSION}, not {SCHEMA_VERSION + 1}"):
        Store(path)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", [b"this is text, no database" * 100, b"SQLite format 3\0" + b"x" * 5000]
)
def test_a_file_that_is_no_store_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "s.sqlite"
    path.write_bytes(content)
    with pytest.raises(StoreError, match="cannot be used") as caught:
        Store(path)
    assert str(path) in str(caught.value)
    assert path.read_bytes() == content


def test_another_database_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with sqlite3.connect(path) as raw:
        raw.execute("CREATE TABLE music (title TEXT)")
    with pytest.raises(StoreError, match="not a trial store"):
        Store(path)


def test_a_damaged_store_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        study = store.open_study("a", SETTINGS, {})
        for n in range(60):
            add(store, study.id, n, request(n + 1), measured())
    data = bytearray(path.read_bytes())
    data[3 * 4096 :] = b"\xff" * (len(data) - 3 * 4096)
    path.write_bytes(bytes(data))
    with pytest.raises(StoreError, match=r"damaged|cannot be used"):
        Store(path)


def test_an_unknown_study_is_refused_with_the_known_ones(store: Store) -> None:
    store.open_study("known", SETTINGS, {})
    with pytest.raises(StoreError, match="known"):
        store.study("other")
