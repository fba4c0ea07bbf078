# SPDX-License-Identifier: Apache-2.0
"""`TwinOracle`: measures batches on the twin in this process, lowering included, on threads.

A trial takes about a millisecond, less than its way to a worker process would. The counters are
those of the RTL; there is no data, so what wins here is confirmed on the RTL.
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, Final, TypeVar

import numpy as np

from tilewright.host.common.errors import TilewrightError
from tilewright.host.lowering.native.records import VERDICTS
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.workload import Workload
from tilewright.sim.twin.build import build_twin
from tilewright.sim.twin.device import COUNTER_NAMES, Refusal, Twin
from tilewright.sim.twin.native_lowering import NativeLowering, encode_schedules
from tilewright.tuner.measure.backends import identity_of
from tilewright.tuner.measure.measurement import Measurement, Request, Status, hw_key
from tilewright.tuner.measure.oracle import ENVIRONMENT, environment_fault

_T = TypeVar("_T")

CHUNK: Final = 8
"""Trials of one configuration and layer that a thread measures at a time."""

KEPT: Final = 32
"""Twins and lowerings that a thread keeps."""


class TwinOracle:
    """An `Oracle` at fidelity ``twin``."""

    def __init__(self, threads: int | None = None) -> None:
        build_twin()
        self._pool: Final = ThreadPoolExecutor(threads or os.cpu_count() or 1)
        self._identity: Final = identity_of(Fidelity.TWIN.value)
        self._local: Final = threading.local()

    @property
    def fidelity(self) -> str:
        """``twin``."""
        return Fidelity.TWIN.value

    @property
    def identity(self) -> str:
        """Digest of the RTL, the twin and the lowering."""
        return self._identity

    def prepare(self, hw: HwConfig) -> None:
        """The twin needs no build of a configuration."""

    def measure(self, requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        """See `Oracle.measure`."""
        taken = 0
        running: dict[Future[list[Measurement]], list[int]] = {}
        while taken < len(requests) or running:
            running |= self._start(requests, taken)
            taken = len(requests)
            for job in wait(running, return_when=FIRST_COMPLETED).done:
                yield from zip(running.pop(job), job.result(), strict=True)

    def _start(
        self, requests: Sequence[Request], first: int
    ) -> dict[Future[list[Measurement]], list[int]]:
        """Jobs of the requests from a position on, with what each of them measures."""
        groups: dict[tuple[str, str], list[int]] = {}
        for position, request in enumerate(requests[first:], first):
            groups.setdefault((hw_key(request.hw), request.workload.key), []).append(position)
        chunks = [
            positions[start : start + CHUNK]
            for positions in groups.values()
            for start in range(0, len(positions), CHUNK)
        ]
        return {
            self._pool.submit(self._run, [requests[position] for position in chunk]): chunk
            for chunk in chunks
        }

    def close(self) -> None:
        """End the threads."""
        self._pool.shutdown(cancel_futures=True)

    def _run(self, requests: Sequence[Request]) -> list[Measurement]:
        """Measure requests of one configuration and layer."""
        first = requests[0]
        started = time.perf_counter()
        try:
            twin = self._twin(first.hw, first.memory)
            lowering = self._lowering(first.hw, first.workload)
            points = encode_schedules(request.schedule for request in requests)
            limit = max(request.max_cycles for request in requests)
            batch = twin.batch(lowering, points, max_cycles=limit)
        except ENVIRONMENT as error:
            raise environment_fault("the twin cannot run", error) from error
        except TilewrightError as error:
            text = f"{type(error).__name__}: {error}"
            return [_failed(request, Status.FAILED, text) for request in requests]
        seconds = (time.perf_counter() - started) / len(requests)
        answers = []
        for number, request in enumerate(requests):
            rule, refusal = int(batch.rules[number]), Refusal(int(batch.refusals[number]))
            cycles = int(batch.cycles[number])
            if rule:
                answer = _failed(request, Status.FAILED, f"not legal: {VERDICTS[rule]}")
            elif refusal is Refusal.CYCLE_LIMIT or cycles > request.max_cycles:
                text = f"more than {request.max_cycles} cycles"
                answer = _failed(request, Status.TIMEOUT, text, seconds)
            elif refusal is not Refusal.NONE:
                answer = _failed(request, Status.FAILED, f"the twin refuses: {refusal.name}")
            else:
                counters = np.asarray(batch.counters[number]).tolist()
                answer = Measurement(
                    status=Status.OK,
                    fidelity=Fidelity.TWIN.value,
                    cycles=cycles,
                    counters=dict(zip(COUNTER_NAMES, counters, strict=True)),
                    limit_cycles=request.max_cycles,
                    host_seconds=seconds,
                )
            answers.append(answer)
        return answers

    def _twin(self, hw: HwConfig, memory: MemoryModel) -> Twin:
        kept: OrderedDict[object, Twin] = self._kept("twins")
        key = (hw.config_hash, memory)
        if key not in kept:
            kept[key] = Twin(hw, memory)
        return _touched(kept, key)

    def _lowering(self, hw: HwConfig, workload: Workload) -> NativeLowering:
        kept: OrderedDict[object, NativeLowering] = self._kept("lowerings")
        key = (hw.config_hash, workload.key)
        if key not in kept:
            kept[key] = NativeLowering(hw, workload)
        return _touched(kept, key)

    def _kept(self, name: str) -> OrderedDict[object, Any]:
        """A thread's own cache: neither twins nor lowerings may be shared."""
        kept: OrderedDict[object, Any] | None = getattr(self._local, name, None)
        if kept is None:
            kept = OrderedDict()
            setattr(self._local, name, kept)
        return kept


def _touched(kept: OrderedDict[object, _T], key: object) -> _T:
    kept.move_to_end(key)
    while len(kept) > KEPT:
        kept.popitem(last=False)
    return kept[key]


def _failed(request: Request, status: Status, text: str, seconds: float = 0.0) -> Measurement:
    return Measurement(
        status=status,
        fidelity=Fidelity.TWIN.value,
        failure=text,
        limit_cycles=request.max_cycles,
        host_seconds=seconds,
    )
