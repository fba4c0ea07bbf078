# SPDX-License-Identifier: Apache-2.0
"""Jobs travel to workers with open devices, and end in one outcome."""

from __future__ import annotations

import operator
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import psutil
import pytest

from tilewright.host.common.errors import ConfigError, DeviceError, EnvironmentFaultError
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.sim.executor import devices, wave_run
from tilewright.sim.executor import worker as worker_module
from tilewright.sim.executor.devices import DeviceCache
from tilewright.sim.executor.job import Job, Outcome, OutcomeStatus, run_payload
from tilewright.sim.executor.worker import WorkerPool

# Jobs run in other processes, which import this module by the name that pytest gives it; standard
# functions travel by their own names and need no import of the tests.
EXIT_3 = (os._exit, 3)


def by_id(pool):
    return {outcome.job_id: outcome for outcome in pool.results()}


def test_yields_results_as_they_come_and_takes_jobs_meanwhile():
    with WorkerPool(2, wall_limit_s=60) as pool:
        pool.submit("slow", time.sleep, 1.0)
        pool.submit("fast", pow, 2, 3)
        order = []
        for outcome in pool.results():
            order.append(outcome.job_id)
            if outcome.job_id == "fast":
                pool.submit("follow-up", pow, 2, 4)
    assert order == ["fast", "follow-up", "slow"]


@pytest.mark.parametrize(
    ("function", "arguments", "cause"),
    [
        (*EXIT_3[:1], EXIT_3[1:], "exited with code 3"),
        (signal.raise_signal, (signal.SIGSEGV,), "SIGSEGV"),
        (signal.raise_signal, (signal.SIGKILL,), "SIGKILL"),
    ],
)
def test_a_crash_costs_one_job_and_names_its_cause(function, arguments, cause):
    with WorkerPool(1, wall_limit_s=60) as pool:
        pool.submit("before", pow, 2, 2)
        pool.submit("crash", function, *arguments)
        pool.submit("after", pow, 2, 3)
        outcomes = by_id(pool)
    assert outcomes["crash"].status is OutcomeStatus.CRASHED
    assert cause in outcomes["crash"].detail
    assert isinstance(outcomes["crash"].error, DeviceError)
    assert (outcomes["before"].value, outcomes["after"].value) == (4, 8)


def test_a_worker_killed_while_idle_costs_nothing():
    with WorkerPool(1, wall_limit_s=60) as pool:
        pool.submit("pid", os.getpid)
        pid = by_id(pool)["pid"].value
        os.kill(pid, signal.SIGKILL)
        psutil.wait_procs([psutil.Process(pid)] if psutil.pid_exists(pid) else [], timeout=0.2)
        pool.submit("after", os.getpid)
        after = by_id(pool)["after"]
    assert after.ok
    assert after.value != pid


def test_a_result_that_cannot_be_pickled_is_an_error_outcome():
    with WorkerPool(1, wall_limit_s=60) as pool:
        pool.submit("generator", iter, [1, 2])
        pool.submit("lock", __import__, "threading")
        outcomes = by_id(pool)
    assert outcomes["generator"].ok
    assert outcomes["lock"].status is OutcomeStatus.ERROR
    assert "pickle" in str(outcomes["lock"].error)


def test_close_kills_workers_and_what_they_started():
    pool = WorkerPool(1, wall_limit_s=60)
    pool.submit("child", subprocess.Popen, ["sleep", "600"])
    outcome = by_id(pool)["child"]  # a Popen cannot be pickled; the sleep runs on
    assert outcome.status is OutcomeStatus.ERROR
    here = psutil.Process()
    sleeps = [p for p in here.children(recursive=True) if p.name() == "sleep"]
    assert len(sleeps) == 1
    pool.close()
    _, alive = psutil.wait_procs(sleeps, timeout=5)
    assert [p for p in alive if p.status() != psutil.STATUS_ZOMBIE] == []
    with pytest.raises(DeviceError, match="closed"):
        pool.submit("late", pow, 1, 1)


