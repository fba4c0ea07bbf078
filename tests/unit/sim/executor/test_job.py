# SPDX-License-Identifier: Apache-2.0
"""A job travels as bytes and ends in one outcome, whatever happens to its worker."""

import operator
import time

import pytest

from tilewright.host.common.errors import DeviceError
from tilewright.sim.executor.job import Job, OutcomeStatus, run_payload


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
