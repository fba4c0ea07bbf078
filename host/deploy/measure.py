# SPDX-License-Identifier: Apache-2.0
"""Latency one by one, and throughput with the CPU at work on one input while another runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.compiler.run.network_runner import NetworkRun, NetworkRunner

Inputs = Mapping[str, npt.NDArray[Any]]

IN_FLIGHT: Final = 2
"""Inputs at a time: one on the accelerator, one that the CPU packs or unpacks."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Measured:
    """What runs of a network took."""

    runs: tuple[NetworkRun, ...]  # of the inputs, in their order
    latencies: tuple[float, ...]  # seconds of each run alone
    serial_seconds: float  # all of them, one after the other
    pipelined_seconds: float  # all of them again, `IN_FLIGHT` at a time

    def quantile(self, part: float) -> float:
        """Latency in seconds that this part of the runs does not exceed."""
        return float(np.quantile(self.latencies, part))


def measure(open_runner: Callable[[], NetworkRunner], inputs: Sequence[Inputs]) -> Measured:
    """Run every input alone, then all of them pipelined.

    The first input runs once before, unmeasured: the device then has its memory.
    """
    with ExitStack() as stack:
        free: SimpleQueue[NetworkRunner] = SimpleQueue()
        for _ in range(IN_FLIGHT):
            free.put(stack.enter_context(open_runner()))
        runner = free.get()
        runner.run(inputs[0])
        runs, latencies = [], []
        for each in inputs:
            started = time.perf_counter()
            runs.append(runner.run(each))
            latencies.append(time.perf_counter() - started)
        free.put(runner)

        def run(each: Inputs) -> None:
            one = free.get()
            try:
                one.run(each)
            finally:
                free.put(one)

        started = time.perf_counter()
        with ThreadPoolExecutor(IN_FLIGHT) as threads:
            list(threads.map(run, inputs))
        return Measured(
            runs=tuple(runs),
            latencies=tuple(latencies),
            serial_seconds=sum(latencies),
            pipelined_seconds=time.perf_counter() - started,
        )
