# SPDX-License-Identifier: Apache-2.0
"""What an oracle is asked and what it answers: `Request`, `Measurement`, `Oracle`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, Protocol

from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.workload import Workload

CYCLES_ONLY: Final = frozenset(f for f in Fidelity if f.exact and not f.computes)
"""Cycle-exact fidelities without data: what wins on one of them is confirmed on ``rtl``."""


class Status(StrEnum):
    """How a trial ended."""

    OK = "ok"
    """Measured, and the output is bit-exact."""
    TIMEOUT = "timeout"
    """The cycle limit was reached: slower than the limit, not a measurement."""
    FAILED = "failed"
    """Build, lowering, device error, crash or hang: the failure text says which."""
    MISMATCH = "mismatch"
    """The output differs from the golden model: a defect of the product, never a measurement."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One thing to measure.

    Attributes:
        hw, workload, schedule, memory: what to run, and where.
    """

    hw: HwConfig
    workload: Workload
    schedule: Schedule
    memory: MemoryModel
    max_cycles: int  # cycle limit of the run

    @property
    def key(self) -> tuple[str, str, str]:
        """Identity of the measured thing on one memory: configuration, workload, schedule."""
        return (
            hw_key(self.hw),
            self.workload.key,
            json.dumps(self.schedule.to_mapping(), sort_keys=True),
        )


def hw_key(hw: HwConfig) -> str:
    """The configuration's identity as the store writes it (eight hexadecimal digits)."""
    return f"{hw.config_hash:08x}"


@dataclass(frozen=True, kw_only=True)
class BoardRuns:
    """What a board's measurement rests on.

    Attributes:
        reconfigure_seconds: what loading the bitstream for it took; 0: it was loaded already.
        twin_cycles: of the twin, on the memory that the request names; 0: it does not cover that.
    """

    board: str  # name of the board in its pool
    bitstream: str  # digest of what was loaded
    cycles: tuple[int, ...]  # of every run, in their order
    outliers: int = 0  # how many of them do not count
    half_interval: float = 0.0  # half the 95 % interval of the median, in cycles
    standard_error: float = 0.0  # of the median, in cycles
    reconfigure_seconds: float = 0.0
    twin_cycles: int = 0

    @classmethod
    def from_mapping(cls, data: Mapping[str, Any]) -> BoardRuns:
        """From plain values, as `dataclasses.asdict` gives them."""
        return cls(**{**data, "cycles": tuple(data["cycles"])})


@dataclass(frozen=True, kw_only=True)
class Measurement:
    """The answer to a `Request`.

    Attributes:
        counters: counter names to values; empty unless measured.
        runs: of a board, which is noisy; None: the fidelity repeats itself exactly.
    """

    status: Status  # how the trial ended
    fidelity: str  # fidelity of the oracle
    cycles: int | None = None  # measured cycles; None unless ``status`` is ok
    counters: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""  # why there is no measurement; empty when ok
    limit_cycles: int = 0  # cycle limit that applied
    host_seconds: float = 0.0  # wall-clock seconds of the whole trial: lowering, run and check
    output_checked: bool = False  # the output was compared with the golden model and is equal
    cached: bool = False  # taken from an earlier study (charged like a measurement)
    runs: BoardRuns | None = None

    @property
    def relative_error(self) -> float:
        """Standard error of ``cycles``, as a share of them."""
        return self.runs.standard_error / self.cycles if self.runs and self.cycles else 0.0

    @property
    def valid(self) -> bool:
        """Whether this is a cycle count that may be compared: with data, a bit-exact one."""
        measured = self.status is Status.OK and self.cycles is not None
        return measured and (self.output_checked or self.fidelity in CYCLES_ONLY)


class Oracle(Protocol):
    """Turns requests into measurements at a stated fidelity."""

    @property
    def fidelity(self) -> str:
        """Fidelity of every measurement."""
        ...

    @property
    def identity(self) -> str:
        """What the cycle counts depend on besides the request: fidelity and sources measured.

        Measurements of oracles with different identities are never mixed in one study.
        """
        ...

    def prepare(self, hw: HwConfig) -> None:
        """Start whatever a configuration needs (a build), in the background."""
        ...

    def measure(self, requests: Sequence[Request]) -> Iterator[tuple[int, Measurement]]:
        """Measure; yields (position in ``requests``, measurement) as each is known.

        A failure of one request is a `Measurement` that says so; it never ends the others. What is
        appended to ``requests`` before the next answer is asked for is measured, too, beside what
        still runs.
        """
        ...

    def close(self) -> None:
        """Release workers; no call may follow."""
        ...
