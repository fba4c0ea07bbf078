# SPDX-License-Identifier: Apache-2.0
"""Lowering in C++ (host/lowering/native): the same programs as `host.lowering`, 100 times faster.

`host.lowering` stays the definition; tests compare every byte. Use this where many schedules of
a layer are lowered.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterable, Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import DeviceError, ProgramError
from tilewright.host.lowering import LoweredLayer, lower
from tilewright.host.lowering.geometry import Geometry, geometry
from tilewright.host.lowering.native.records import REGIONS, VERDICTS
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, UOP_BYTES, HwConfig
from tilewright.host.machine.program import Program, Region
from tilewright.host.network.requant import clip_bounds
from tilewright.host.network.schedule import Fusion, LoopOrder, Schedule
from tilewright.host.network.workload import Workload
from tilewright.sim.twin import library
from tilewright.sim.twin.build import build_twin
from tilewright.sim.twin.native_object import NativeObject

Points = npt.NDArray[np.int32]
"""Schedules as numbers, shape (schedules, 9): the columns of `CSchedule`."""

_ORDERS: Final = {order: index for index, order in enumerate(LoopOrder)}
_FUSIONS: Final = {fusion: index for index, fusion in enumerate(Fusion)}
_RESIDUAL: Final = REGIONS.index("res")


def encode_schedules(schedules: Iterable[Schedule]) -> Points:
    """Schedules as an array for `NativeLowering.rules` and `NativeLowering.totals`."""
    rows = [
        (s.tile_b, s.tile_h, s.tile_w, s.tile_ci, s.tile_co, s.h_threading, s.oc_threading,
         _ORDERS[s.loop_order], _FUSIONS[s.fusion])
        for s in schedules
    ]  # fmt: skip
    wide = np.array(rows, dtype=object).reshape(len(rows), len(library.CSchedule._fields_))
    if rows and int(wide.max()) >= 2**31:
        raise ProgramError("native lowering takes numbers of 31 bits", field="tile")
    return wide.astype(np.int32)


def decode_schedule(values: Mapping[str, int]) -> Schedule:
    """The schedule of a row of `encode_schedules`, given by the names of its columns."""
    tiles = {name: value for name, value in values.items() if name not in ("loop_order", "fusion")}
    return Schedule(
        **tiles,
        loop_order=tuple(LoopOrder)[values["loop_order"]],
        fusion=tuple(Fusion)[values["fusion"]],
    )


def c_hardware(hw: HwConfig) -> library.CHardware:
    """The numbers of a configuration that lowering needs."""
    return library.CHardware.checked(
        {name: getattr(hw, name) for name, _ in library.CHardware._fields_}
    )


def c_layer(shape: Geometry) -> library.CLayer:
    """The numbers of a layer."""
    return library.CLayer.checked(
        {name: int(getattr(shape, name)) for name, _ in library.CLayer._fields_}
    )


class NativeLowering:
    """Lowers schedules of one workload on one configuration.

    Keeps its buffers between calls; use one object a thread.

    Args:
        hw: the configuration to lower for.
        workload: what to compute.
        clip: int8 bounds of the output; by default the workload's (`clip_bounds`).
    """

    def __init__(
        self, hw: HwConfig, workload: Workload, *, clip: tuple[int, int] | None = None
    ) -> None:
        self.hw: Final = hw
        self.workload: Final = workload
        self.clip: Final = clip_bounds(workload) if clip is None else clip
        if not -128 <= self.clip[0] <= self.clip[1] <= 127:
            raise ProgramError(
                "clip bounds must be int8 and in order", field="clip", value=self.clip
            )
        shape = geometry(hw, workload)
        self._folded = shape.folded
        self._hardware, self._layer = c_hardware(hw), c_layer(shape)
        self._c_clip = library.CClip(*self.clip)
        self._library = library.load_twin(build_twin())
        handle = self._library.tw_lowering_create()
        if not handle:
            raise DeviceError("native lowering is out of memory", field="lowering")
        self._native: Final = NativeObject(
            "native lowering",
            handle,
            self._library.tw_lowering_destroy,
            self._library.tw_lowering_error,
        )

    def close(self) -> None:
        """Free the buffers; the object must not be used again. Idempotent."""
        self._native.close()

    def __reduce__(self) -> tuple[object, ...]:
        """Another process makes its own: buffers and library are this one's."""
        return functools.partial(type(self), clip=self.clip), (self.hw, self.workload)

    def lower(self, schedule: Schedule) -> LoweredLayer:
        """What `host.lowering.lower` returns, byte for byte."""
        point, lowered = encode_schedules([schedule]), library.CLowered()
        rule = self._call(
            "tw_lower", point.ctypes.data, ctypes.byref(self._c_clip), ctypes.byref(lowered)
        )
        if rule:
            lower(self.hw, self.workload, schedule, clip=self.clip)
            raise DeviceError(
                "native lowering refuses what host lowering accepts",
                field=f"{self.workload.name} on {self.hw.name}",
                value=VERDICTS[rule],
            )
        return LoweredLayer(
            hw=self.hw,
            workload=self.workload,
            schedule=schedule,
            program=self._program(lowered),
            clip=self.clip,
            factor_zero=0,
            folded=self._folded,
            macs_tiles=lowered.macs_tiles,
            bytes_read=lowered.bytes_read,
            bytes_written=lowered.bytes_written,
        )

    def rules(self, points: Points) -> npt.NDArray[np.int32]:
        """Index in `VERDICTS` of the rule that each schedule breaks, int32 of (schedules,)."""
        points = _contiguous(points)
        found = np.empty(len(points), dtype=np.int32)
        self._call("tw_lowering_check", points.ctypes.data, len(points), found.ctypes.data)
        return found

    def totals(self, points: Points) -> npt.NDArray[np.int64]:
        """Lower each schedule; int64 of shape (schedules, 6), the columns `TOTALS`.

        The rows of schedules that are not legal are 0 but for the rule.
        """
        points = _contiguous(points)
        found = np.empty((len(points), len(library.TOTALS)), dtype=np.int64)
        self._call(
            "tw_lower_batch",
            points.ctypes.data,
            len(points),
            ctypes.byref(self._c_clip),
            found.ctypes.data,
        )
        return found

    def c_arguments(self) -> tuple[int, Any, Any, Any]:
        """Handle, hardware, layer and clip: what the C functions of the twin lower with."""
        hardware, layer = ctypes.byref(self._hardware), ctypes.byref(self._layer)
        return self._native.handle, hardware, layer, ctypes.byref(self._c_clip)

    def _call(self, name: str, *arguments: object) -> int:
        handle, hardware, layer, _ = self.c_arguments()
        done = int(getattr(self._library, name)(handle, hardware, layer, *arguments))
        if done < 0:
            raise self._native.failure(f"{self.workload.name} on {self.hw.name}")
        return done

    def _program(self, lowered: library.CLowered) -> Program:
        places = {
            name: Region(offset=lowered.region_offset[index], nbytes=lowered.region_size[index])
            for index, name in enumerate(REGIONS)
            if index != _RESIDUAL or self.workload.residual
        }
        instruction_bytes = lowered.instruction_count * INSTRUCTION_BYTES
        return Program(
            config_hash=self.hw.config_hash,
            instructions=ctypes.string_at(lowered.instructions, instruction_bytes),
            regions=places,
            constants={"uop": ctypes.string_at(lowered.uops, lowered.uop_count * UOP_BYTES)},
            memory_bytes=lowered.memory_bytes,
        )


def _contiguous(points: Points) -> Points:
    columns = len(library.CSchedule._fields_)
    if points.ndim != 2 or points.shape[1] != columns:
        raise ProgramError(
            f"schedules must be an array of shape (schedules, {columns})",
            field="points",
            value=points.shape,
        )
    return np.ascontiguousarray(points, dtype=np.int32)
