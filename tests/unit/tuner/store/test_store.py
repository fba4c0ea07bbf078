# SPDX-License-Identifier: Apache-2.0
"""The store gives back what it was given, on SQLite and on PostgreSQL alike."""

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.analytic_oracle import counters_of
from support.trials import DIALECTS, SETTINGS, add, measured, new_location, request

from tilewright.host.common.errors import StoreError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload
from tilewright.testing.analytic import MEMORY
from tilewright.tuner.measure.measurement import Measurement, Request, Status
from tilewright.tuner.store.records import request_key, reused
from tilewright.tuner.store.store import DuplicateTrialError, Store, StoredConfig


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
    old = store.open_study("old", SETTINGS, {})
    add(store, old.id, 0, request(1), measured(500))
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
    old = store.open_study("old", SETTINGS, {})
    add(store, old.id, 0, request(1), measured(500))
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
