# SPDX-License-Identifier: Apache-2.0
"""The `twin` fidelity: a C++ model that gives the same cycles and counters as the RTL.

There are three ways to use it, the fastest last:

- `TwinDevice` is a `Device`. The reference gives the memory image, the twin the counters.
- `Twin.counters` takes a program that is known to be right.
- `Twin.batch` takes schedules and lowers each in C++. No Python runs between two trials.
"""

from __future__ import annotations

import ctypes
import os
import time
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import ConfigError, DeviceError, DeviceTimeoutError, ProgramError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import COUNTERS
from tilewright.host.runtime.device import Bytes, Counters, RunResult
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin.build import build_twin
from tilewright.sim.twin.library import CTwinHardware, create_twin, load_twin
from tilewright.sim.twin.native_lowering import NativeLowering, Points
from tilewright.sim.verilator.rtl_variant import VARIABLE, variant_digest

DEFAULT_MAX_CYCLES: Final = 10_000_000_000

COUNTER_NAMES: Final = tuple(name for name, _ in COUNTERS)
"""Columns of `TwinBatch.counters`."""

AGREED: Final = "TILEWRIGHT_TWIN_AGREES"
"""Environment variable: digest of the RTL variant that counts as the twin does (`agreement`)."""


class Refusal(IntEnum):
    """tilewright::twin::Refusal of pipeline.h: why a run has no cycle count."""

    NONE = 0
    ILLEGAL_OPCODE = 1
    NO_FINISH = 2
    DEADLOCK = 3
    TOKEN_OVERFLOW = 4
    CYCLE_LIMIT = 5


_REFUSAL_TEXT: Final = {
    Refusal.ILLEGAL_OPCODE: "the opcode is not legal",
    Refusal.NO_FINISH: "the program ends without FINISH",
    Refusal.DEADLOCK: "no unit can go on: a token or an ACC bank never comes",
    Refusal.TOKEN_OVERFLOW: "a token counter overflows",
}


def refused(refusal: Refusal, instruction: int, field: str) -> DeviceError:
    """The error of a program that has no cycle count."""
    return DeviceError(
        f"instruction {instruction}: {_REFUSAL_TEXT[refusal]}",
        field=field,
        remedy="run it on fidelity rtl: its error status names unit and instruction",
    )


@dataclass(frozen=True, kw_only=True)
class TwinBatch:
    """Outcomes of a batch of schedules."""

    # (schedules,): index in `records.VERDICTS` of the rule that refuses; 0: legal
    rules: npt.NDArray[np.int64]
    refusals: npt.NDArray[np.int64]  # (schedules,): `Refusal` of the run; 0: it finished
    instructions: npt.NDArray[np.int64]  # int64 of shape (schedules,): length of the program
    # (schedules, 35): `COUNTER_NAMES`; all 0 without a finished run
    counters: npt.NDArray[np.int64]

    @property
    def cycles(self) -> npt.NDArray[np.int64]:
        """int64 of shape (schedules,): cycles of the run; 0 where there is none."""
        return self.counters[:, 0]


