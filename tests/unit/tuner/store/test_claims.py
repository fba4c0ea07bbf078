# SPDX-License-Identifier: Apache-2.0
"""A claim decides who measures; equal requests cost one measurement."""

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from support.search.analytic_oracle import AnalyticOracle
from support.search.trials import SETTINGS, add, request

from tilewright.testing.analytic import cycles_of
from tilewright.tuner.measure.measurement import Request, Status
from tilewright.tuner.store import claims as module
from tilewright.tuner.store.claims import Claims
from tilewright.tuner.store.records import request_key
from tilewright.tuner.store.store import Store

WIDE = 1_000_000


@pytest.fixture
def store(tmp_path: Path):
    with Store(tmp_path / "s.sqlite") as opened:
        yield opened


def wanted(tile: int = 1, max_cycles: int = WIDE) -> Request:
    return request(tile, max_cycles=max_cycles)


def cycles(asked: Request) -> int:
    return cycles_of(asked.hw, asked.workload, asked.schedule)


def key(asked: Request) -> str:
    return request_key(asked, "analytic-1")


def test_equal_requests_of_a_batch_cost_one_measurement(store: Store) -> None:
    oracle, low = AnalyticOracle(), cycles(wanted()) - 1
    claims = Claims(store, oracle)
    requests = [wanted(), wanted(2), wanted(), wanted(1, low)]
    answers = dict(claims.measure(requests))
    claims.close()
    assert len(oracle.measured) == 2
    assert answers[0].cycles == answers[2].cycles == cycles(wanted())
    assert sorted([answers[0].cached, answers[2].cached]) == [False, True]
    assert (answers[3].status, answers[3].limit_cycles) == (Status.TIMEOUT, low)
    assert answers[1].cycles == cycles(wanted(2))


def test_what_is_on_its_way_is_not_measured_again(store: Store) -> None:
    """Requests that join later wait for the measurement, unless its limit was too low for them."""
    oracle, low = AnalyticOracle(), cycles(wanted()) - 1
    claims = Claims(store, oracle)
    growing = [wanted(2), wanted(1, low)]
    late = [wanted(1, low), wanted(1)]
    answers = {}
    for position, answer in claims.measure(growing):
        answers[position] = answer
        growing += late
        late = []
    claims.close()
    assert sorted(answers) == list(range(4))
    assert (answers[1].status, answers[2].status) == (Status.TIMEOUT, Status.TIMEOUT)
    assert answers[3].cycles == cycles(wanted())
    assert oracle.measured == [wanted(2).key, wanted(1).key, wanted(1).key]


def test_the_store_is_not_asked_once_an_answer(store: Store, monkeypatch) -> None:
    asked, honest = [], Store.measured

    def measured(self: Store, keys):
        asked.append(list(keys))
        return honest(self, keys)

    monkeypatch.setattr(Store, "measured", measured)
    claims = Claims(store, AnalyticOracle())
    assert len(dict(claims.measure([wanted(tile) for tile in (1, 2, 3, 4)]))) == 4
    claims.close()
    assert [len(keys) for keys in asked] == [4, 4], "before the claim and after it"


def test_waits_for_another_process_and_takes_what_it_stores(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, oracle = "elsewhere:1-1:0", AnalyticOracle()
    study = store.open_study("other", SETTINGS, {})
    store.claim([key(wanted())], other, seconds=60)
    looks = []

    def look(*_: object) -> None:
        looks.append(1)
        if len(looks) == 3:
            answer = next(AnalyticOracle().measure([wanted()]))[1]
            store.add_trial(
                study.id, sequence=0, task="S", origin="random", request=wanted(),
                measurement=answer, oracle="analytic-1", owner=other,
            )  # fmt: skip

    monkeypatch.setattr(Claims, "_wait", look)
    claims = Claims(store, oracle)
    answers = dict(claims.measure([wanted(), wanted(2)]))
    claims.close()
    assert oracle.measured == [wanted(2).key]
    assert (answers[0].cycles, answers[0].cached) == (cycles(wanted()), True)
    assert len(looks) == 3


def test_measures_what_another_process_gave_up(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLL_SECONDS", 0.01)
    other, oracle = "elsewhere:1-1:0", AnalyticOracle()
    store.claim([key(wanted())], other, seconds=60)
    waited = []

    def give_up(self: Claims, keys: object) -> None:
        waited.append(keys)
        store.release(other)

    monkeypatch.setattr(Claims, "_wait", give_up)
    claims = Claims(store, oracle)
    assert dict(claims.measure([wanted()]))[0].cycles == cycles(wanted())
    claims.close()
    assert len(waited) == 1


def test_claims_of_a_process_that_has_ended_are_free(store: Store) -> None:
    child = subprocess.Popen(["sleep", "600"])
    owner = f"{module._machine()}:{module._process(child.pid)}:0"
    assert not module._is_dead(owner)
    store.claim([key(wanted())], owner, seconds=3600)
    child.kill()
    # Not waited for: a dead process without heir is dead all the same.
    while not module._is_dead(owner):
        os.sched_yield()
    claims = Claims(store, AnalyticOracle())
    assert dict(claims.measure([wanted()]))[0].valid
    claims.close()
    child.wait()
    assert module._is_dead(owner)


def test_only_processes_of_this_machine_are_judged() -> None:
    assert module._is_dead(f"{module._machine()}:{os.getpid()}-1:0")
    assert not module._is_dead(f"another-1:{2**30}-1:0")
    assert not module._is_dead(f"{module._machine()}:{module._process()}:7")


def test_a_lease_is_renewed_while_the_measurement_runs(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewed = []
    honest = Store.renew

    def renew(self: Store, owner: str, *, seconds: int) -> None:
        renewed.append(owner)
        honest(self, owner, seconds=seconds)

    monkeypatch.setattr(Store, "renew", renew)
    monkeypatch.setattr(module, "LEASE_SECONDS", 0.04)
    oracle = AnalyticOracle()
    honest_measure = oracle.measure

    def slow(requests):
        while len(renewed) < 3:
            os.sched_yield()
        return honest_measure(requests)

    monkeypatch.setattr(oracle, "measure", slow)
    claims = Claims(store, oracle)
    assert dict(claims.measure([wanted()]))[0].valid
    claims.close()
    assert set(renewed) == {claims.owner}


def test_a_stored_trial_is_not_measured(store: Store) -> None:
    oracle = AnalyticOracle()
    study = store.open_study("old", SETTINGS, {})
    answer = next(AnalyticOracle().measure([wanted()]))[1]
    add(store, study.id, 0, wanted(), replace(answer))  # under another oracle's identity
    claims = Claims(store, oracle)
    assert not dict(claims.measure([wanted()]))[0].cached
    store.add_trial(
        study.id, sequence=1, task="T", origin="random", request=wanted(),
        measurement=answer, oracle="analytic-1",
    )  # fmt: skip
    assert dict(claims.measure([wanted()]))[0].cached
    claims.close()
    assert len(oracle.measured) == 1
