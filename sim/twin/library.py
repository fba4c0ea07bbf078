# SPDX-License-Identifier: Apache-2.0
"""ctypes binding of native lowering and the cycle model (their capi.h), without policy."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from tilewright.host.common.errors import ProgramError
from tilewright.host.lowering.native.records import CLIP, HARDWARE, LAYER, REGIONS, SCHEDULE
from tilewright.host.machine.hwconfig import TIMING_PARAMETERS
from tilewright.sim.tools.build_cache import bind_library

LOWERING_VERSION: Final = 2
PIPELINE_VERSION: Final = 1


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


@functools.cache
def load_twin(path: Path) -> ctypes.CDLL:
    """The library that `build_twin` returned, with its signatures."""
    pointer, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    signatures: dict[str, tuple[list[Any], Any]] = {
        "tw_lowering_create": ([], pointer),
        "tw_lowering_destroy": ([pointer], None),
        "tw_lowering_error": ([pointer], ctypes.c_char_p),
        "tw_lower": ([pointer] * 6, i32),
        "tw_lowering_check": ([*[pointer] * 4, i64, pointer], i32),
        "tw_lower_batch": ([*[pointer] * 4, i64, pointer, pointer], i32),
        "tw_pipeline_create": ([pointer, pointer, ctypes.c_char_p, i64], pointer),
        "tw_pipeline_destroy": ([pointer], None),
        "tw_pipeline_error": ([pointer], ctypes.c_char_p),
        "tw_pipeline_run": (
            [pointer, ctypes.c_char_p, i64, i64, pointer, pointer, pointer],
            i32,
        ),
        "tw_pipeline_batch": ([*[pointer] * 5, i64, pointer, i64, pointer], i32),
    }
    versions = {"tw_lowering_version": LOWERING_VERSION, "tw_pipeline_version": PIPELINE_VERSION}
    return bind_library(path, versions, signatures)
