# SPDX-License-Identifier: Apache-2.0
"""Processes that share a store lose no acknowledged trial and measure nothing twice."""

import signal
import subprocess
import sys
import time
from itertools import product, starmap
from pathlib import Path

import pytest
from e2e.command import environment
from support.randomness import generator, often, sample, where
from support.search.study_process import BUDGET
from support.search.trials import DIALECTS, new_location

from tilewright.tuner.store.store import Store

TESTS = str(Path(__file__).resolve().parents[1])


def start(*words: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(PYTHONPATH=f"{TESTS}:{environment().get('PYTHONPATH', '')}"),
    )


@pytest.fixture(scope="module", params=DIALECTS)
def shared(request, tmp_path_factory):
    """One store that outlives every kill of the module."""
    return new_location(request.param, tmp_path_factory.mktemp("kill"))


@pytest.mark.parametrize("attempt", sample(2, 50))
def test_kill_nine_at_a_random_point_loses_no_acknowledged_trial(shared, attempt):
    delay = float(generator(f"kill {attempt}").uniform(0, 0.5))
    writer = start("-m", "support.search.study_process", shared)
    first = writer.stdout.readline()
    time.sleep(delay)
    writer.send_signal(signal.SIGKILL)
    # Not communicate(): it would leave out what came together with the first line.
    rest, errors = writer.stdout.read(), writer.stderr.read()
    writer.wait()
    assert first, errors
    lines = (first + rest).split("\n")[:-1]  # a line that was cut off was not acknowledged
    with Store(shared, must_exist=True) as store:
        kept = store.trials(store.study("a").id)
    context = where(delay=delay, acknowledged=lines[-1], kept=len(kept))
    assert [t.sequence for t in kept] == list(range(len(kept))), context
    assert int(lines[-1]) + 1 <= len(kept) <= int(lines[-1]) + 2, context
    assert all(t.measurement.cycles == t.sequence + 1 for t in kept), context


def studies(location, log, names, seconds=0.02, asynchronous=0):
    """Run studies at the same time; what they measured, a line each."""
    running = [
        start("-m", "support.search.study_process", location, name, log, seconds, asynchronous)
        for name in names
    ]
    ends = [(process.communicate()[1], process.returncode) for process in running]
    assert ends == [("", 0)] * len(names)
    return log.read_text(encoding="utf-8").splitlines()


def course(store, name):
    """What a study did, times and sources left out."""
    study = store.study(name)
    assert study.status == "complete"
    return [
        (t.sequence, t.task, t.config_hash, t.schedule, t.measurement.status, t.measurement.cycles)
        for t in store.trials(study.id)
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_studies_that_want_the_same_trials_measure_each_once(tmp_path, dialect):
    location = new_location(dialect, tmp_path)
    lines = studies(location, tmp_path / "log", ["a", "b", "c"])
    assert len(lines) == len(set(lines)) == BUDGET
    with Store(location) as store:
        courses = [course(store, name) for name in ("a", "b", "c")]
        measured = [
            t for name in ("a", "b", "c") for t in store.trials(store.study(name).id)
            if not t.measurement.cached
        ]  # fmt: skip
    assert courses[0] == courses[1] == courses[2]
    assert len(courses[0]) == BUDGET
    assert len(measured) == BUDGET


@pytest.mark.parametrize(
    ("dialect", "asynchronous"),
    often("stores", starmap(pytest.param, product(DIALECTS, [0, 4])), 2),
)
def test_two_processes_of_one_study_make_one_study(tmp_path, dialect, asynchronous):
    """That of one process alone, where the order of ends decides nothing."""
    location = new_location(dialect, tmp_path)
    alone = new_location(dialect, tmp_path / "alone")
    lines = studies(location, tmp_path / "log", ["a", "a"], asynchronous=asynchronous)
    assert len(lines) == len(set(lines)) == BUDGET
    if asynchronous:
        with Store(location) as together:
            assert len(course(together, "a")) == BUDGET
        return
    studies(alone, tmp_path / "other", ["a"], seconds=0)
    with Store(location) as together, Store(alone) as single:
        assert course(together, "a") == course(single, "a")


def claims(location):
    """How many measurements are claimed."""
    with Store(location) as store:
        query = "SELECT count(*) FROM claims"
        return store._database.read(lambda c: c.exec_driver_sql(query).scalar())


def test_what_a_killed_process_was_measuring_is_free_at_once(tmp_path):
    location = tmp_path / "s.sqlite"
    hanging = start("-m", "support.search.study_process", location, "a", tmp_path / "never", 3600)
    deadline = time.monotonic() + 60
    claimed = 0
    while not claimed and time.monotonic() < deadline:
        time.sleep(0.05)
        if location.exists():
            claimed = claims(location)
    hanging.kill()
    hanging.communicate()
    assert claimed, "it never claimed anything"
    started = time.monotonic()
    assert len(studies(location, tmp_path / "log", ["a"], seconds=0)) == BUDGET
    assert time.monotonic() - started < 50  # the lease alone is longer
    assert claims(location) == 0
