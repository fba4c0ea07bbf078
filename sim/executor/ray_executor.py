# SPDX-License-Identifier: Apache-2.0
"""`RayExecutor`: the jobs of `WorkerPool`, run by actors of a Ray cluster on many machines.

Every machine needs the same Tilewright and its tools; each worker proves it before its first job.
Simulators are built on the machine that needs them, once each, in that machine's cache.
"""

from __future__ import annotations

import contextlib
import math
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, ParamSpec

from tilewright import __version__
from tilewright.host.common.children import use_safe_path
from tilewright.host.common.errors import (
    DeviceError,
    EnvironmentFaultError,
    TilewrightError,
    ToolError,
    reason_of,
)
from tilewright.host.common.extras import install_line
from tilewright.sim.executor.job import Job, Outcome, run_payload
from tilewright.sim.executor.protocol import (
    KILL_PAUSE_S,
    START_FAILURES,
    START_KILLS,
    Executor,
)

_P = ParamSpec("_P")

LOCAL: Final = "local"
"""Address that starts a cluster on this machine alone."""

START_LIMIT_S: Final = 120.0
"""Seconds in which the first worker must be there."""

LOOK_S: Final = 2.0
"""Seconds between looks at a cluster that no worker answers from."""

CONNECT_LIMIT_S: Final = 5.0
"""Seconds in which something must listen at a cluster's address."""


def unmarked() -> str:
    """Fingerprint of workers when none is asked for."""
    return ""


class _Runner:
    """An actor's life: say who it is, then run one job after the other."""

    def hello(self, fingerprint: Callable[[], str]) -> tuple[str, str]:
        """Machine, and what must be equal on all machines."""
        return socket.gethostname(), f"{__version__} {fingerprint()}".strip()

    def run(self, payload: bytes) -> bytes:
        """Run a pickled job; the answer is pickled too."""
        return run_payload(payload)


@dataclass(kw_only=True, eq=False)
class _Slot:
    actor: Any
    reference: Any = None
    """What it is busy with; None: idle."""
    ready: bool = False
    job: Job | None = None


