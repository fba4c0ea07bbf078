# SPDX-License-Identifier: Apache-2.0
"""ctypes binding of native lowering and of the twin (their capi.h), without policy."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from tilewright.host.common.errors import ConfigError, ProgramError
from tilewright.host.lowering.native.records import CLIP, HARDWARE, LAYER, REGIONS, SCHEDULE
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import TIMING_PARAMETERS, HwConfig
from tilewright.sim.tools.build_cache import bind_library
from tilewright.sim.twin.native_object import NativeObject
from tilewright.sim.verilator.library import CMemoryTiming

LOWERING_VERSION: Final = 2
TWIN_VERSION: Final = 1
_TEXT_BYTES: Final = 256


class _Int32Record(ctypes.Structure):
    """A structure of int32 fields that refuses values which do not fit."""

    @classmethod
    def checked(cls, values: Mapping[str, int]) -> Self:
        """The structure with these values."""
        for name, value in values.items():
            if not 0 <= value < 2**31:
                raise ProgramError(
                    "native lowering takes numbers of 31 bits",
                    field=name,
                    value=value,
                    remedy="lower this layer with tilewright.host.lowering",
                )
        return cls(**values)


def _int32(names: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    return tuple((name, ctypes.c_int32) for name in names)


class CTwinHardware(ctypes.Structure):
    """tilewright::twin::Hardware; names are those of `HwConfig`."""

    _fields_ = tuple((name, ctypes.c_uint32) for name in TIMING_PARAMETERS)

    @classmethod
    def of(cls, hw: HwConfig) -> Self:
        """The C form of what shapes time."""
        return cls(**{name: getattr(hw, name) for name in TIMING_PARAMETERS})


class CSystemCore(ctypes.Structure):
    """tilewright::twin::SystemCore."""

    _fields_ = (
        ("hardware", CTwinHardware),
        ("port", ctypes.c_uint32),
        ("weight", ctypes.c_uint32),
        ("read_budget", ctypes.c_uint32),
        ("write_budget", ctypes.c_uint32),
        ("scrub", ctypes.c_uint64),
    )


class CSystemShape(ctypes.Structure):
    """tilewright::twin::SystemShape."""

    _fields_ = tuple(
        (name, ctypes.c_uint32)
        for name in ("cores", "ports", "window", "port_reads", "port_writes", "queue_depth")
    )


class CProgress(ctypes.Structure):
    """tw_progress."""

    _fields_ = (
        ("cycle", ctypes.c_uint64),
        ("core", ctypes.c_uint32),
        ("instruction", ctypes.c_uint32),
        ("interrupts", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    )


class CCompletion(ctypes.Structure):
    """tilewright::twin::Completion."""

    _fields_ = tuple((name, ctypes.c_uint64) for name in ("tag", "begin", "cycles", "visible"))


class CHardware(_Int32Record):
    """tilewright::lowering::Hardware; names are those of `HwConfig`."""

    _fields_ = _int32(HARDWARE)


class CLayer(_Int32Record):
    """tilewright::lowering::Layer; names are those of `host.lowering.geometry.Geometry`."""

    _fields_ = _int32(LAYER)


class CSchedule(_Int32Record):
    """tilewright::lowering::Schedule; names are those of `Schedule`."""

    _fields_ = _int32(SCHEDULE)


class CClip(ctypes.Structure):
    """tilewright::lowering::Clip."""

    _fields_ = _int32(CLIP)


class CLowered(ctypes.Structure):
    """tw_lowered of host/lowering/native/capi.h."""

    _fields_ = (
        ("instructions", ctypes.c_void_p),
        ("uops", ctypes.c_void_p),
        ("instruction_count", ctypes.c_int64),
        ("uop_count", ctypes.c_int64),
        ("region_offset", ctypes.c_int64 * len(REGIONS)),
        ("region_size", ctypes.c_int64 * len(REGIONS)),
        ("memory_bytes", ctypes.c_int64),
        ("macs_tiles", ctypes.c_int64),
        ("bytes_read", ctypes.c_int64),
        ("bytes_written", ctypes.c_int64),
    )


TOTALS: Final = (
    "rule",
    "instruction_count",
    "uop_count",
    "macs_tiles",
    "bytes_read",
    "bytes_written",
)
"""Columns (int64) of tw_lowered_totals of host/lowering/native/capi.h."""


def create_twin(library: ctypes.CDLL, kind: str, memory: MemoryModel, *given: Any) -> NativeObject:
    """A ``pipeline`` or a ``system`` of the twin; `ConfigError` if it has no such memory."""
    text = ctypes.create_string_buffer(_TEXT_BYTES)
    timing = ctypes.byref(CMemoryTiming.of(memory))
    handle = getattr(library, f"tw_{kind}_create")(*given, timing, text, _TEXT_BYTES)
    if not handle:
        raise ConfigError(
            text.value.decode(errors="replace"),
            field="memory",
            value=memory.name,
            remedy="measure on fidelity rtl",
        )
    return NativeObject("the twin", handle, library.tw_twin_destroy, library.tw_twin_error)


@functools.cache
def load_twin(path: Path) -> ctypes.CDLL:
    """The library that `build_twin` returned, with its signatures."""
    pointer, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    u32, u64 = ctypes.c_uint32, ctypes.c_uint64
    signatures: dict[str, tuple[list[Any], Any]] = {
        "tw_lowering_create": ([], pointer),
        "tw_lowering_destroy": ([pointer], None),
        "tw_lowering_error": ([pointer], ctypes.c_char_p),
        "tw_lower": ([pointer] * 6, i32),
        "tw_lowering_check": ([*[pointer] * 4, i64, pointer], i32),
        "tw_lower_batch": ([*[pointer] * 4, i64, pointer, pointer], i32),
        "tw_twin_destroy": ([pointer], None),
        "tw_twin_error": ([pointer], ctypes.c_char_p),
        "tw_pipeline_create": ([pointer, pointer, ctypes.c_char_p, i64], pointer),
        "tw_pipeline_run": (
            [pointer, ctypes.c_char_p, i64, i64, pointer, pointer, pointer],
            i32,
        ),
        "tw_pipeline_batch": ([*[pointer] * 5, i64, pointer, i64, pointer], i32),
        "tw_system_create": ([pointer, pointer, pointer, ctypes.c_char_p, i64], pointer),
        "tw_system_reset": ([pointer], None),
        "tw_system_reset_dram": ([pointer], None),
        "tw_system_advance": ([pointer, u64, i32, pointer], i32),
        "tw_system_push": ([pointer, u32, u64, i32, pointer, i64], i32),
        "tw_system_enable": ([pointer, u32], None),
        "tw_system_pending": ([pointer, u64], u32),
        "tw_system_completions": ([pointer, u32, u64], u32),
        "tw_system_completion": ([pointer, u32, pointer], None),
        "tw_system_pop": ([pointer, u32], None),
        "tw_system_set_share": ([pointer, u32, u32, u32, u32], None),
        "tw_system_set_window": ([pointer, u32], None),
        "tw_system_set_limits": ([pointer, u32, u32], None),
        "tw_system_counters": ([pointer, u32, pointer], None),
        "tw_system_shares": ([pointer, u32, pointer], None),
    }
    versions = {"tw_lowering_version": LOWERING_VERSION, "tw_twin_version": TWIN_VERSION}
    return bind_library(path, versions, signatures)
