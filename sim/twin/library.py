# SPDX-License-Identifier: Apache-2.0
"""ctypes binding of the twin's C ABI (sim/twin/*_capi.h): structures and signatures, no policy."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

from tilewright.host.common.errors import BuildError, ProgramError
from tilewright.sim.tools.build_cache import load_library

LOWERING_VERSION: Final = 2

REGIONS: Final = ("inp", "wgt", "param", "res", "out", "uop", "insn")
"""Regions of a program in the order of tilewright::lowering::Region."""

RULES: Final = (
    "",
    "tile_b_extent",
    "tile_h_extent",
    "tile_w_extent",
    "tile_co_extent",
    "tile_ci_extent",
    "tile_ci_interleave",
    "depthwise_loop_order",
    "program_length",
    "field_pad_rows",
    "field_input_rows",
    "field_pad_columns",
    "field_input_columns",
    "field_pixels",
    "field_output_columns",
    "field_blocks",
    "field_planes",
    "field_weight_row",
    "field_row_stride",
    "field_plane_stride",
    "field_image_stride",
    "memory",
    "inp_capacity",
    "wgt_capacity",
    "acc_capacity",
    "out_capacity",
    "res_capacity",
    "param_capacity",
    "uop_capacity",
)
"""Names of tilewright::lowering::Rule, as `host.lowering.plan` gives them; "" is legal."""


class _Int32Record(ctypes.Structure):
    """A structure of int32 fields that refuses values which do not fit."""

    @classmethod
    def checked(cls, values: Mapping[str, int]) -> Self:
        """The structure with these values.

        Raises:
            ProgramError: a value does not fit; ctypes itself would cut it off.
        """
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


class CHardware(_Int32Record):
    """tilewright::lowering::Hardware; names are those of `HwConfig`."""

    _fields_ = _int32(
        ("batch", "block_in", "block_out", "inp_depth", "wgt_depth", "acc_depth", "out_depth",
         "res_depth", "param_depth", "uop_depth", "acc_banks")
    )  # fmt: skip


class CLayer(_Int32Record):
    """tilewright::lowering::Layer; names are those of `host.lowering.geometry.Geometry`."""

    _fields_ = _int32(
        ("depthwise", "residual", "batches", "in_blocks", "out_blocks", "reduce_blocks", "share",
         "inp_interleave", "out_interleave", "height", "width", "out_height", "out_width",
         "kernel_h", "kernel_w", "stride_h", "stride_w", "dilation_h", "dilation_w", "pad_top",
         "pad_left", "row_step")
    )  # fmt: skip


class CSchedule(_Int32Record):
    """tilewright::lowering::Schedule; names are those of `Schedule`."""

    _fields_ = _int32(
        ("tile_b", "tile_h", "tile_w", "tile_ci", "tile_co", "h_threading", "oc_threading",
         "loop_order", "fusion")
    )  # fmt: skip


class CClip(ctypes.Structure):
    """tilewright::lowering::Clip."""

    _fields_ = _int32(("low", "high"))


class CLowered(ctypes.Structure):
    """tw_lowered of lowering_capi.h."""

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
"""Columns (int64) of tw_lowered_totals of lowering_capi.h."""


@functools.cache
def load_twin(path: Path) -> ctypes.CDLL:
    """The library that `build_twin` returned, with its signatures.

    Raises:
        BuildError: it cannot be loaded or has another version.
    """
    try:
        library = load_library(path)
        version = library.tw_lowering_version()
    except (OSError, AttributeError) as error:
        raise BuildError(
            f"the twin's library cannot be loaded ({error})",
            field=str(path),
            remedy="delete this folder of the build cache and try again",
        ) from error
    if version != LOWERING_VERSION:
        raise BuildError(
            f"the twin's library must have version {LOWERING_VERSION}",
            field=str(path),
            value=version,
            remedy="delete this folder of the build cache and try again",
        )
    pointer, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    signatures: dict[str, tuple[list[Any], Any]] = {
        "tw_lowering_create": ([], pointer),
        "tw_lowering_destroy": ([pointer], None),
        "tw_lowering_error": ([pointer], ctypes.c_char_p),
        "tw_lower": ([pointer] * 6, i32),
        "tw_lowering_check": ([*[pointer] * 4, i64, pointer], i32),
        "tw_lower_batch": ([*[pointer] * 4, i64, pointer, pointer], i32),
    }
    for name, (arguments, result) in signatures.items():
        function = getattr(library, name)
        function.argtypes = arguments
        function.restype = result
    return library
