# SPDX-License-Identifier: Apache-2.0
"""`Claims`: of all processes that write to one store, one measures a thing and the others wait.

A process claims what it is about to measure; the claim ends in the same transaction that stores
the trial. Whoever wants the same thing meanwhile waits for the trial and takes its measurement.
A claim outlives neither its process, when that ran on this machine, nor its lease.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import StoreError
from tilewright.tuner.measure.measurement import Measurement, Oracle, Request
from tilewright.tuner.store.records import request_key, reused
from tilewright.tuner.store.store import Store

LEASE_SECONDS: Final = 60
"""Age at which a claim that nobody renewed is free: its machine is gone."""

POLL_SECONDS: Final = 0.2
"""Time between two looks for what another process measures."""

_NUMBERS: Final = itertools.count()


class _Run:
    """What one call of `Claims.measure` has the oracle measure."""

    def __init__(self) -> None:
        self.leaders: Final[list[Request]] = []
        """Of each group of requests that want the same thing the one with the highest limit."""
        self.groups: Final[dict[str, list[int]]] = {}
        """Positions of requests by key, the leader's first; those that have no answer yet."""
        self.waiting: Final[dict[str, list[int]]] = {}
        """Requests that are neither answered nor measured here, by key."""
        self.answers: Iterator[tuple[int, Measurement]] | None = None
        self._keys: Final[list[str]] = []

    def add(self, key: str, group: list[int], requests: Sequence[Request]) -> None:
        """Measure what a group wants, once."""
        leader = max(group, key=lambda position: requests[position].max_cycles)
        self.leaders.append(requests[leader])
        self.groups[key] = [leader, *(position for position in group if position != leader)]
        self._keys.append(key)

    def answered(
        self, number: int, measurement: Measurement, requests: Sequence[Request]
    ) -> Iterator[tuple[int, Measurement]]:
        """Answers of a group; who came later with a higher limit may have to wait for another."""
        key = self._keys[number]
        leader = self.groups[key][0]
        yield leader, measurement
        for position in self.groups.pop(key)[1:]:
            limit = requests[position].max_cycles
            answer = reused(measurement, limit)
            if answer is None and limit > requests[leader].max_cycles:
                self.waiting.setdefault(key, []).append(position)
            else:
                yield position, answer or replace(measurement, limit_cycles=limit, cached=True)


class Claims:
    """The part of one session in what is measured over a store."""

    def __init__(self, store: Store, oracle: Oracle) -> None:
        self.owner: Final = f"{_machine()}:{_process()}:{next(_NUMBERS)}"
        self._store: Final = store
        self._oracle: Final = oracle
        self._closed: Final = threading.Event()
        self._renewal: threading.Thread | None = None

    def close(self) -> None:
        """Give up what is still claimed."""
        self._closed.set()
        if self._renewal is not None:
            self._renewal.join()
            with contextlib.suppress(StoreError):  # the claims end by themselves
                self._store.release(self.owner, patient=False)

    def give_up(self, request: Request) -> None:
        """End the claim on a trial that another process has stored meanwhile."""
        self._store.release(self.owner, {request_key(request, self._oracle.identity)})

    def measure(self, requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        """Answer each request: by an earlier trial, another process's, or a measurement.

        The caller stores every answer under `owner` before it asks for the next. It may append
        requests meanwhile, as `Oracle.measure` says.
        """
        run = _Run()
        waiting, taken = run.waiting, 0
        while True:
            self._admit(requests, taken, run)
            taken = len(requests)
            if waiting:
                yield from self._known(requests, waiting)
            if waiting:
                held = self._claim(waiting)
                # Someone may have stored one between the look above and the claim.
                yield from self._known(requests, waiting)
                if done := held - waiting.keys():
                    self._store.release(self.owner, done)
                for key in list(waiting):
                    if key in held:
                        run.add(key, waiting.pop(key), requests)
            if run.groups:
                if run.answers is None:
                    run.answers = self._oracle.measure(run.leaders)
                found = next(run.answers, None)
                if found is None:
                    return
                yield from run.answered(*found, requests)
            elif waiting:
                self._wait(waiting)
            elif taken == len(requests):
                break
        if run.answers is not None:
            next(run.answers, None)  # it ends: nothing is left to measure

    def _admit(self, requests: Sequence[Request], taken: int, run: _Run) -> None:
        """Take in the requests from a position on."""
        for position in range(taken, len(requests)):
            key = request_key(requests[position], self._oracle.identity)
            if key in run.groups:
                run.groups[key].append(position)
            else:
                run.waiting.setdefault(key, []).append(position)

    def _known(
        self, requests: Sequence[Request], waiting: dict[str, list[int]]
    ) -> Iterator[tuple[int, Measurement]]:
        """Answers that are in the store; what has one no longer waits."""
        for key, found in self._store.measured(waiting).items():
            left = []
            for position in waiting[key]:
                limit = requests[position].max_cycles
                answer = next((a for m in found if (a := reused(m, limit)) is not None), None)
                if answer is None:
                    left.append(position)
                else:
                    yield position, answer
            if left:
                waiting[key] = left
            else:
                del waiting[key]

    def _claim(self, keys: dict[str, list[int]]) -> set[str]:
        if self._renewal is None:
            self._renewal = threading.Thread(target=self._renew, daemon=True)
            self._renewal.start()
        return self._store.claim(keys, self.owner, seconds=LEASE_SECONDS)

    def _renew(self) -> None:
        while not self._closed.wait(LEASE_SECONDS / 4):
            with contextlib.suppress(StoreError):  # tried again long before the lease ends
                self._store.renew(self.owner, seconds=LEASE_SECONDS)

    def _wait(self, keys: dict[str, list[int]]) -> None:
        for owner in self._store.claimants(keys):
            if _is_dead(owner):
                self._store.release(owner)
        self._closed.wait(POLL_SECONDS)


def _machine() -> str:
    """What tells machines (and containers with processes of their own) apart."""
    with contextlib.suppress(OSError):
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii")[:13]
        return f"{boot}-{Path('/proc/self/ns/pid').stat().st_ino}"
    return socket.gethostname().replace(":", "-")[:60]


def _process(pid: int | None = None) -> str:
    """A process that is never confused with a later one of the same number, where Linux tells."""
    number = os.getpid() if pid is None else pid
    if not Path("/proc/self/stat").exists():
        os.kill(number, 0)
        return f"{number}-0"
    stat = Path(f"/proc/{number}/stat").read_text(encoding="utf-8", errors="replace")
    state, *fields = stat.rpartition(")")[2].split()
    if state in ("Z", "X"):  # dead, but nobody has asked for its exit code
        raise ProcessLookupError(number)
    return f"{number}-{fields[18]}"


def _is_dead(owner: str) -> bool:
    """Whether an owner of claims was a process of this machine that has ended."""
    machine, process, _ = owner.split(":")
    if machine != _machine():
        return False
    try:
        return _process(int(process.partition("-")[0])) != process
    except PermissionError:
        return False
    except OSError:
        return True
