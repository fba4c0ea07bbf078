# SPDX-License-Identifier: Apache-2.0
"""ctypes binding of the harness's C ABI (capi.h): one class for a simulation, no policy."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import DeviceError
from tilewright.host.machine.board import MemoryModel
from tilewright.sim.tools.build_cache import bind_library

ABI_VERSION: Final = 3

_MAX_COUNT: Final = 2**32 - 1


class Status(IntEnum):
    """tilewright::Status of simulation.h."""

    OK = 0
    PROTOCOL_VIOLATION = 1
    RTL_STOPPED = 2
    REGISTER_TIMEOUT = 3
    REGISTER_ERROR = 4
    WAVE_ERROR = 5
    BAD_ARGUMENT = 6
    INTERNAL = 7


class StopReason(IntEnum):
    """tilewright::StopReason of simulation.h."""

    INTERRUPT = 0
    STATUS = 1
    CYCLE_LIMIT = 2


class AxiResponseCode(IntEnum):
    """AXI response codes that a fault range can answer with."""

    SLVERR = 2
    DECERR = 3


class SimulationError(DeviceError):
    """The simulation itself failed: a broken bus rule, a fired assertion, a dead register bus."""

    def __init__(self, status: Status, text: str) -> None:
        self.status = status
        self.text = text
        super().__init__(f"{_STATUS_TEXT[status]}: {text}", field="simulation")

    def __reduce__(self) -> tuple[object, ...]:
        """Survive pickling between worker processes."""
        return (SimulationError, (self.status, self.text))


_STATUS_TEXT: Final = {
    Status.OK: "no error",
    Status.PROTOCOL_VIOLATION: "the design broke an AXI rule",
    Status.RTL_STOPPED: "the RTL stopped the simulation",
    Status.REGISTER_TIMEOUT: "a register access was not answered",
    Status.REGISTER_ERROR: "a register access was refused",
    Status.WAVE_ERROR: "waves cannot be recorded",
    Status.BAD_ARGUMENT: "the harness refuses an argument",
    Status.INTERNAL: "the harness failed",
}


class CMemoryTiming(ctypes.Structure):
    """tilewright::MemoryTiming of memory_model.h."""

    _fields_ = (
        ("read_latency", ctypes.c_uint32),
        ("write_latency", ctypes.c_uint32),
        ("read_bytes_per_cycle", ctypes.c_double),
        ("write_bytes_per_cycle", ctypes.c_double),
        ("shared_bytes_per_cycle", ctypes.c_double),
        ("max_reads", ctypes.c_uint32),
        ("max_writes", ctypes.c_uint32),
        ("stall_percent", ctypes.c_uint32),
        ("stall_seed", ctypes.c_uint32),
    )

    @classmethod
    def of(cls, memory: MemoryModel) -> CMemoryTiming:
        """The C form of a memory model."""
        return cls(*(getattr(memory, name) for name, _ in cls._fields_))


class CFaultRange(ctypes.Structure):
    """tilewright::FaultRange of memory_model.h."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("response", ctypes.c_uint32),
        ("on_reads", ctypes.c_uint32),
        ("on_writes", ctypes.c_uint32),
    )


class _CRunRequest(ctypes.Structure):
    _fields_ = (
        ("max_cycles", ctypes.c_uint64),
        ("poll_interval", ctypes.c_uint32),
        ("poll_address", ctypes.c_uint32),
        ("poll_mask", ctypes.c_uint32),
    )


class _CRunOutcome(ctypes.Structure):
    _fields_ = (
        ("status", ctypes.c_int32),
        ("reason", ctypes.c_int32),
        ("cycles", ctypes.c_uint64),
    )


@dataclass(frozen=True, kw_only=True)
class RunOutcome:
    """How a call of `Simulation.run` ended, and the clock cycles that it took."""

    reason: StopReason
    cycles: int


