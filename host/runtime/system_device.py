# SPDX-License-Identifier: Apache-2.0
"""The `SystemDevice` protocol: run programs on the cores of a system at the same time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from tilewright.host.common.errors import DeviceError
from tilewright.host.machine.program import Program
from tilewright.host.machine.system_config import SystemConfig
from tilewright.host.runtime.device import Bytes, Counters
from tilewright.host.runtime.driver import DEFAULT_WATCHDOG_CYCLES


@dataclass(frozen=True, kw_only=True)
class Submission:
    """A program for one core of a system.

    Attributes:
        memory: uint8 array of ``program.memory_bytes`` that holds the program's image and the input
            tensors; not modified.
        watchdog_cycles: cycles without progress until the core gives up; 0: never.
    """

    core: int  # number of the core; its submissions run in their order
    program: Program  # built for the core's configuration
    memory: Bytes
    scrub: bool = False  # zero the core's scratchpads before it
    watchdog_cycles: int = DEFAULT_WATCHDOG_CYCLES


@dataclass(frozen=True, kw_only=True)
class SubmissionResult:
    """What became of a submission."""

    memory: Bytes  # its memory after the run, whatever ended it
    begin: int  # cycles from the first start of the run to its start
    cycles: int  # of its run; what counter ``cycles`` says if it ended well
    error: DeviceError | None = None  # why it did not end well; the others are not touched by it

    @property
    def end(self) -> int:
        """Cycles from the first start of the run to its end."""
        return self.begin + self.cycles


@dataclass(frozen=True, kw_only=True)
class SystemResult:
    """Outcome of a run of a system.

    Attributes:
        counters: by core, what it counted in its last submission; None for a core without one.
        shares: by core, what its arbiter counted in the run
            (`host.machine.registers.SHARE_COUNTER_NAMES`).
    """

    results: tuple[SubmissionResult, ...]  # of the submissions, in their order
    counters: tuple[Counters | None, ...]
    shares: tuple[Mapping[str, int], ...]
    host_seconds: float  # wall-clock time of the run itself

    @property
    def makespan(self) -> int:
        """Cycles from the first start to the last end."""
        return max(result.end for result in self.results)


@runtime_checkable
class SystemDevice(Protocol):
    """Anything that runs programs on the cores of a `SystemConfig` at the same time."""

    @property
    def system(self) -> SystemConfig:
        """The system that the device implements."""
        ...

    def run(
        self,
        submissions: Sequence[Submission],
        *,
        start_after: Mapping[int, int] | None = None,
        max_cycles: int = 0,
    ) -> SystemResult:
        """Run all submissions to their end.

        Args:
            submissions: at least one.
            start_after: by core, cycles behind the first start at which its first submission may
                begin; cores without an entry start first, all in the same cycle.
            max_cycles: cycle limit; 0 means the device's default.

        Raises:
            ProgramError: a program was built for another configuration, or sizes differ.
            DeviceError: the system itself failed; what a program does wrong is in its result.
            DeviceTimeoutError: the cycle limit was reached.
        """
        ...

    def close(self) -> None:
        """Release the device; further calls are an error."""
        ...


class SharedPorts(SystemDevice, Protocol):
    """A system whose shares of memory ports can be set."""

    def set_share(
        self, core: int, *, weight: int = 1, read_budget: int = 0, write_budget: int = 0
    ) -> None:
        """Change a core's share of its port from now on."""

    def set_window(self, cycles: int) -> None:
        """Change the cycles in which budgets count, from now on."""
