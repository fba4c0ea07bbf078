# SPDX-License-Identifier: Apache-2.0
"""The store gives back what it was given, on SQLite and on PostgreSQL alike."""

import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy.dialects import sqlite
from support.randomness import generator
from support.search.analytic_oracle import counters_of
from support.search.results import network_curve, task_curve
from support.search.trials import DIALECTS, SETTINGS, add, measured, new_location, request

from tilewright.host.common.errors import StoreError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload, conv2d
from tilewright.testing.analytic import BASE, MEMORY
from tilewright.tuner.measure.energy import energy_pj
from tilewright.tuner.measure.measurement import Measurement, Request, Status, hw_key
from tilewright.tuner.store.records import request_key, reused
from tilewright.tuner.store.store import DuplicateTrialError, Store, StoredConfig
from tilewright.tuner.store.summary import _COUNTS, _FRONT, _IMPROVEMENTS
from tilewright.tuner.study import results
from tilewright.tuner.study.schedule_lookup import ScheduleLookup


@pytest.fixture(params=DIALECTS)
def location(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    return new_location(request.param, tmp_path)


@pytest.fixture
def store(location: Path | str):
    with Store(location) as opened:
        yield opened


def earlier(store: Store, asked: Request, oracle: str = "oracle-1") -> Measurement | None:
    """What an equal request may take from the store."""
    found = store.measured([request_key(asked, oracle)])
    usable = [reused(m, asked.max_cycles) for ms in found.values() for m in ms]
    return next((m for m in usable if m is not None), None)


@pytest.mark.parametrize("dialect", DIALECTS)
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
    tmp_path_factory, dialect, status, cycles, failure, seconds, checked, tile
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
    location = new_location(dialect, tmp_path_factory.mktemp("s"))
    with Store(location) as store:
        study = store.open_study("a", SETTINGS, {})
        add(store, study.id, 0, request(tile), answer)
    with Store(location) as store:
        (trial,) = store.trials(study.id)
        assert store.trial(study.id, 0) == trial
        assert store.trial(study.id, 1) is None
    expected = replace(answer, failure=failure.replace("\0", "\N{REPLACEMENT CHARACTER}"))
    assert trial.measurement == expected
    hw = HwConfig.from_mapping(trial.hw)
    rebuilt = Request(
        hw=hw,
        workload=Workload.from_mapping(trial.workload),
        schedule=Schedule.from_mapping(trial.schedule),
        memory=MemoryModel(name="test", **trial.memory),
        max_cycles=1000,
    )
    assert rebuilt == request(tile)


def test_names_have_no_length(store: Store) -> None:
    study = store.open_study("a" * 300, SETTINGS, {})
    store.add_trial(
        study.id,
        sequence=0,
        task="t" * 300,
        origin="random",
        request=request(),
        measurement=measured(),
        oracle="o" * 300,
    )
    assert [t.task for t in store.trials(store.study("a" * 300).id)] == ["t" * 300]


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
    add(store, study.id, 0, request(1), measured(500))
    with pytest.raises(DuplicateTrialError):
        add(store, study.id, sequence, request(tile), measured(600))
    assert [t.measurement.cycles for t in store.trials(study.id)] == [500]


def test_a_measurement_of_an_earlier_study_is_found_and_marked(store: Store) -> None:
    add(store, store.open_study("old", SETTINGS, {}).id, 0, request(1), measured(500))
    found = earlier(store, request(1))
    assert found is not None
    assert (found.cycles, found.cached, found.valid) == (500, True, True)
    assert earlier(store, request(2)) is None
    assert earlier(store, request(1), "oracle-2") is None
    slow = MemoryModel(**{**vars(MEMORY), "read_latency": 99})
    assert earlier(store, request(1, memory=slow)) is None
    renamed = MemoryModel(**{**vars(MEMORY), "name": "label"})
    assert earlier(store, request(1, memory=renamed)) is not None


@pytest.mark.parametrize(
    ("tuner", "kept"),
    [
        ("my_package.tuners:MyTuner", "MyTuner"),
        ("my_package.tuners:ATunerOfARatherLongName", "ATunerOfARatherLongN"),
    ],
)
def test_a_tuner_of_any_name_has_trials(store: Store, tuner: str, kept: str) -> None:
    """PostgreSQL took no name of a class with its module."""
    study = store.open_study("a", SETTINGS, {})
    store.add_trial(
        study.id, sequence=0, task="S", origin=tuner, request=request(), measurement=measured(),
        oracle="oracle-1",
    )  # fmt: skip
    assert [trial.origin for trial in store.trials(study.id)] == [kept]


def test_what_many_studies_took_from_one_is_told_once(store: Store) -> None:
    for number in range(5):
        study = store.open_study(f"s{number}", SETTINGS, {})
        add(store, study.id, 0, request(1), replace(measured(500), cached=number > 0))
    [found] = store.measured([request_key(request(1), "oracle-1")]).values()
    assert found == [measured(500)]


def test_an_earlier_measurement_above_the_limit_is_a_timeout(store: Store) -> None:
    add(store, store.open_study("old", SETTINGS, {}).id, 0, request(1), measured(500))
    found = earlier(store, request(1, max_cycles=499))
    assert found is not None
    assert (found.status, found.cycles, found.valid) == (Status.TIMEOUT, None, False)
    assert found.limit_cycles == 499


@pytest.mark.parametrize(("now", "known"), [(1000, True), (900, True), (1001, False)])
def test_an_earlier_timeout_counts_up_to_its_limit(store: Store, now: int, known: bool) -> None:
    old = store.open_study("old", SETTINGS, {})
    late = Measurement(status=Status.TIMEOUT, fidelity="test", limit_cycles=1000)
    add(store, old.id, 0, request(1), late)
    assert (earlier(store, request(1, max_cycles=now)) is not None) is known


@pytest.mark.parametrize("status", [Status.FAILED, Status.MISMATCH])
def test_earlier_failures_are_tried_again(store: Store, status: Status) -> None:
    old = store.open_study("old", SETTINGS, {})
    add(store, old.id, 0, request(1), Measurement(status=status, fidelity="test"))
    assert earlier(store, request(1)) is None


def test_a_configuration_is_replaced_in_place(store: Store) -> None:
    study = store.open_study("a", SETTINGS, {})
    for name, status in (("one", "measured"), ("two", "pruned"), ("one", "incomplete")):
        config = StoredConfig(
            config_hash=name, hw={"name": name}, area={}, bounds={"S": 1}, status=status, reason=""
        )
        store.put_config(study.id, config)
    found = [(c.config_hash, c.status) for c in store.configs(study.id)]
    assert found == [("one", "incomplete"), ("two", "pruned")]


def test_an_unknown_study_is_refused_with_the_known_ones(store: Store) -> None:
    store.open_study("known", SETTINGS, {})
    with pytest.raises(StoreError, match="known"):
        store.study("other")


def test_claims_go_to_one_owner_until_they_are_released(store: Store) -> None:
    assert store.claim(["b", "a"], "one", seconds=60) == {"a", "b"}
    assert store.claim(["a", "c"], "two", seconds=60) == {"c"}
    assert store.claim(["a"], "one", seconds=60) == {"a"}
    assert store.claimants(["a", "b", "c", "d"]) == {"one", "two"}
    store.release("one", ["a"])
    assert store.claim(["a", "b"], "two", seconds=60) == {"a"}
    store.release("one")
    assert store.claim(["b"], "two", seconds=60) == {"b"}
    assert store.claim([], "two", seconds=60) == set()


def test_a_claim_that_nobody_renews_is_free_after_its_lease(store: Store) -> None:
    assert store.claim(["a", "b"], "one", seconds=-5) == {"a", "b"}
    assert store.claim(["a"], "two", seconds=60) == {"a"}
    store.renew("one", seconds=60)
    assert store.claim(["a", "b"], "three", seconds=60) == set()


def test_a_trial_ends_the_claim_on_it(store: Store) -> None:
    study = store.open_study("a", SETTINGS, {})
    keys = [request_key(request(n), "oracle-1") for n in (1, 2)]
    store.claim(keys, "one", seconds=60)
    add(store, study.id, 0, request(1), measured(), owner="one")
    assert store.claim(keys, "two", seconds=60) == {keys[0]}


def test_the_setting_that_differs_is_named_with_both_values(store: Store) -> None:
    store.open_study("s", {"screen": {"budget": 60, "tuner": "tilewright"}, "seed": 0}, {})
    with pytest.raises(StoreError, match=r"settings: screen\.budget \(was 60, now 80\);") as found:
        store.open_study("s", {"screen": {"budget": 80, "tuner": "tilewright"}, "seed": 0}, {})
    assert found.value.field == "s"


def test_a_study_that_is_still_screened_is_named(store: Store) -> None:
    store.open_study("s/screen", {"seed": 0}, {})
    with pytest.raises(StoreError, match="no study of that name") as found:
        store.study("s")
    assert "as s/screen" in found.value.remedy


# -- what the database counts is what follows from the trials one by one --------------------------

TASKS = tuple(conv2d(name, 14, 64, 64, 3, 1, 1, count=n) for name, n in (("A", 2), ("B", 1)))
CONFIGS = (BASE, BASE.with_(name="other", mac_pipeline=3))
COUNTS = {task.name: task.count for task in TASKS}


def fill(store: Store, trials: int, name: str = "a") -> int:
    """A study of random trials; cycles and energies are often equal."""
    rng = generator(f"summaries {name}")
    study = store.open_study(name, SETTINGS, {})
    for sequence in range(trials):
        task, hw = TASKS[rng.integers(2)], CONFIGS[rng.integers(2)]
        request = Request(
            hw=hw, workload=task, memory=MEMORY, max_cycles=10_000,
            schedule=Schedule(tile_h=sequence + 1, tile_w=1, tile_ci=1, tile_co=1),
        )  # fmt: skip
        cycles = int(rng.integers(100, 130))
        counters = counters_of(cycles) | {"bytes_read": int(rng.integers(0, 3))}
        answer = Measurement(
            status=Status.OK, fidelity="rtl", cycles=cycles, counters=counters,
            output_checked=bool(rng.integers(5)), cached=bool(rng.integers(2)),
        )  # fmt: skip
        if not rng.integers(4):
            status = list(Status)[1 + rng.integers(3)]
            none = {"cycles": None, "counters": {}, "output_checked": False}
            answer = replace(answer, status=status, failure="it failed", **none)
        store.add_trial(
            study.id, sequence=sequence, task=task.name, request=request, measurement=answer,
            origin=["default", "random"][rng.integers(2)], oracle="o",
        )  # fmt: skip
    return study.id


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_fastest_of_all_studies_is_found_by_the_database(
    tmp_path: Path, dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store(new_location(dialect, tmp_path)) as store:
        studies = [fill(store, 60, name) for name in ("a", "b")]
        trials = [trial for study in studies for trial in store.trials(study)]
        monkeypatch.setattr(Store, "trials", None)  # a million of them would not be read
        for hw in CONFIGS:
            mine = [t for t in trials if t.config_hash == hw_key(hw) and t.measurement.valid]
            first = min(mine, key=lambda t: t.measurement.cycles)  # A and B are one workload
            assert store.fastest(hw_key(hw)) == [first]
            known = ScheduleLookup(hw, MEMORY, budget=0, store=store)._by_key[TASKS[0].key]
            assert known.schedule.to_mapping() == first.schedule
            assert known.cycles == first.measurement.cycles


@pytest.mark.parametrize("dialect", DIALECTS)
def test_summary_front_and_failures_are_those_of_the_trials(tmp_path: Path, dialect: str) -> None:
    with Store(new_location(dialect, tmp_path)) as store:
        study = fill(store, 150)
        trials = store.trials(study)
        assert len(trials) == 150
        summary = store.summary(study)
        valid = [t for t in trials if t.measurement.valid]
        assert summary.count == len(trials)
        assert summary.trials == Counter((t.config_hash, t.task) for t in trials)
        assert summary.valid == Counter((t.config_hash, t.task) for t in valid)
        assert summary.statuses == Counter(t.measurement.status.value for t in trials)
        assert summary.cached == sum(t.measurement.cached for t in trials)
        assert summary.last == {t.config_hash: t.sequence for t in trials}
        for shared in (False, True):
            curve = results.network_curve(summary.improvements, COUNTS, shared=shared)
            assert curve == network_curve(trials, COUNTS, shared=shared)
        for task in COUNTS:
            assert results.task_curve(summary.improvements, task) == task_curve(trials, task)

        def cost(trial):
            hw = next(c for c in CONFIGS if f"{c.config_hash:08x}" == trial.config_hash)
            return trial.measurement.cycles, energy_pj(hw, trial.measurement.counters)

        def beaten(trial):
            mine, rivals = cost(trial), [
                t for t in valid if (t.task, t.config_hash) == (trial.task, trial.config_hash)
            ]  # fmt: skip
            return any(
                (cost(t) != mine and all(a <= b for a, b in zip(cost(t), mine, strict=True)))
                or (cost(t) == mine and t.sequence < trial.sequence)
                for t in rivals
            )  # fmt: skip

        assert store.front(study) == [t for t in valid if not beaten(t)]
        bad = [t for t in trials if t.measurement.status is not Status.OK]
        assert store.failures(study, 7) == bad[:7]
        wrong = [t for t in bad if t.measurement.status is Status.MISMATCH]
        assert store.failures(study, 999, status=Status.MISMATCH) == wrong
        base = f"{BASE.config_hash:08x}"
        untuned = [t for t in valid if t.origin == "default" and t.config_hash == base]
        assert store.untuned(study, base) == untuned


@pytest.mark.parametrize(
    "query", [_COUNTS, _IMPROVEMENTS, _FRONT], ids=["counts", "curves", "front"]
)
def test_reports_read_the_index_and_not_the_trials(tmp_path: Path, query) -> None:
    """A million trials are gigabytes; what the summary reads of them is not."""
    path = tmp_path / "s.sqlite"
    with Store(path) as store:
        study = fill(store, 5)
    text = query.params(study=study).compile(
        dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}
    )
    with sqlite3.connect(path) as raw:
        plan = [row[3] for row in raw.execute(f"EXPLAIN QUERY PLAN {text}")]
    raw.close()
    assert any("SEARCH trials USING" in step and "ix_trials_summary" in step for step in plan), plan
    assert not any(step.startswith("SCAN trials") for step in plan)