class Simulation:
    """One simulated accelerator in this process."""

    def __init__(
        self,
        library: Path,
        *,
        max_burst_beats: int,
        memory: MemoryModel,
        sizes: Mapping[str, int] | None = None,
        initial_seed: int = 0,
    ) -> None:
        self._handle = ctypes.c_void_p()
        self._image: npt.NDArray[np.uint8] | None = None
        self._library = _load(library)
        timing = CMemoryTiming.of(memory)
        status = self._library.tw_create(
            max_burst_beats,
            ctypes.byref(timing),
            (ctypes.c_uint32 * len(sizes))(*sizes.values()) if sizes else None,
            initial_seed,
            ctypes.byref(self._handle),
        )
        if status != Status.OK:
            text = self._error_text()
            self.close()
            raise SimulationError(Status(status), text)

    def close(self) -> None:
        """Destroy the simulation; it must not be used again. Idempotent."""
        if self._handle:
            self._library.tw_destroy(self._handle)
            self._handle = ctypes.c_void_p()
        self._image = None

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self.close()

    @property
    def total_cycles(self) -> int:
        """Clock cycles since construction."""
        return int(self._library.tw_total_cycles(self._handle))

    @property
    def violation(self) -> int:
        """Code of the AXI rule that was broken (tilewright::Violation); 0: none."""
        return int(self._library.tw_violation(self._handle))

    def reset(self, cycles: int = 4) -> None:
        """Assert the hardware reset and forget every burst in flight."""
        self._call("tw_reset", cycles)

    def set_timing(self, memory: MemoryModel) -> None:
        """Replace the DRAM timing while the design is idle."""
        timing = CMemoryTiming.of(memory)
        self._call("tw_set_timing", ctypes.byref(timing))

    def set_fault(
        self,
        base: int,
        size: int,
        *,
        response: AxiResponseCode = AxiResponseCode.SLVERR,
        on_reads: bool = True,
        on_writes: bool = True,
    ) -> None:
        """Answer an address range with an error; size 0 removes it."""
        fault = CFaultRange(base, size, response, on_reads, on_writes)
        self._call("tw_set_fault", ctypes.byref(fault))

    def attach(self, image: npt.NDArray[np.uint8], base: int) -> None:
        """Map a contiguous uint8 array at a physical address; the design reads and writes it."""
        if image.dtype != np.uint8 or not image.flags.c_contiguous or not image.flags.writeable:
            raise SimulationError(
                Status.BAD_ARGUMENT, "memory must be a writeable, contiguous uint8 array"
            )
        pointer = image.ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))
        self._call("tw_attach", pointer, image.nbytes, base)
        self._image = image  # keeps the bytes alive while C++ points at them

    def detach(self) -> None:
        """Unmap the memory: further accesses answer DECERR."""
        self._call("tw_attach", None, 0, 0)
        self._image = None

    def write(self, address: int, value: int) -> None:
        """Write a 32-bit register."""
        self._call("tw_write_register", address, value)

    def read(self, address: int) -> int:
        """Read a 32-bit register."""
        value = ctypes.c_uint32()
        self._call("tw_read_register", address, ctypes.byref(value))
        return value.value

    def run(
        self,
        max_cycles: int,
        *,
        poll_interval: int = 0,
        poll_address: int = 0,
        poll_mask: int = _MAX_COUNT,
    ) -> RunOutcome:
        """Clock until the interrupt rises, a polled register matches, or the limit is reached."""
        request = _CRunRequest(max_cycles, poll_interval, poll_address, poll_mask)
        outcome = _CRunOutcome()
        self._call("tw_run", ctypes.byref(request), ctypes.byref(outcome))
        return RunOutcome(reason=StopReason(outcome.reason), cycles=int(outcome.cycles))

    def open_waves(self, path: Path) -> None:
        """Start recording every signal to an FST file."""
        self._call("tw_open_waves", str(path).encode())

    def _call(self, name: str, *arguments: Any) -> None:
        if not self._handle:
            raise SimulationError(Status.BAD_ARGUMENT, "the simulation is closed")
        status = getattr(self._library, name)(self._handle, *arguments)
        if status != Status.OK:
            raise SimulationError(Status(status), self._error_text())

    def _error_text(self) -> str:
        text: bytes = self._library.tw_error_text(self._handle)
        return text.decode(errors="replace")


@functools.cache
def _load(path: Path) -> ctypes.CDLL:
    handle, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    signatures: dict[str, tuple[list[Any], Any]] = {
        "tw_create": ([u32, handle, handle, u32, handle], ctypes.c_int32),
        "tw_destroy": ([handle], None),
        "tw_error_text": ([handle], ctypes.c_char_p),
        "tw_violation": ([handle], u32),
        "tw_total_cycles": ([handle], u64),
        "tw_reset": ([handle, u32], ctypes.c_int32),
        "tw_set_timing": ([handle, handle], ctypes.c_int32),
        "tw_set_fault": ([handle, handle], ctypes.c_int32),
        "tw_attach": ([handle, handle, u64, u64], ctypes.c_int32),
        "tw_write_register": ([handle, u32, u32], ctypes.c_int32),
        "tw_read_register": ([handle, u32, handle], ctypes.c_int32),
        "tw_run": ([handle, handle, handle], ctypes.c_int32),
        "tw_open_waves": ([handle, ctypes.c_char_p], ctypes.c_int32),
    }
    return bind_library(path, {"tw_abi_version": ABI_VERSION}, signatures)
