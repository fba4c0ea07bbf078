# SPDX-License-Identifier: Apache-2.0
"""`Executor`: where jobs run. `worker.WorkerPool` is this machine, `ray_executor` a cluster."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from typing import Any, ParamSpec, Protocol

from tilewright.sim.executor.job import Outcome

_P = ParamSpec("_P")


class Executor(Protocol):
    """Runs picklable functions in processes that may crash, hang or be killed.

    What a job returns depends on the job alone: not on the executor, nor on how many workers it
    has, nor on which of them runs it. Only the order of outcomes does.
    """

    @property
    def pending(self) -> int:
        """Jobs that have no outcome yet."""
        ...

    def submit(
        self, job_id: Hashable, function: Callable[_P, Any], *args: _P.args, **kwargs: _P.kwargs
    ) -> None:
        """Queue a job; its outcome comes from `results` under ``job_id``.

        Raises:
            DeviceError: the executor is closed.
            pickle.PicklingError, AttributeError, TypeError: the job cannot be pickled.
        """
        ...

    def results(self) -> Iterator[Outcome]:
        """Outcomes in the order in which jobs end, until none is pending.

        Jobs may be submitted while it is consumed.

        Raises:
            DeviceError: workers do not start.
        """
        ...

    def close(self) -> None:
        """End every worker and drop jobs without an outcome. Idempotent."""
        ...
