# SPDX-License-Identifier: Apache-2.0
"""An asynchronous study never waits for a batch, and its store says in which order trials ended."""

import threading
import time
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.search.analytic_oracle import AnalyticOracle, Silent, any_order, course, make, run
from support.search.results import load_result

from tilewright.testing.analytic import RULES, TASKS
from tilewright.tuner.measure.measurement import Status
from tilewright.tuner.search.plain.coordinate import CoordinateTuner
from tilewright.tuner.store.claims import Claims
from tilewright.tuner.store.store import Store
from tilewright.tuner.study.options import Mode
from tilewright.tuner.study.session import Session, StudyError, TimeUp
from tilewright.tuner.study.settings import SettingsError
from tilewright.tuner.study.study import STOPPED, run_study
from tilewright.tuner.study.task_search import OverlappingSlots

TUNERS = ("random", "coordinate", "genetic", "guided", "tilewright", "autotvm")

STUDIES = {
    "mode": st.sampled_from(list(Mode)),
    "tuner": st.sampled_from(TUNERS),
    "allocator": st.sampled_from(["headroom", "round-robin", "sequential", "random", "ansor"]),
    "seed": st.integers(0, 5),
    "configs": st.integers(1, 3),
}


@settings(max_examples=8, deadline=None)
@given(workers=st.integers(2, 9), fails=st.integers(0, 3), **STUDIES)
def test_keeps_its_trials_on_their_way_and_spends_its_budget(
    tmp_path_factory, workers, fails, **changes
) -> None:
    oracle = AnalyticOracle(
        shuffle=any_order(changes["seed"]),
        fail=lambda request: request.schedule.tile_w % 7 < fails,
    )
    found, _ = run(tmp_path_factory.mktemp("a"), oracle, asynchronous=workers, **changes)
    assert oracle.most == workers
    assert len(set(oracle.measured)) == len(oracle.measured) == 60
    assert [trial.sequence for trial in found.trials] == list(range(60))
    assert {trial.task for trial in found.trials} == {task.name for task in TASKS}


@settings(max_examples=8, deadline=None)
@given(stop=st.integers(0, 59), workers=st.integers(1, 9), **STUDIES)
def test_a_study_goes_on_where_it_was_stopped_and_replays_the_ends_that_are_stored(
    tmp_path_factory, stop, workers, **changes
) -> None:
    folder = tmp_path_factory.mktemp("cut")
    changes["asynchronous"] = workers
    first = AnalyticOracle(shuffle=any_order(1), stop_after=stop)
    with pytest.raises(KeyboardInterrupt):
        run(folder, first, **changes)
    with Store(folder / "s.sqlite") as store:
        kept = course(load_result(store, "s"))
    second, listener = AnalyticOracle(shuffle=any_order(2)), Silent()
    resumed, _ = run(folder, second, listener=listener, **changes)
    assert course(resumed)[:stop] == kept
    assert not set(first.measured) & set(second.measured)
    assert len(first.measured) + len(second.measured) == 60
    assert sum(replayed for _, _, replayed in listener.trials) == stop
    third = AnalyticOracle()
    again, _ = run(folder, third, **changes)  # the whole course, from the store alone
    assert (course(again), third.measured) == (course(resumed), [])


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("tuner", TUNERS)
def test_one_trial_on_its_way_is_a_batch_of_one(tmp_path, mode, tuner) -> None:
    waits, _ = run(tmp_path / "a", mode=mode, tuner=tuner, batch=1)
    overlaps, _ = run(tmp_path / "b", mode=mode, tuner=tuner, batch=1, asynchronous=1)
    assert course(waits) == course(overlaps)


def test_learns_from_a_trial_before_the_others_of_its_batch_have_ended(tmp_path, monkeypatch):
    """With the first trials held back, what is proposed still follows from the others."""
    known: list[int] = []
    propose = CoordinateTuner._propose

    def watched(tuner):
        known.append(tuner.asked - len(tuner._pending))
        return propose(tuner)

    monkeypatch.setattr(CoordinateTuner, "_propose", watched)
    last_first = AnalyticOracle(shuffle=lambda p: p[::-1])
    run(tmp_path, last_first, configs=1, asynchronous=3, tasks=TASKS[:1], budget=20)
    assert max(known) == 19 - 2, "two were on their way from the beginning to the end"


