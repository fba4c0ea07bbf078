# SPDX-License-Identifier: Apache-2.0
"""The RTL oracle measures only what is bit-exact, and no failure of one trial ends another."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from support.analytic import MEMORY
from support.jobs import refuse_other

from tilewright.host.errors import DeviceTimeoutError, StoreError
from tilewright.host.hwconfig import load_hwconfig
from tilewright.host.lowering import default_schedule
from tilewright.host.schedule import Schedule
from tilewright.host.workload import conv2d
from tilewright.tuner import oracle as module
from tilewright.tuner.measurement import Measurement, Request, Status
from tilewright.tuner.oracle import RtlOracle, compare, golden, rtl_identity, trial_job

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
def rtl() -> Iterator[RtlOracle]:
    opened = RtlOracle(workers=1)
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


def test_golden_depends_on_the_workload_alone() -> None:
    tensors, output = golden(LAYER)
    golden.cache_clear()
    again, same = golden(LAYER)
    assert np.array_equal(tensors.data, again.data)
    assert np.array_equal(output, same)
    other, _ = golden(conv2d("L", 6, 8, 8, 3, 1, 1, relu=False))
    assert not np.array_equal(tensors.data, other.data)


def test_a_timeout_is_recorded_with_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(*_: object, **__: object) -> None:
        raise DeviceTimeoutError("the cycle limit was reached")

    monkeypatch.setattr(module, "run_on_device", late)
    answer = trial_job(request(max_cycles=77))
    assert (answer.status, answer.limit_cycles, answer.cycles) == (Status.TIMEOUT, 77, None)
    assert "77" in answer.failure
    assert not answer.valid


def test_a_known_error_is_a_failed_trial_with_its_text(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise StoreError("a rule", field="somewhere")

    monkeypatch.setattr(module, "run_on_device", broken)
    answer = trial_job(request())
    assert answer.status is Status.FAILED
    assert "StoreError: somewhere: a rule" in answer.failure


def test_identity_follows_the_rtl_sources(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    before = rtl_identity()
    assert before.startswith("rtl-")
    changed = tmp_path / "tw_gemm.sv"
    changed.write_text("// another accelerator\n")
    rtl_identity.cache_clear()
    monkeypatch.setattr(module, "read_manifest", lambda: [changed])
    assert rtl_identity() != before
    rtl_identity.cache_clear()


def test_measures_the_rtl_bit_exact_and_alike_each_time(rtl: RtlOracle) -> None:
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


def test_failures_come_back_beside_measurements(rtl: RtlOracle) -> None:
    requests = [
        request(schedule=Schedule(tile_h=999, tile_w=999, tile_ci=99, tile_co=99)),
        request(max_cycles=50),
        request(),
    ]
    answers = dict(rtl.measure(requests))
    assert [answers[p].status for p in range(3)] == [Status.FAILED, Status.TIMEOUT, Status.OK]
    assert "ScheduleError" in answers[0].failure


def test_a_wrong_expectation_is_a_mismatch_not_a_measurement(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tensors, output = golden(LAYER)
    wrong = output.copy()
    wrong[0, 0, 0, 0] ^= 1
    monkeypatch.setattr(module, "golden", lambda _: (tensors, wrong))
    answer = trial_job(request())
    assert answer.status is Status.MISMATCH
    assert answer.cycles is None
    assert not answer.valid
    assert "1 of 288" in answer.failure


def test_a_build_failure_fails_its_trials_and_no_others(
    rtl: RtlOracle, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = TINY.with_(name="other", mac_pipeline=3)
    monkeypatch.setattr(module, "build_job", refuse_other)
    answers = dict(rtl.measure([request(hw=other), request(), request(hw=other)]))
    assert [answers[p].status for p in range(3)] == [Status.FAILED, Status.OK, Status.FAILED]
    assert answers[0].failure == "build of other: made to fail"


def test_a_measurement_without_a_checked_output_is_not_valid() -> None:
    answer = Measurement(status=Status.OK, fidelity="rtl", cycles=5)
    assert not answer.valid
