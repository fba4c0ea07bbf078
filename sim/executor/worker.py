# SPDX-License-Identifier: Apache-2.0
"""Worker processes for simulations: a crash, a hang or a kill costs one job and is reported.

The pool is generic (`job`). `devices.run_on_device` is the function that most jobs go through.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Final, ParamSpec

from tilewright.host.common.children import end_with_parent, spawn_context
from tilewright.host.common.errors import (
    DeviceError,
    EnvironmentFaultError,
)
from tilewright.sim.executor.job import Job, Outcome, run_payload
from tilewright.sim.executor.protocol import (
    KILL_PAUSE_S,
    START_FAILURES,
    START_KILLS,
    Executor,
)

_P = ParamSpec("_P")

_LAST_WORDS_S: Final = 5.0
_LONGEST_WAIT_S: Final = 3600.0
"""poll(2) takes milliseconds in 32 bits."""
_READY: Final = b"ready"


@dataclass(kw_only=True)
class _Worker:
    process: SpawnProcess
    connection: Connection
    ready: bool = False
    job: Job | None = None


class WorkerPool(Executor):
    """Processes of this machine that run jobs.

    Workers start on demand and are replaced when they die. They form their own process groups:
    Ctrl-C reaches the parent only, which then kills them, and a worker whose parent has died
    kills itself with everything that it started (compilers, for example).
    """

    def __init__(
        self,
        workers: int = 2,
        *,
        wall_limit_s: float = 600.0,
        retries: int = 0,
    ) -> None:
        super().__init__(workers, wall_limit_s=wall_limit_s, retries=retries)
        self._size = workers
        self._context = spawn_context()
        self._workers: list[_Worker] = []
        self._not_before = 0.0

    def close(self) -> None:
        """See `Executor.close`."""
        self._closed = True
        self._queue.clear()
        for worker in self._workers:
            _kill(worker.process)
        for worker in self._workers:
            worker.process.join()
            worker.connection.close()
        self._workers.clear()

    def _running(self) -> int:
        return sum(worker.job is not None for worker in self._workers)

    def _step(self) -> list[Outcome]:
        self._dispatch()
        deadlines = [w.job.deadline(self._wall_limit_s) for w in self._workers if w.job]
        if self._queue and self._not_before > time.monotonic():
            deadlines.append(self._not_before)
        timeout = max(0.0, min(deadlines) - time.monotonic()) if deadlines else None
        if timeout is not None:
            timeout = min(timeout, _LONGEST_WAIT_S)
        happened = wait([w.connection for w in self._workers], timeout)
        outcomes = []
        for worker in list(self._workers):
            if worker.connection in happened:
                outcome = self._receive(worker)
            elif worker.job and time.monotonic() >= worker.job.deadline(self._wall_limit_s):
                outcome = self._time_out(worker)
            else:
                continue
            if outcome is not None:
                outcomes.append(outcome)
        self._dispatch()
        return outcomes

    def _dispatch(self) -> None:
        for worker in list(self._workers):
            if not self._queue:
                return
            if not worker.ready or worker.job is not None:
                continue
            job = self._queue.popleft()
            try:
                worker.connection.send_bytes(job.payload)
            except OSError:  # it died while idle: nobody has seen the job
                self._queue.appendleft(job)
                self._remove(worker)
                continue
            job.started = time.monotonic()
            worker.job = job
        starting = sum(not worker.ready for worker in self._workers)
        if time.monotonic() < self._not_before:
            return
        while len(self._workers) < self._size and starting < len(self._queue):
            self._workers.append(self._start())
            starting += 1

    def _start(self) -> _Worker:
        ours, theirs = self._context.Pipe()
        process = self._context.Process(target=_work, args=(theirs,), daemon=True)
        # The child inherits the mask: Ctrl-C is the parent's to handle.
        previous = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, previous)
        theirs.close()  # so that the worker's death is the end of the pipe
        return _Worker(process=process, connection=ours)

    def _receive(self, worker: _Worker) -> Outcome | None:
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            return self._bury(worker)
        if message == _READY:
            worker.ready = True
            self._start_failures = self._start_kills = 0
            return None
        job, worker.job = worker.job, None
        if job is None:  # a message that answers nothing: do not trust this worker
            self._remove(worker)
            return None
        return job.answered(message)

    def _bury(self, worker: _Worker) -> Outcome | None:
        """A worker died by itself."""
        job = worker.job
        worker.process.join(_LAST_WORDS_S)  # its pipe has ended: so will it, with its own exit code
        self._remove(worker)
        cause = _death_text(worker.process.exitcode)
        killed = worker.process.exitcode is not None and worker.process.exitcode < 0
        if not worker.ready and killed:
            self._start_kills += 1
            self._not_before = time.monotonic() + KILL_PAUSE_S
            if self._start_kills >= START_KILLS:
                raise EnvironmentFaultError(
                    f"{START_KILLS} workers in a row were killed while they started (the last one "
                    f"{cause})",
                    field="workers",
                    remedy="see who kills them (`dmesg` tells of a lack of memory), or lower "
                    "--workers; the same command goes on from here",
                )
        elif not worker.ready:
            self._start_failures += 1
            if self._start_failures >= START_FAILURES:
                raise DeviceError(
                    f"worker processes must start (the last one {cause})",
                    field="workers",
                    remedy="run the job in the main process to see the error; a script that "
                    "starts workers needs 'if __name__ == \"__main__\":' and a file of its own "
                    "(standard input is none)",
                )
        return self._lost(job, cause, f"the worker process {cause}")

    def _time_out(self, worker: _Worker) -> Outcome | None:
        job = worker.job
        self._remove(worker)
        return None if job is None else job.timed_out(self._wall_limit_s)

    def _remove(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        _kill(worker.process)
        worker.process.join()
        worker.connection.close()


def _work(connection: Connection) -> None:
    """A worker's life: read a job, run it, answer; leave when the parent is gone."""
    with contextlib.suppress(OSError):
        os.setpgid(0, 0)
    end_with_parent()
    connection.send_bytes(_READY)
    while True:
        try:
            payload = connection.recv_bytes()
        except (EOFError, OSError):
            return
        connection.send_bytes(run_payload(payload))


def _kill(process: SpawnProcess) -> None:
    """Kill a worker and its children; nothing happens if it is gone."""
    if process.pid is None or process.exitcode is not None:
        return
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):  # killed before it made its group
        process.kill()


def _death_text(exitcode: int | None) -> str:
    if exitcode is not None and exitcode < 0:
        try:
            return f"was killed by {signal.Signals(-exitcode).name}"
        except ValueError:
            return f"was killed by signal {-exitcode}"
    return f"exited with code {exitcode}"
