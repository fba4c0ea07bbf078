# SPDX-License-Identifier: Apache-2.0
"""`Executor`: where jobs run. `worker.WorkerPool` is this machine, `ray_executor` a cluster."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Hashable, Iterator
from typing import Any, Final, ParamSpec, Self

from tilewright.host.common.errors import ConfigError, DeviceError
from tilewright.sim.executor.job import Job, Outcome

_P = ParamSpec("_P")

START_FAILURES: Final = 3
"""Workers that may end by themselves while they start, one after the other."""

START_KILLS: Final = 30
"""Workers that may be killed while they start, one after the other: a machine may be short of
memory for a while, and every one is replaced after `KILL_PAUSE_S`."""

KILL_PAUSE_S: Final = 0.5


class Executor(ABC):
    """Runs picklable functions in processes that may crash, hang or be killed.

    What a job returns depends on the job alone: not on the executor, nor on how many workers it
    has, nor on which of them runs it. Only the order of outcomes does. Use it as a context manager.

    Args:
        workers: processes; None: as many as there are CPUs.
        wall_limit_s: seconds that a job of `submit` may take.
        retries: how often a job is run again after a crash of its worker.

    Raises:
        ConfigError: a value out of range.
    """

    def __init__(self, workers: int | None, *, wall_limit_s: float, retries: int) -> None:
        if workers is not None and workers < 1:
            raise ConfigError("must be at least 1", field="workers", value=workers)
        if not wall_limit_s > 0:
            raise ConfigError("must be above 0 seconds", field="wall_limit_s", value=wall_limit_s)
        self._wall_limit_s: Final = wall_limit_s
        self._retries: Final = retries
        self._queue: deque[Job] = deque()
        self._start_failures = 0
        self._start_kills = 0
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def pending(self) -> int:
        """Jobs that have no outcome yet."""
        return len(self._queue) + self._running()

    def submit(
        self, job_id: Hashable, function: Callable[_P, Any], *args: _P.args, **kwargs: _P.kwargs
    ) -> None:
        """Queue a job; its outcome comes from `results` under ``job_id``.

        Raises:
            DeviceError: the executor is closed.
            pickle.PicklingError, AttributeError, TypeError: the job cannot be pickled.
        """
        self._put(Job.of(job_id, function, args, kwargs))

    def submit_unlimited(
        self, job_id: Hashable, function: Callable[_P, Any], *args: _P.args, **kwargs: _P.kwargs
    ) -> None:
        """`submit` for a job that is never late, such as a build on a busy machine."""
        job = Job.of(job_id, function, args, kwargs)
        job.limited = False
        self._put(job)

    def _put(self, job: Job) -> None:
        if self._closed:
            raise DeviceError("the executor is closed", field="submit")
        self._queue.append(job)
        self._dispatch()

    def results(self) -> Iterator[Outcome]:
        """Outcomes in the order in which jobs end, until none is pending.

        Jobs may be submitted while it is consumed.

        Raises:
            DeviceError: workers end by themselves while they start, again and again.
            EnvironmentFaultError: something kills them while they start, again and again.
        """
        while self.pending:
            yield from self._step()

    @abstractmethod
    def close(self) -> None:
        """End every worker and drop jobs without an outcome. Idempotent."""

    @abstractmethod
    def _running(self) -> int:
        """Jobs that a worker has."""

    @abstractmethod
    def _dispatch(self) -> None:
        """Give queued jobs to idle workers, starting workers as needed."""

    @abstractmethod
    def _step(self) -> list[Outcome]:
        """Wait for something to happen and deal with it."""

    def _lost(self, job: Job | None, cause: str, text: str) -> Outcome | None:
        """What becomes of the job of a worker that died: it is run again, or ends."""
        if job is None:
            return None
        job.crashes += 1
        if job.crashes <= self._retries:
            self._queue.appendleft(job)
            return None
        return job.crashed(cause, text)