def test_processes_of_one_study_agree_on_the_order(tmp_path) -> None:
    path, found = tmp_path / "s.sqlite", {}
    chosen = make(asynchronous=4, tuner="tilewright")

    class Slow(AnalyticOracle):
        def measure(self, requests):
            for answer in super().measure(requests):
                time.sleep(0.01)
                yield answer

    def work(name: str, seed: int) -> None:
        listener = Silent()
        oracle = Slow(shuffle=any_order(seed))
        with Store(path) as store:
            run_study("s", chosen, store=store, oracle=oracle, rules=RULES, listener=listener)
        found[name] = ([trial[:2] for trial in listener.trials], oracle.measured)

    with Store(path) as store:
        store.studies()
    threads = [threading.Thread(target=work, args=(n, seed)) for seed, n in enumerate("ab")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert sorted(found) == ["a", "b"]
    assert found["a"][0] == found["b"][0]
    assert not set(found["a"][1]) & set(found["b"][1])
    with Store(path) as store:
        assert len(store.trials(store.study("s").id)) == 60


@pytest.mark.parametrize("asynchronous", [0, 4])
def test_no_process_keeps_a_claim_on_what_another_one_stored(tmp_path, monkeypatch, asynchronous):
    """A trial that failed is measured by both; whoever was second kept its claim to the end."""
    path, kept, close = tmp_path / "s.sqlite", [], Claims.close
    fails = {"fail": lambda request: request.schedule.tile_w % 7 < 4}
    chosen = make(asynchronous=asynchronous, configs=1, tuner="random")

    class Slow(AnalyticOracle):
        def measure(self, requests):
            for answer in super().measure(requests):
                time.sleep(0.01)
                yield answer

    def closed(claims: Claims) -> None:
        query = f"SELECT count(*) FROM claims WHERE owner = '{claims.owner}'"
        kept.append(claims._store._database.read(lambda c: c.exec_driver_sql(query).scalar()))
        close(claims)

    def work(seed: int) -> None:
        oracle = Slow(shuffle=any_order(seed), **fails)
        with Store(path) as store:
            run_study("s", chosen, store=store, oracle=oracle, rules=RULES, listener=Silent())

    monkeypatch.setattr(Claims, "close", closed)
    with Store(path) as store:
        store.studies()
    threads = [threading.Thread(target=work, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert len(kept) == 2
    assert max(kept) <= asynchronous, "no more than is on its way at the end"


def test_time_that_is_up_stores_what_is_on_its_way(tmp_path, monkeypatch) -> None:
    first = AnalyticOracle(shuffle=any_order(3))
    late = property(lambda _: len(first.measured) >= 20)
    with monkeypatch.context() as patched:
        patched.setattr(Session, "late", late)
        stopped, _ = run(tmp_path, first, asynchronous=5, configs=1, seconds=1e6)
    assert stopped.study.status == STOPPED
    assert len(stopped.trials) == len(first.measured) == 24
    second = AnalyticOracle(shuffle=any_order(4))
    whole, _ = run(tmp_path, second, asynchronous=5, configs=1)
    assert course(whole)[:24] == course(stopped)
    assert len(second.measured) == 36


def test_a_proof_that_ends_the_time_leaves_nothing_behind(tmp_path, monkeypatch) -> None:
    """Proofs run between trials: what is on its way is waited for when one takes the last time."""
    wish, wishes = OverlappingSlots.wish, []

    def ended(slots):
        if len(wishes) == 9:
            raise TimeUp
        wishes.append(wish(slots))
        return wishes[-1]

    monkeypatch.setattr(OverlappingSlots, "wish", ended)
    oracle = AnalyticOracle(shuffle=any_order(6))
    stopped, _ = run(tmp_path, oracle, asynchronous=4, configs=1, seconds=1e6)
    assert stopped.study.status == STOPPED
    assert len(stopped.trials) == len(oracle.measured) == 9


@settings(max_examples=8, deadline=None)
@given(stop=st.integers(0, 59), more=st.integers(0, 9), workers=st.integers(1, 9), **STUDIES)
def test_too_late_is_told_after_all_that_is_stored_was_replayed(
    tmp_path_factory, stop, more, workers, **changes
) -> None:
    """Where the time is over while ends are replayed that later trials belong to."""
    folder, changes["asynchronous"] = tmp_path_factory.mktemp("late"), workers
    with pytest.raises(KeyboardInterrupt):
        run(folder, AnalyticOracle(shuffle=any_order(1), stop_after=stop), **changes)
    again = AnalyticOracle(shuffle=any_order(2))
    late = property(lambda _: len(again.measured) >= more)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Session, "late", late)
        stopped, _ = run(folder, again, seconds=1e6, **changes)
    kept = len(stopped.trials)
    assert kept == stop + len(again.measured) <= stop + max(0, more + workers - 1)
    assert stopped.study.status == (STOPPED if kept < 60 else "complete")
    last = AnalyticOracle(shuffle=any_order(3))
    whole, _ = run(folder, last, **changes)
    assert course(whole)[:kept] == course(stopped)
    assert len(last.measured) == 60 - kept


def test_a_search_that_has_changed_since_is_refused_before_it_measures(
    tmp_path, monkeypatch
) -> None:
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, AnalyticOracle(shuffle=any_order(5), stop_after=30), asynchronous=4)
    propose = CoordinateTuner._propose

    def changed(tuner):
        return tuner.sample_new() if tuner.asked == 3 else propose(tuner)

    monkeypatch.setattr(CoordinateTuner, "_propose", changed)
    with pytest.raises(StudyError, match=r"do not follow .* stored as another one.*--name"):
        run(tmp_path, asynchronous=4)


def test_a_fault_leaves_what_was_measured(tmp_path) -> None:
    def broken(request) -> bool:
        if request.schedule.tile_h > 2:
            raise OSError("a board is gone")
        return False

    with pytest.raises(OSError, match="gone"):
        run(tmp_path, AnalyticOracle(fail=broken), asynchronous=4, tuner="random")
    whole, _ = run(tmp_path, asynchronous=4, tuner="random")
    assert {trial.measurement.status for trial in whole.trials} == {Status.OK}


def test_is_a_setting_of_the_search_alone() -> None:
    plain = make()
    assert "asynchronous" not in plain.to_mapping(), "older studies go on"
    assert make(asynchronous=3).to_mapping()["asynchronous"] == 3
    names = {each.default_name() for each in (plain, replace(plain, asynchronous=2))}
    assert len(names) == 2
    with pytest.raises(SettingsError, match=r"asynchronous: .*--screen none"):
        make(asynchronous=2, screen="twin")
    for wrong in (-1, 1.5, True):
        with pytest.raises(SettingsError, match="asynchronous: must be an integer"):
            make(asynchronous=wrong)
