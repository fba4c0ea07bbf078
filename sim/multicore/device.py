# SPDX-License-Identifier: Apache-2.0
"""Devices of a system: `SimulatedSystem` over any simulation of its registers, and of its RTL."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from tilewright.host.common.errors import ConfigError, DeviceTimeoutError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.program import REGION_ALIGNMENT
from tilewright.host.machine.system_config import SystemConfig
from tilewright.host.runtime.device import Bytes, Counters
from tilewright.host.runtime.driver import check_run
from tilewright.host.runtime.system_device import Submission, SubmissionResult, SystemResult
from tilewright.host.runtime.system_driver import Ended, SystemDriver
from tilewright.sim.verilator import simulated
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.library import Simulation, StopReason


class SimulatedSystem(simulated.Simulated[simulated.Kind]):
    """Runs programs through the registers of a simulated system.

    The memories of submissions lie side by side, in their order, without a gap. Every memory port
    has a DRAM of the same timing.
    """

    def __init__(self, system: SystemConfig, memory: MemoryModel, fidelity: Fidelity) -> None:
        self._system = system
        super().__init__(memory, fidelity)

    def _check_identity(self) -> None:
        self._driver().check_identity()

    @property
    def system(self) -> SystemConfig:
        """The system that the device implements."""
        return self._system

    def set_share(
        self, core: int, *, weight: int = 1, read_budget: int = 0, write_budget: int = 0
    ) -> None:
        """Change a core's share of its port from now on (see `SystemConfig`)."""
        self._driver().set_share(
            core, weight=weight, read_budget=read_budget, write_budget=write_budget
        )

    def set_window(self, cycles: int) -> None:
        """Change the cycles in which budgets count, from now on."""
        self._driver().set_window(cycles)

    def set_limits(self, *, reads: int, writes: int) -> None:
        """Change the bursts in flight of each port from now on."""
        self._driver().set_limits(reads=reads, writes=writes)

    def run(
        self,
        submissions: Sequence[Submission],
        *,
        start_after: Mapping[int, int] | None = None,
        max_cycles: int = 0,
    ) -> SystemResult:
        """Run all submissions to their end (see `SystemDevice.run`)."""
        self._check(submissions, start_after or {}, max_cycles)
        bases, image = _lay_out(submissions)
        started = time.perf_counter()
        with self._attached(image) as simulation:
            run = _Run(simulation, self._driver(), self._system, submissions, bases)
            run.to_the_end(start_after or {}, max_cycles or simulated.DEFAULT_MAX_CYCLES)
        seconds = time.perf_counter() - started
        first = min(ended.begin for ended in run.ended.values())
        results = []
        for number, (given, base) in enumerate(zip(submissions, bases, strict=True)):
            ended = run.ended[number]
            results.append(
                SubmissionResult(
                    memory=self._memory_of(given, image[base : base + given.memory.size]),
                    begin=ended.begin - first,
                    cycles=ended.cycles,
                    error=ended.error,
                )
            )
        return SystemResult(
            results=tuple(results),
            counters=tuple(run.counters),
            shares=tuple(run.shares),
            host_seconds=seconds,
        )

    def _check(
        self, submissions: Sequence[Submission], start_after: Mapping[int, int], max_cycles: int
    ) -> None:
        if not submissions:
            raise ConfigError("must hold at least one program", field="submissions", value=0)
        cores = len(self._system.cores)
        for number in (*(given.core for given in submissions), *start_after):
            if not 0 <= number < cores:
                raise ConfigError(
                    f"{self._system.name} has cores 0 to {cores - 1}", field="core", value=number
                )
        for core, cycles in start_after.items():
            if cycles < 0:
                raise ConfigError(
                    "must not be negative", field=f"start_after[{core}]", value=cycles
                )
        for given in submissions:
            hw = self._system.cores[given.core].hw
            check_run(hw, given.program, given.memory, max_cycles)

    def _memory_of(self, given: Submission, image: Bytes) -> Bytes:  # noqa: ARG002  (of subclasses)
        """The memory of a submission that has run, of its part of the memory that was attached."""
        return image.copy()

    def _driver(self) -> SystemDriver:
        return SystemDriver(self.simulation, self._system)


