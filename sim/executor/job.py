# SPDX-License-Identifier: Apache-2.0
"""The job protocol, which every executor speaks: how a job travels, and how it may end.

A job is a picklable function with picklable arguments. It travels as bytes (`Job`), runs where
`run_payload` is called, and ends in an `Outcome`, whatever happened to its worker.
"""

from __future__ import annotations

import math
import os
import pickle
import time
import traceback
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from multiprocessing.reduction import ForkingPickler
from typing import Any, Self

from tilewright.host.common.errors import DeviceError, TilewrightError


class OutcomeStatus(StrEnum):
    """How a job ended."""

    OK = "ok"
    ERROR = "error"
    """The function raised; the worker lives on."""
    CRASHED = "crashed"
    """The worker died: a signal, an exit, or a kill from outside."""
    TIMED_OUT = "timed_out"
    """The job exceeded the wall limit and its worker was killed."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The end of one job.

    Attributes:
        error: what it raised, if ``ERROR``; a `DeviceError` for a crash or a time-out.
    """

    job_id: Hashable  # as given to `Executor.submit`
    status: OutcomeStatus  # how it ended
    value: Any = None  # what the function returned, if ``OK``
    error: BaseException | None = None
    detail: str = ""  # traceback or cause as text; empty if ``OK``
    seconds: float = 0.0  # wall-clock time from dispatch to end

    @property
    def ok(self) -> bool:
        """Whether there is a value."""
        return self.status is OutcomeStatus.OK


@dataclass(kw_only=True)
class Job:
    """A job on the parent's side.

    Attributes:
        limited: whether it may take only so long; a build takes what the machine's load makes it.
    """

    job_id: Hashable  # as given to `Executor.submit`
    payload: bytes  # what `run_payload` takes
    started: float = 0.0  # when it was last dispatched, by `time.monotonic`
    crashes: int = 0  # workers that died under it
    limited: bool = True

    def deadline(self, wall_limit_s: float) -> float:
        """When it is late, by `time.monotonic`."""
        return self.started + wall_limit_s if self.limited else math.inf

    @classmethod
    def of(
        cls,
        job_id: Hashable,
        function: Callable[..., Any],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Self:
        """A job that is ready to travel."""
        return cls(job_id=job_id, payload=bytes(ForkingPickler.dumps((function, args, kwargs))))

    def answered(self, answer: bytes) -> Outcome:
        """The end that `run_payload` tells of."""
        try:
            status, value, error, detail = pickle.loads(answer)
        except Exception as problem:
            detail = f"the result cannot be unpickled: {problem!r}"
            return self._ended(OutcomeStatus.ERROR, error=problem, detail=detail)
        return self._ended(OutcomeStatus(status), value=value, error=error, detail=detail)

    def crashed(self, cause: str, text: str) -> Outcome:
        """The end of a job whose worker died; ``text`` is the error's."""
        error = DeviceError(text, field=str(self.job_id))
        return self._ended(OutcomeStatus.CRASHED, error=error, detail=cause)

    def timed_out(self, wall_limit_s: float) -> Outcome:
        """The end of a job whose worker was killed for its time."""
        cause = f"exceeded the wall limit of {wall_limit_s:g} s"
        error = DeviceError(f"the job {cause}", field=str(self.job_id), remedy=load_remedy())
        return self._ended(OutcomeStatus.TIMED_OUT, error=error, detail=cause)

    def _ended(self, status: OutcomeStatus, **facts: Any) -> Outcome:
        seconds = time.monotonic() - self.started
        return Outcome(job_id=self.job_id, status=status, seconds=seconds, **facts)


def load_remedy() -> str:
    """What to do about a machine that is slow, with what it has to do now."""
    load, processors = os.getloadavg()[0], os.cpu_count() or 1
    return (
        f"this machine has a load of {load:.0f} on {processors} processors: close other programs, "
        "or lower --workers"
    )


def run_payload(payload: bytes) -> bytes:
    """Run a pickled job; the answer (status, value, error, detail) is pickled too."""
    try:
        function, args, kwargs = pickle.loads(payload)
        value = function(*args, **kwargs)
        return bytes(ForkingPickler.dumps((OutcomeStatus.OK.value, value, None, "")))
    except BaseException as error:
        detail = traceback.format_exc()
        sent: BaseException = error
        try:
            pickle.loads(ForkingPickler.dumps(error))
        except Exception:  # an exception that does not survive the pipe is described instead
            sent = TilewrightError(f"{type(error).__name__}: {error}")
        return bytes(ForkingPickler.dumps((OutcomeStatus.ERROR.value, None, sent, detail)))