class RayExecutor(Executor):
    """An `Executor` on a Ray cluster.

    A job whose worker or machine dies is run again on another one.
    """

    def __init__(
        self,
        address: str = LOCAL,
        workers: int | None = None,
        *,
        wall_limit_s: float = 600.0,
        retries: int = 1,
        fingerprint: Callable[[], str] = unmarked,
    ) -> None:
        super().__init__(workers, wall_limit_s=wall_limit_s, retries=retries)
        self._ray: Final = _import_ray()
        self._fingerprint: Final = fingerprint
        self._mine: Final = _Runner().hello(fingerprint)[1]
        self._slots: list[_Slot] = []
        self._waiting_since = 0.0
        self._owns = not self._ray.is_initialized()
        if self._owns:
            self._connect(address, workers)
        cpus = int(self._ray.cluster_resources().get("CPU", 1))
        self._size: Final = workers or max(1, cpus)
        self._actor: Final = self._ray.remote(num_cpus=1, max_restarts=0)(_Runner)

    @property
    def size(self) -> int:
        """Workers at most."""
        return self._size

    def close(self) -> None:
        """Kill the workers, and the cluster if it was started here. Idempotent."""
        if self._closed:
            return
        self._closed = True
        self._queue.clear()
        for slot in self._slots:
            self._kill(slot)
        self._slots.clear()
        if self._owns:
            self._ray.shutdown()

    def _connect(self, address: str, workers: int | None) -> None:
        where: dict[str, Any] = {"address": address}
        _require_listener(address)
        use_safe_path()
        if address == LOCAL:
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            where = {
                "address": LOCAL,
                "num_cpus": workers or os.cpu_count() or 1,
                "include_dashboard": False,
            }
        try:
            with _own_words(), contextlib.chdir("/"):  # Ray lets workers import from where it is
                self._ray.init(**where, logging_level="ERROR", log_to_driver=False)
        except Exception as error:  # of many kinds, by version
            raise DeviceError(
                f"no Ray cluster answers ({reason_of(error, 200)})",
                field="ray",
                value=address,
                remedy="start one with `ray start --head`, or use --ray local",
            ) from error

    def _dispatch(self) -> None:
        for slot in self._slots:
            if slot.ready and slot.reference is None and self._queue:
                job = self._queue.popleft()
                job.started = time.monotonic()
                slot.job, slot.reference = job, slot.actor.run.remote(job.payload)
        starting = sum(not slot.ready for slot in self._slots)
        while len(self._slots) < self._size and starting < len(self._queue):
            actor = self._actor.remote()
            self._slots.append(_Slot(actor=actor, reference=actor.hello.remote(self._fingerprint)))
            starting += 1
        if not self._waiting_since:
            self._waiting_since = time.monotonic()

    def _running(self) -> int:
        return sum(slot.job is not None for slot in self._slots)

    def _step(self) -> list[Outcome]:
        try:
            return self._next()
        except TilewrightError:
            raise
        except Exception as error:  # Ray's own, of many kinds: the cluster is gone
            raise EnvironmentFaultError(
                f"the Ray cluster failed ({type(error).__name__}: {_first_line(error)})",
                field="ray",
                remedy="look at `ray status`; the same command goes on from here",
            ) from error

    def _next(self) -> list[Outcome]:
        self._dispatch()
        by_reference = {slot.reference: slot for slot in self._slots if slot.reference}
        done, _ = self._ray.wait(list(by_reference), num_returns=1, timeout=self._patience())
        found = [self._receive(by_reference[reference]) for reference in done]
        now = time.monotonic()
        for slot in list(self._slots):
            if slot.job and now >= slot.job.deadline(self._wall_limit_s):
                found.append(self._time_out(slot, slot.job))
        self._check_start(now)
        self._dispatch()
        return [outcome for outcome in found if outcome is not None]

    def _patience(self) -> float | None:
        """Seconds until something is late; None where nothing can be, as builds never are."""
        late = [slot.job.deadline(self._wall_limit_s) for slot in self._slots if slot.job]
        if not any(slot.ready for slot in self._slots):
            late.append(min(self._waiting_since + START_LIMIT_S, time.monotonic() + LOOK_S))
        first = min(late, default=math.inf)
        return None if math.isinf(first) else max(0.0, first - time.monotonic())

    def _check_start(self, now: float) -> None:
        if any(slot.ready for slot in self._slots):
            self._waiting_since = now
        elif not any(node["Alive"] for node in self._ray.nodes()):
            raise EnvironmentFaultError(
                "no machine of the Ray cluster is alive: its daemon (raylet) has ended",
                field="ray",
                remedy="look who ended it (`dmesg` tells of a lack of memory), start the cluster "
                "again, and give the same command, which goes on from here",
            )
        elif now >= self._waiting_since + START_LIMIT_S:
            raise DeviceError(
                f"a Ray worker must start within {START_LIMIT_S:g} s",
                field="ray",
                remedy="look for free CPUs with `ray status`",
            )

    def _receive(self, slot: _Slot) -> Outcome | None:
        """What a slot's reference holds."""
        job, reference = slot.job, slot.reference
        slot.job, slot.reference = None, None
        try:
            answer = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._drop(slot)
            return self._crashed(slot, job, error)
        if job is None:
            machine, theirs = answer
            if theirs != self._mine:
                raise DeviceError(
                    f"every machine must run the same Tilewright ({self._mine})",
                    field=f"ray worker on {machine}",
                    value=theirs,
                    remedy="install the version of this machine there",
                )
            slot.ready = True
            self._start_failures = self._start_kills = 0
            return None
        return job.answered(answer)

    def _crashed(self, slot: _Slot, job: Job | None, error: Exception) -> Outcome | None:
        killed = isinstance(error, self._ray.exceptions.RayActorError)
        if not slot.ready and killed and self._start_kills < START_KILLS:
            self._start_kills += 1
            time.sleep(KILL_PAUSE_S)
        elif not slot.ready:
            self._start_failures += 1
            if self._start_failures >= START_FAILURES:
                raise DeviceError(
                    f"Ray workers must start ({_first_line(error)})",
                    field="ray",
                    remedy="install the same Tilewright on every machine of the cluster",
                ) from error
        cause = f"the Ray worker died: {_first_line(error)}"
        return self._lost(job, cause, cause)

    def _time_out(self, slot: _Slot, job: Job) -> Outcome:
        self._drop(slot)
        return job.timed_out(self._wall_limit_s)

    def _drop(self, slot: _Slot) -> None:
        self._slots.remove(slot)
        self._kill(slot)

    def _kill(self, slot: _Slot) -> None:
        with contextlib.suppress(Exception):  # it is gone already, or the cluster is
            self._ray.kill(slot.actor, no_restart=True)


def _import_ray() -> Any:
    try:
        import ray  # noqa: PLC0415  (an extra: loaded when asked for)
    except ImportError as error:
        raise ToolError("Ray is not installed", field="ray", remedy=install_line("ray")) from error
    return ray


def _require_listener(address: str) -> None:
    """Fail at once where nothing listens: Ray itself would try for two minutes, loudly."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_LIMIT_S).close()
    except (OSError, OverflowError) as error:
        raise DeviceError(
            f"no Ray cluster answers ({getattr(error, 'strerror', None) or error})",
            field="ray",
            value=address,
            remedy="start one with `ray start --head`, or use --ray local",
        ) from error


@contextlib.contextmanager
def _own_words() -> Iterator[None]:
    """Keep what Ray's native code writes to standard error off the terminal."""
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  (a descriptor is what is needed)
            os.dup2(nowhere.fileno(), 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), "")