class Twin:
    """Counts cycles on one configuration and one memory. Use one object a thread."""

    def __init__(self, hw: HwConfig, memory: MemoryModel, *, compared: bool = True) -> None:
        variant = variant_digest() if compared else ""
        if variant and os.environ.get(AGREED) != variant:
            raise ConfigError(
                "the twin stands for Tilewright's RTL, and was not compared with this one",
                field=VARIABLE,
                value=os.environ.get(VARIABLE),
                remedy="use `tilewright tune --rtl` or `tilewright sim --rtl`, which compare them",
            )
        self.hw: Final = hw
        self.memory: Final = memory
        self._library = load_twin(build_twin())
        shape = CTwinHardware.of(hw)
        self._native: Final = create_twin(self._library, "pipeline", memory, ctypes.byref(shape))

    def counters(self, program: Program, *, max_cycles: int = 0) -> Counters:
        """The counters of a program that the accelerator finishes without an error.

        The program is not checked for errors (ranges, alignment, fields): it comes from the
        lowering or has run on the reference.
        """
        return self._run(program, max_cycles, None)

    def timeline(
        self, program: Program, *, max_cycles: int = 0
    ) -> tuple[Counters, npt.NDArray[np.uint64]]:
        """Counters, and when each instruction was taken by its unit and when it retired.

        Returns:
            The counters and cycles, uint64 of shape (instructions, 2): taken, retired. FINISH and
            what follows it have zeros.
        """
        events = np.zeros((program.instruction_count, 2), dtype=np.uint64)
        return self._run(program, max_cycles, events), events

    def batch(self, lowering: NativeLowering, points: Points, *, max_cycles: int = 0) -> TwinBatch:
        """Lower and run each schedule.

        Args:
            lowering: of the workload, on the same configuration.
            points: int32 of shape (schedules, 9), from `native_lowering.encode_schedules`.
            max_cycles: a run that takes longer is refused (`Refusal.CYCLE_LIMIT`).
        """
        if lowering.hw.config_hash != self.hw.config_hash:
            raise ConfigError(
                "the lowering must be for the same configuration",
                field="lowering.hw",
                value=lowering.hw.name,
            )
        points = np.ascontiguousarray(points, dtype=np.int32)
        width = 3 + len(COUNTERS)
        found = np.zeros((len(points), width), dtype=np.int64)
        handle, hardware, layer, clip = lowering.c_arguments()
        done = self._library.tw_pipeline_batch(
            self._native.handle,
            handle,
            hardware,
            layer,
            points.ctypes.data,
            len(points),
            clip,
            max_cycles or DEFAULT_MAX_CYCLES,
            found.ctypes.data,
        )
        if done < 0:
            raise self._native.failure("twin")
        return TwinBatch(
            rules=found[:, 0],
            refusals=found[:, 1],
            instructions=found[:, 2],
            counters=found[:, 3:],
        )

    def close(self) -> None:
        """Free the model; the object must not be used again. Idempotent."""
        self._native.close()

    def _run(self, program: Program, max_cycles: int, events: Any) -> Counters:
        program.check(self.hw)
        if max_cycles < 0:
            raise ProgramError("must not be negative", field="max_cycles", value=max_cycles)
        values = (ctypes.c_uint64 * len(COUNTERS))()
        where = ctypes.c_int64()
        outcome = self._library.tw_pipeline_run(
            self._native.handle,
            program.instructions,
            program.instruction_count,
            max_cycles or DEFAULT_MAX_CYCLES,
            values,
            ctypes.byref(where),
            None if events is None else events.ctypes.data,
        )
        if outcome < 0:
            raise self._native.failure("twin")
        refusal = Refusal(outcome)
        if refusal is Refusal.CYCLE_LIMIT:
            raise DeviceTimeoutError(
                f"the program must finish within {max_cycles or DEFAULT_MAX_CYCLES} cycles",
                field="max_cycles",
                remedy="raise the limit or look at the program",
            )
        if refusal is not Refusal.NONE:
            raise refused(refusal, where.value, "program")
        return Counters(values=dict(zip(COUNTER_NAMES, values, strict=True)))


class TwinDevice:
    """A `Device`: memory image of the functional reference, counters of the twin."""

    def __init__(self, hw: HwConfig, memory: MemoryModel) -> None:
        self._twin = Twin(hw, memory)
        self._reference = ReferenceDevice(hw)

    @property
    def hw(self) -> HwConfig:
        """The configuration that the device implements."""
        return self._twin.hw

    @property
    def memory(self) -> MemoryModel:
        """The DRAM timing."""
        return self._twin.memory

    def run(self, program: Program, memory: Bytes, *, max_cycles: int = 0) -> RunResult:
        """Run a program to FINISH (see `Device.run`)."""
        started = time.perf_counter()
        image = self._reference.run(program, memory).memory
        counters = self._twin.counters(program, max_cycles=max_cycles)
        return RunResult(
            memory=image, counters=counters, host_seconds=time.perf_counter() - started
        )

    def close(self) -> None:
        """Release the device. Idempotent."""
        self._twin.close()
        self._reference.close()