SCRIPT = """
import os, signal, sys, time
from tilewright.sim.executor.worker import WorkerPool

if __name__ == "__main__":
    # A shell that starts the tests in the background has them inherit an ignored SIGINT.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with WorkerPool(2, wall_limit_s=600) as pool:
        pool.submit("a", os.getpid)
        pool.submit("b", os.getpid)
        for outcome in pool.results():
            print(outcome.value, flush=True)
        pool.submit("hang", time.sleep, 600)
        pool.submit("hang too", time.sleep, 600)
        try:
            print("hanging", flush=True)
            list(pool.results())
        except KeyboardInterrupt:
            print("interrupted", flush=True)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL, signal.SIGTERM])
def test_no_worker_outlives_its_parent(tmp_path: Path, how):
    script = tmp_path / "parent.py"
    script.write_text(SCRIPT, encoding="utf-8")
    parent = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    lines = iter(parent.stdout.readline, "hanging\n")
    workers = [psutil.Process(pid) for pid in {int(line) for line in lines}]
    parent.send_signal(how)
    assert parent.wait(timeout=20) is not None
    if how is signal.SIGINT:
        assert parent.stdout.read() == "interrupted\n"
    _, alive = psutil.wait_procs(workers, timeout=10)
    assert [p for p in alive if p.is_running() and p.status() != psutil.STATUS_ZOMBIE] == []


def test_gives_up_when_workers_cannot_start(monkeypatch):
    monkeypatch.setattr(worker_module, "_work", EXIT_3[0])  # every worker dies at its start
    with WorkerPool(1, wall_limit_s=60) as pool:
        pool.submit("never", pow, 2, 2)
        with pytest.raises(DeviceError, match="must start"):
            list(pool.results())


def test_workers_that_are_killed_while_they_start_are_replaced() -> None:
    """Short of memory, a machine may kill more of them than may fail by themselves."""
    with WorkerPool(1) as pool:
        pool.submit("a", os.getpid)
        for _ in range(4):
            while not pool._workers:
                pool._step()
            (starting,) = pool._workers
            starting.process.kill()
            while starting in pool._workers:
                pool._step()
        (outcome,) = pool.results()
        assert outcome.ok


def test_who_kills_every_worker_ends_the_study_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(worker_module, "START_KILLS", 2)
    with WorkerPool(1) as pool:
        pool.submit("a", os.getpid)

        def kill_all() -> None:
            for _ in range(9):
                while not pool._workers:
                    pool._step()
                pool._workers[0].process.kill()
                pool._step()

        with pytest.raises(EnvironmentFaultError, match=r"2 workers in a row.*SIGKILL.*goes on"):
            kill_all()


@pytest.mark.parametrize(("workers", "limit"), [(0, 1.0), (1, 0.0), (None, float("nan"))])
def test_limits_out_of_range_are_refused(workers, limit) -> None:
    with pytest.raises(ConfigError):
        WorkerPool(workers, wall_limit_s=limit)


# -- A job travels as bytes and ends in one outcome, whatever happens to its worker
def job(function, *args) -> Job:
    made = Job.of("a", function, args, {})
    made.started = time.monotonic()
    return made


def test_an_answer_holds_what_the_function_returned() -> None:
    asked = job(operator.add, 2, 3)
    end = asked.answered(run_payload(asked.payload))
    assert (end.job_id, end.status, end.value, end.ok) == ("a", OutcomeStatus.OK, 5, True)
    assert end.seconds >= 0


def test_an_answer_holds_what_it_raised() -> None:
    asked = job(operator.truediv, 1, 0)
    end = asked.answered(run_payload(asked.payload))
    assert end.status is OutcomeStatus.ERROR
    assert isinstance(end.error, ZeroDivisionError)
    assert "Traceback" in end.detail


def test_an_answer_that_cannot_be_read_is_an_error_of_the_job() -> None:
    end = job(operator.add, 2, 3).answered(b"nonsense")
    assert end.status is OutcomeStatus.ERROR
    assert "unpickled" in end.detail


def test_a_crash_and_a_time_out_name_job_and_cause() -> None:
    crashed = job(print).crashed("was killed", "the worker process was killed")
    late = job(print).timed_out(2.5)
    assert (crashed.status, crashed.detail) == (OutcomeStatus.CRASHED, "was killed")
    assert (late.status, late.detail) == (
        OutcomeStatus.TIMED_OUT, "exceeded the wall limit of 2.5 s",
    )  # fmt: skip
    for end in (crashed, late):
        assert isinstance(end.error, DeviceError)
        assert end.error.field == "a"


def test_a_job_that_cannot_be_pickled_is_refused_where_it_is_made() -> None:
    with pytest.raises((AttributeError, TypeError)):
        job(lambda: 1)


# -- Devices stay open from job to job, and the least recently used one goes first
def test_device_cache_keeps_recent_devices_and_closes_the_oldest(monkeypatch):
    closed = []

    class Fake:
        def __init__(self, hw, memory, *, fidelity, library):
            assert library == f"without checks: {hw.config_hash}"
            self.key = (hw.config_hash, memory, fidelity.value)

        def close(self):
            closed.append(self.key)

    class Hw:
        def __init__(self, config_hash):
            self.config_hash = config_hash

    def build(hw, *, jobs, checks, fidelity):
        assert (jobs, checks) == (1, False)
        return f"without checks: {hw.config_hash}"

    monkeypatch.setattr(devices, "VerilatorDevice", Fake)
    monkeypatch.setattr(devices, "build_model", build)
    cache = DeviceCache(capacity=2)
    one = cache.get(Hw(1), "ideal")
    cache.get(Hw(2), "ideal")
    assert cache.get(Hw(1), "ideal") is one
    cache.get(Hw(1), "slow")
    assert closed == [(2, "ideal", "rtl")]
    assert cache.get(Hw(1), "ideal") is one
    cache.get(Hw(1), "ideal", Fidelity.TIMING)
    assert closed[1:] == [(1, "slow", "rtl")]
    cache.close()
    assert len(closed) == 4


# -- Waves appear when they are complete: whatever ends the run earlier leaves what was there
HW, MEMORY = load_hwconfig("tiny-4x4"), load_memory("ideal")


EARLIER = b"# Written by Tilewright (waves)"


def pool_that(ends: Any) -> type:
    """A pool whose only job writes a part of the waves, and then `ends`."""

    class Pool:
        def __init__(self, *_: object, **__: object) -> None:
            self.waves = Path()

        def __enter__(self) -> Pool:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def submit_unlimited(self, *arguments: Any) -> None:
            self.waves = arguments[-2]

        def results(self) -> list[Outcome]:
            self.waves.write_bytes(b"part")
            self.waves.with_name(f"{self.waves.name}.hier").write_bytes(b"part")
            return [ends()]

    return Pool


def run(path: Path) -> Any:
    program: Any = SimpleNamespace()
    return wave_run.run_with_waves(HW, MEMORY, program, np.zeros(1, np.uint8), path)


def interrupted() -> Outcome:
    raise KeyboardInterrupt


def complete() -> Outcome:
    return Outcome(job_id="run", status=OutcomeStatus.OK, value="done", seconds=0.0)


def test_an_interrupted_run_leaves_the_waves_that_were_there(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(wave_run, "WorkerPool", pool_that(interrupted))
    waves = tmp_path / "w.fst"
    waves.write_bytes(EARLIER)
    with pytest.raises(KeyboardInterrupt):
        run(waves)
    assert waves.read_bytes() == EARLIER
    assert [path.name for path in tmp_path.iterdir()] == ["w.fst"]


def test_waves_get_their_name_when_they_are_complete(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(wave_run, "WorkerPool", pool_that(complete))
    assert run(tmp_path / "w.fst") == "done"
    assert [path.name for path in tmp_path.iterdir()] == ["w.fst"]
    assert (tmp_path / "w.fst").read_bytes() == b"part"
