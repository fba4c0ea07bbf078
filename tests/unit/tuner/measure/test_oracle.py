# SPDX-License-Identifier: Apache-2.0
"""The RTL oracle measures only what is bit-exact, and no failure of one trial ends another."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.jobs import refuse_other
from support.search.analytic_oracle import measured_one_by_one

from tilewright.host.common.errors import (
    BuildError,
    DeviceError,
    DeviceTimeoutError,
    EnvironmentFaultError,
    StoreError,
    ToolError,
)
from tilewright.host.lowering import default_schedule
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import conv2d
from tilewright.host.runtime.device import Counters, RunResult
from tilewright.sim.executor.job import Job, Outcome, OutcomeStatus
from tilewright.sim.executor.worker import WorkerPool
from tilewright.sim.tools.toolchain import find_compiler
from tilewright.testing.analytic import MEMORY
from tilewright.tuner.measure import backends
from tilewright.tuner.measure import oracle as module
from tilewright.tuner.measure.measurement import Measurement, Request, Status
from tilewright.tuner.measure.oracle import DeviceOracle, compare, golden, trial_job, trial_jobs

TINY = load_hwconfig("tiny-4x4")
LAYER = conv2d("L", 6, 8, 8, 3, 1, 1)


def request(**changes: object) -> Request:
    values = {
        "hw": TINY,
        "workload": LAYER,
        "schedule": default_schedule(TINY, LAYER),
        "memory": MEMORY,
        "max_cycles": 1_000_000,
        **changes,
    }
    return Request(**values)


ILLEGAL = Schedule(tile_h=6, tile_w=6, tile_ci=2, tile_co=2, h_threading=2, oc_threading=2)


@pytest.fixture
def rtl() -> Iterator[DeviceOracle]:
    opened = DeviceOracle("rtl", WorkerPool(1))
    yield opened
    opened.close()


def test_compare_names_the_first_difference() -> None:
    one = np.zeros((1, 2, 3, 4), dtype=np.int8)
    two = one.copy()
    assert compare(one, two) == ""
    two[0, 1, 2, 3] = -7
    two[0, 1, 0, 1] = 5
    assert compare(two, one) == (
        "2 of 24 output elements differ from the golden model; first at NCHW (0, 1, 0, 1): 5, "
        "expected 0"
    )
    assert "shape" in compare(one[:, :1], one)


def test_a_timeout_is_recorded_with_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> None:
        raise DeviceTimeoutError("the cycle limit was reached")

    monkeypatch.setattr(backends, "run_on_device", late)
    answer = trial_job("rtl", request(max_cycles=77))
    assert (answer.status, answer.limit_cycles, answer.cycles) == (Status.TIMEOUT, 77, None)
    assert "77" in answer.failure
    assert not answer.valid


def test_a_known_error_is_a_failed_trial_with_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreError("a rule", field="somewhere")

    monkeypatch.setattr(backends, "run_on_device", broken)
    answer = trial_job("rtl", request())
    assert answer.status is Status.FAILED
    assert "StoreError: somewhere: a rule" in answer.failure


def test_measures_the_rtl_bit_exact_and_alike_each_time(rtl: DeviceOracle) -> None:
    schedules = [
        default_schedule(TINY, LAYER),
        Schedule(tile_h=2, tile_w=3, tile_ci=1, tile_co=1, oc_threading=2),
        Schedule(tile_h=1, tile_w=6, tile_ci=2, tile_co=2),
    ]
    requests = [request(schedule=s) for s in schedules] * 2
    answers = dict(rtl.measure(requests))
    assert sorted(answers) == list(range(6))
    for position in range(3):
        one, two = answers[position], answers[position + 3]
        assert one.valid, one.failure
        assert one.output_checked
        assert (one.cycles, one.counters) == (two.cycles, two.counters)
        assert one.cycles == one.counters["cycles"] > 0
    assert len({answers[p].cycles for p in range(3)}) > 1


def test_takes_more_while_it_answers(rtl: DeviceOracle) -> None:
    """Of a configuration that is not built yet, too."""
    one, two = request(), request(hw=TINY.with_(name="other", inp_bytes=2 * TINY.inp_bytes))
    answers = measured_one_by_one(rtl, [one, two, request(max_cycles=50), one, two, one], 1)
    assert [answer.status for answer in answers] == [
        Status.OK, Status.OK, Status.TIMEOUT, Status.OK, Status.OK, Status.OK,
    ]  # fmt: skip
    assert answers[0].cycles == answers[3].cycles == answers[5].cycles
    assert answers[1].cycles == answers[4].cycles


def test_a_wrong_expectation_is_a_mismatch_not_a_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tensors, output = golden(TINY, LAYER)
    wrong = output.copy()
    wrong[0, 0, 0, 0] ^= 1
    monkeypatch.setattr(module, "golden", lambda *_: (tensors, wrong))
    answer = trial_job("rtl", request())
    assert answer.status is Status.MISMATCH
    assert answer.cycles is None
    assert not answer.valid
    assert "1 of 288" in answer.failure


def test_a_build_that_fails_is_no_trial_and_what_runs_is_answered_first(
    rtl: DeviceOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = TINY.with_(name="other", mac_pipeline=3)
    monkeypatch.setattr(module, "build_job", refuse_other)
    assert dict(rtl.measure([request()]))[0].status is Status.OK  # built: its trials start at once
    answers: dict[int, Measurement] = {}
    with pytest.raises(EnvironmentFaultError, match=r"made to fail.*doctor.*same command"):
        answers.update(rtl.measure([request(hw=other), request(), request(hw=other)]))
    assert {p: answer.status for p, answer in answers.items()} in ({}, {1: Status.OK})
    with pytest.raises(EnvironmentFaultError, match="made to fail"):
        list(rtl.measure([request(hw=other)]))


@pytest.mark.parametrize(
    "error", [BuildError("no compiler"), ToolError("none"), OSError(28, "full"), MemoryError()]
)
def test_a_machine_that_cannot_run_a_trial_is_no_failure_of_the_trial(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(backends, "run_on_device", broken)
    with pytest.raises(type(error)):
        trial_job("rtl", request())
    failed = Outcome(job_id="trial-1", status=OutcomeStatus.ERROR, error=error)
    executor = Inline()
    monkeypatch.setattr(module, "build_job", lambda fidelity, hw: None)
    oracle = DeviceOracle("rtl", executor)
    ok = Outcome(job_id="build-0", status=OutcomeStatus.OK)
    monkeypatch.setattr(executor, "results", lambda: iter([ok, failed]))
    with pytest.raises(EnvironmentFaultError, match="cannot run") as raised:
        list(oracle.measure([request()]))
    assert "\n" not in str(raised.value)


@pytest.mark.slow
@pytest.mark.parametrize("slow", [1])
def test_a_build_on_a_slowed_machine_is_waited_for_told_and_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, slow: int
) -> None:
    """A compiler that sleeps stands for the load; the build takes thrice the wall limit."""
    compiler = tmp_path / "c++"
    real = find_compiler().path

    def compile_with(action: str) -> None:
        compiler.write_text(f'#!/bin/sh\ncase "$*" in *"-c "*) {action};; esac\nexec {real} "$@"\n')

    compile_with(f"sleep {slow}")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    monkeypatch.setenv("TILEWRIGHT_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(module, "BUILDING_S", 1.0)
    told: list[str] = []
    oracle = DeviceOracle("twin", WorkerPool(1, wall_limit_s=5), told.append)
    try:
        assert dict(oracle.measure([request()]))[0].status is Status.OK
    finally:
        oracle.close()
    assert [text.startswith("building the twin simulation of tiny-4x4") for text in told] == [True]
    compile_with("exit 1")  # what was built is kept
    again = DeviceOracle("twin", WorkerPool(1))
    try:
        assert dict(again.measure([request()]))[0].status is Status.OK
    finally:
        again.close()


def test_a_time_limit_names_the_load_and_no_tools() -> None:
    outcome = Job.of("build", pow, (2, 3), {}).timed_out(300)
    fault = module.environment_fault("a configuration cannot be built", outcome.error)
    assert "load of" in str(fault)
    assert "doctor" not in str(fault)


@pytest.mark.parametrize(("name", "valid"), [("rtl", False), ("dpi", False), ("twin", True)])
def test_only_fidelities_without_data_need_no_check(name: str, valid: bool) -> None:
    assert Measurement(status=Status.OK, fidelity=name, cycles=5).valid is valid
    assert not Measurement(status=Status.TIMEOUT, fidelity=name, cycles=5).valid


class Inline:
    """An executor in this process; a job of several requests crashes when one of them is bad."""

    def __init__(self) -> None:
        self.jobs: list[tuple[object, object, tuple[object, ...]]] = []
        self.sizes: list[int] = []

    @property
    def pending(self) -> int:
        return len(self.jobs)

    def submit(self, job_id: object, function: object, *arguments: object) -> None:
        self.jobs.append((job_id, function, arguments))

    submit_unlimited = submit

    def results(self) -> Iterator[Outcome]:
        while self.jobs:
            job, function, arguments = self.jobs.pop(0)
            if function is trial_jobs:
                self.sizes.append(len(arguments[1]))
                if any(r.max_cycles == 13 for r in arguments[1]):
                    error = DeviceError("the worker process was killed by SIGSEGV")
                    yield Outcome(job_id=job, status=OutcomeStatus.CRASHED, error=error)
                    continue
            yield Outcome(job_id=job, status=OutcomeStatus.OK, value=function(*arguments))

    def close(self) -> None:
        self.jobs.clear()


@pytest.fixture
def counting(monkeypatch: pytest.MonkeyPatch) -> Iterator[Inline]:
    """Fidelity ``twin`` answers with the program's length, three requests a job."""

    def run(hw, memory, program, image, *, max_cycles):
        counters = Counters(values={"cycles": program.instruction_count})
        return RunResult(memory=image, counters=counters, host_seconds=0.0)

    monkeypatch.setitem(
        backends.BACKENDS,
        Fidelity.TWIN,
        backends.Backend(
            fidelity=Fidelity.TWIN, run=run, prepare=lambda hw: None, sources=list, batch=3
        ),
    )
    backends._identity.cache_clear()
    yield Inline()
    backends._identity.cache_clear()


SCHEDULES = [Schedule(tile_h=h, tile_w=w, tile_ci=1, tile_co=1) for h in (1, 2) for w in (1, 2, 3)]


def test_a_crash_of_a_batch_costs_only_the_request_that_caused_it(counting: Inline) -> None:
    oracle = DeviceOracle("twin", counting)
    requests = [request(schedule=s) for s in SCHEDULES]
    requests[1] = request(schedule=SCHEDULES[1], max_cycles=13)
    answers = dict(oracle.measure(requests))
    assert counting.sizes == [3, 3, 1, 1, 1]
    assert [p for p in range(6) if not answers[p].valid] == [1]
    assert "SIGSEGV" in answers[1].failure