def _lay_out(submissions: Sequence[Submission]) -> tuple[list[int], Bytes]:
    """Offsets of the submissions' memories, and the image of them all."""
    bases, end = [], 0
    for given in submissions:
        bases.append(end)
        end += -(-given.program.memory_bytes // REGION_ALIGNMENT) * REGION_ALIGNMENT
    image: Bytes = np.zeros(end, dtype=np.uint8)
    for given, base in zip(submissions, bases, strict=True):
        image[base : base + given.memory.size] = given.memory
    return bases, image


class _Run:
    """One run of a system: queues that are fed, completions that are taken."""

    def __init__(
        self,
        simulation: simulated.AnySimulation,
        driver: SystemDriver,
        system: SystemConfig,
        submissions: Sequence[Submission],
        bases: Sequence[int],
    ) -> None:
        self._simulation = simulation
        self._driver = driver
        self._submissions = submissions
        self._bases = bases
        self._waiting: dict[int, deque[int]] = {}
        for number, given in enumerate(submissions):
            self._waiting.setdefault(given.core, deque()).append(number)
        self._room = dict.fromkeys(self._waiting, system.queue_depth)
        self.ended: dict[int, Ended] = {}
        self.counters: list[Counters | None] = [None] * len(system.cores)
        self.shares: list[Mapping[str, int]] = [{} for _ in system.cores]

    def to_the_end(self, start_after: Mapping[int, int], limit: int) -> None:
        """Run until every submission has ended."""
        before = [self._driver.share_counters(core) for core in range(len(self.shares))]
        for core in self._waiting:
            self._driver.interrupt_on_completion(core)
            self._feed(core)
        delays = {core: start_after.get(core, 0) for core in self._waiting}
        earliest = min(delays.values())
        started = self._simulation.total_cycles
        enabled, due = 0, sorted((delay - earliest, core) for core, delay in delays.items())
        while len(self.ended) < len(self._submissions):
            elapsed = self._simulation.total_cycles - started
            if elapsed >= limit:
                raise DeviceTimeoutError(
                    f"all programs must finish within {limit} cycles",
                    field="max_cycles",
                    remedy="raise the limit or look at the programs",
                )
            if due and due[0][0] <= elapsed:
                now = due[0][0] if not enabled else elapsed
                while due and due[0][0] <= now:
                    enabled |= 1 << due.pop(0)[1]
                self._driver.enable_queues(enabled)
                continue
            pause = min(
                simulated.SLICE_CYCLES, limit - elapsed, *(delay - elapsed for delay, _ in due)
            )
            if self._simulation.run(pause).reason is StopReason.INTERRUPT:
                self._take()
        self._driver.enable_queues(0)
        for core in self._waiting:
            self.counters[core] = self._driver.core(core).snapshot()
        for core, old in enumerate(before):
            new = self._driver.share_counters(core)
            self.shares[core] = {name: new[name] - old[name] for name in new}

    def _feed(self, core: int) -> None:
        """Fill a core's queue."""
        waiting = self._waiting[core]
        while waiting and self._room[core]:
            number = waiting.popleft()
            given = self._submissions[number]
            self._driver.push(
                core,
                given.program,
                simulated.MEMORY_BASE + self._bases[number],
                tag=number,
                watchdog_cycles=given.watchdog_cycles,
                scrub=given.scrub,
            )
            self._room[core] -= 1

    def _take(self) -> None:
        """Take what has ended and refill its queue."""
        pending = self._driver.pending()
        for core in self._waiting:
            if pending >> core & 1:
                for ended in self._driver.completions(core):
                    self.ended[ended.tag] = ended
                    self._room[core] += 1
                self._feed(core)


class VerilatorSystem(SimulatedSystem[Simulation]):
    """A `SystemDevice` that runs the verilated RTL of a system."""

    def __init__(
        self,
        system: SystemConfig,
        memory: MemoryModel,
        *,
        fidelity: Fidelity = Fidelity.RTL,
        library: Path | None = None,
        initial_seed: int = 0,
    ) -> None:
        self._library = library or build_model(system, fidelity=fidelity)
        self._initial_seed = initial_seed
        super().__init__(system, memory, fidelity)

    def _create(self) -> Simulation:
        return Simulation(
            self._library,
            max_burst_beats=max(core.hw.axi_burst_beats for core in self._system.cores),
            memory=self._memory,
            initial_seed=self._initial_seed,
        )
