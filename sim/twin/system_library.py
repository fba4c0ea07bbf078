# SPDX-License-Identifier: Apache-2.0
"""ctypes binding of the twin of a system (sim/twin/system_capi.h), without policy."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path
from typing import Any, Final

from tilewright.sim.tools.build_cache import bind_library
from tilewright.sim.twin.library import CTwinHardware

SYSTEM_VERSION: Final = 1


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


@functools.cache
def load_system_twin(path: Path) -> ctypes.CDLL:
    """The library that `build_twin` returned, with the signatures of the twin of a system."""
    pointer, u32, u64 = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64
    i32, i64 = ctypes.c_int32, ctypes.c_int64
    signatures: dict[str, tuple[list[Any], Any]] = {
        "tw_system_create": ([pointer, pointer, pointer, ctypes.c_char_p, i64], pointer),
        "tw_system_destroy": ([pointer], None),
        "tw_system_error": ([pointer], ctypes.c_char_p),
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
    return bind_library(path, {"tw_system_version": SYSTEM_VERSION}, signatures)
