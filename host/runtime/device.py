# SPDX-License-Identifier: Apache-2.0
"""The `Device` protocol: run a `Program`, return outputs and `Counters`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tilewright.host.common.summaries import Summarised
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program

Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, repr=False)
class Counters(Summarised):
    """What the on-chip counters said: names of `host.machine.registers.COUNTERS` to values.

    Devices that do not model time (the functional reference) leave ``cycles`` at 0 and fill
    only instructions, tiles and bytes.
    """

    values: Mapping[str, int]

    def _told(self) -> Mapping[str, object]:
        return self.values

    @property
    def cycles(self) -> int:
        """Cycles from start to the retirement of FINISH."""
        return self.values["cycles"]

    def __getitem__(self, name: str) -> int:
        """One counter by name."""
        return self.values[name]


@dataclass(frozen=True, kw_only=True, repr=False)
class RunResult(Summarised):
    """Outcome of one run."""

    memory: Bytes  # uint8 array of ``program.memory_bytes``: the memory image after the run
    counters: Counters  # what the device counted
    host_seconds: float  # wall-clock time of the run itself

    def _told(self) -> Mapping[str, object]:
        return {
            "cycles": f"{self.counters.cycles:,} cycles",
            "memory": f"{self.memory.size:,} bytes",
            "host_seconds": f"{self.host_seconds:.3f} s on this machine",
        }


@runtime_checkable
class Device(Protocol):
    """Anything that runs a `Program`."""

    @property
    def hw(self) -> HwConfig:
        """The configuration that the device implements."""
        ...

    def run(self, program: Program, memory: Bytes, *, max_cycles: int = 0) -> RunResult:
        """Run a program to FINISH.

        Args:
            program: built for this device's configuration.
            memory: uint8 array of ``program.memory_bytes`` that already holds the program's
                image (`Program.image`) and the input tensors; not modified.
            max_cycles: cycle limit; 0 means the device's default.

        Raises:
            ProgramError: the program was built for another configuration, or sizes differ.
            DeviceError: the device stopped with an error status; the text names code, unit,
                instruction and, for a watchdog, what each unit waited for.
            DeviceTimeoutError: the cycle limit was reached.
        """
        ...

    def close(self) -> None:
        """Release the device; further calls are an error."""
        ...
