# SPDX-License-Identifier: Apache-2.0
"""What every executor does with jobs that work, raise, crash, hang and get killed.

Jobs run in other processes; standard functions travel by their own names.
"""

import os
import pickle
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.jobs import die_once

from tilewright.host.common.errors import ConfigError, DeviceError
from tilewright.sim.executor.job import Outcome, OutcomeStatus
from tilewright.sim.executor.protocol import Executor


def by_id(executor: Executor) -> dict[Any, Outcome]:
    return {outcome.job_id: outcome for outcome in executor.results()}


class ExecutorContract:
    """Subclasses implement `make`."""

    def make(self, workers: int, **limits: Any) -> Executor:
        raise NotImplementedError

    @pytest.fixture
    def start(self) -> Iterator[Callable[..., Executor]]:
        """Makes executors that are closed after the test."""
        made: list[Executor] = []

        def begin(workers: int = 2, **limits: Any) -> Executor:
            made.append(self.make(workers, **{"wall_limit_s": 120, **limits}))
            return made[-1]

        yield begin
        for executor in made:
            executor.close()

    def test_gives_every_result_under_its_job_id(self, start) -> None:
        executor = start()
        for number in range(20):
            executor.submit(("square", number), pow, number, 2)
        assert executor.pending == 20
        outcomes = by_id(executor)
        assert executor.pending == 0
        assert {k: o.value for k, o in outcomes.items()} == {
            ("square", n): n * n for n in range(20)
        }
        assert all(o.status is OutcomeStatus.OK for o in outcomes.values())

    def test_takes_jobs_while_results_are_read(self, start) -> None:
        executor = start(2)
        executor.submit("first", pow, 2, 3)
        seen = []
        for outcome in executor.results():
            seen.append(outcome.job_id)
            if outcome.job_id == "first":
                executor.submit("second", pow, 2, 4)
        assert seen == ["first", "second"]

    def test_two_workers_work_at_the_same_time(self, start, tmp_path: Path) -> None:
        # Each end of a pipe blocks until the other is opened, too.
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        executor = start(2)
        executor.submit("reader", Path.read_text, pipe)
        executor.submit("writer", Path.write_text, pipe, "met")
        assert by_id(executor)["reader"].value == "met"

    def test_an_exception_is_an_outcome(self, start) -> None:
        executor = start(1)
        executor.submit("bad", int, "x")
        executor.submit("good", int, "7")
        outcomes = by_id(executor)
        assert outcomes["bad"].status is OutcomeStatus.ERROR
        assert isinstance(outcomes["bad"].error, ValueError)
        assert "ValueError" in outcomes["bad"].detail
        assert outcomes["good"].value == 7

    def test_a_job_that_always_crashes_is_reported_and_no_other_suffers(self, start) -> None:
        executor = start(1, retries=1)
        executor.submit("before", pow, 2, 2)
        executor.submit("crash", signal.raise_signal, signal.SIGKILL)
        executor.submit("after", pow, 2, 3)
        outcomes = by_id(executor)
        assert outcomes["crash"].status is OutcomeStatus.CRASHED
        assert isinstance(outcomes["crash"].error, DeviceError)
        assert (outcomes["before"].value, outcomes["after"].value) == (4, 8)

    @pytest.mark.parametrize("retries", [0, 1])
    def test_a_job_whose_worker_is_killed_is_run_again(
        self, start, tmp_path: Path, retries: int
    ) -> None:
        executor = start(1, retries=retries)
        executor.submit("unlucky", die_once, tmp_path / "mark")
        outcome = by_id(executor)["unlucky"]
        assert (tmp_path / "mark").exists()
        if retries:
            assert (outcome.status, outcome.value) == (OutcomeStatus.OK, "second life")
        else:
            assert outcome.status is OutcomeStatus.CRASHED

    def test_a_hang_costs_one_job(self, start) -> None:
        executor = start(1, wall_limit_s=2.0, retries=1)
        executor.submit("hang", time.sleep, 600)
        executor.submit("after", pow, 2, 3)
        outcomes = by_id(executor)
        assert outcomes["hang"].status is OutcomeStatus.TIMED_OUT
        assert 2.0 <= outcomes["hang"].seconds < 60
        assert outcomes["after"].value == 8

    def test_a_job_without_a_limit_is_never_late(self, start) -> None:
        executor = start(1, wall_limit_s=0.5)
        executor.submit_unlimited("long", time.sleep, 2)
        assert by_id(executor)["long"].status is OutcomeStatus.OK

    def test_what_cannot_be_pickled_is_refused_or_reported(self, start) -> None:
        executor = start(1)
        with pytest.raises((AttributeError, pickle.PicklingError), match=r"pickle|lambda"):
            executor.submit("bad", lambda: 1)
        assert executor.pending == 0
        executor.submit("module", __import__, "threading")
        outcome = by_id(executor)["module"]
        assert outcome.status is OutcomeStatus.ERROR
        assert "pickle" in str(outcome.error)

    def test_large_arguments_and_results_pass(self, start) -> None:
        executor = start(1)
        executor.submit("big", bytes.upper, b"a" * 5_000_000)
        assert by_id(executor)["big"].value == b"A" * 5_000_000

    def test_a_closed_executor_takes_nothing(self, start) -> None:
        executor = start(1)
        executor.submit("dropped", time.sleep, 600)
        executor.close()
        executor.close()
        assert executor.pending == 0
        with pytest.raises(DeviceError, match="closed"):
            executor.submit("late", pow, 1, 1)

    @pytest.mark.parametrize("bad", [{"workers": 0}, {"wall_limit_s": 0}, {"wall_limit_s": -1}])
    def test_refuses_impossible_settings(self, start, bad) -> None:
        with pytest.raises(ConfigError, match=next(iter(bad))):
            start(**bad)
