# SPDX-License-Identifier: Apache-2.0
"""`Schedule`: the choices that lower a workload, named as the literature names them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from tilewright.host.common.errors import ScheduleError, errors_in
from tilewright.host.common.plain_values import is_integer, require_keys
from tilewright.host.common.str_enum import StrEnum
from tilewright.host.common.yaml_files import read_yaml_mapping


class LoopOrder(StrEnum):
    """Which operand stays in its scratchpad while the others stream."""

    OUTPUT_STATIONARY = "output"
    WEIGHT_STATIONARY = "weight"
    INPUT_STATIONARY = "input"


class Fusion(StrEnum):
    """Granularity at which the epilogue (requantise and store) is fused behind GEMM."""

    TILE = "tile"
    """One epilogue after all of a tile's reduction."""
    BLOCK = "block"
    """The last reduction step is issued per output-channel block, each with its epilogue."""


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """One point of a workload's schedule space.

    Attributes:
        tile_b: batch tiles (units of ``batch``) of an output tile.
        tile_h, tile_w: output rows and columns of an output tile.
        tile_ci: input-channel blocks loaded at a time.
        tile_co: output-channel blocks of an output tile.
        h_threading: virtual threads over output rows, 1 or 2.
        oc_threading: virtual threads over output channels, 1 or 2. With more than one thread
            in total, operand buffers are double-buffered and loads overlap GEMM.
        loop_order: order of the loops over tiles.
        fusion: granularity of the epilogue.

    Tiles are any positive integers; edge tiles are smaller.

    Raises:
        ScheduleError: a tile below 1 or a threading that is not 1 or 2.

    Example:
        >>> import tilewright as tw
        >>> schedule = tw.Schedule(tile_h=2, tile_w=14, tile_ci=1, tile_co=2, h_threading=2)
        >>> tw.Schedule.from_mapping(schedule.to_mapping()) == schedule
        True
    """

    tile_b: int = 1
    tile_h: int
    tile_w: int
    tile_ci: int
    tile_co: int
    h_threading: int = 1
    oc_threading: int = 1
    loop_order: LoopOrder = LoopOrder.OUTPUT_STATIONARY
    fusion: Fusion = Fusion.TILE

    def __post_init__(self) -> None:
        """Validate."""
        for name in ("tile_b", "tile_h", "tile_w", "tile_ci", "tile_co"):
            value = getattr(self, name)
            if not is_integer(value, 1):
                raise ScheduleError(
                    "must be an integer of at least 1",
                    field=name,
                    value=value,
                    remedy="count batches, rows, columns or blocks of channels in it",
                )
        for name in ("h_threading", "oc_threading"):
            value = getattr(self, name)
            if not is_integer(value, 1, 2):
                raise ScheduleError(
                    "must be 1 or 2",
                    field=name,
                    value=value,
                    remedy="1 runs without virtual threads, 2 overlaps loads with computing",
                )
        for name, kind in (("loop_order", LoopOrder), ("fusion", Fusion)):
            value = getattr(self, name)
            if not isinstance(value, kind):
                raise ScheduleError(
                    f"must be one of {', '.join(kind)}",
                    field=name,
                    value=str(value),
                    remedy=f"give a {kind.__name__}; from_mapping takes text",
                )

    def to_mapping(self) -> dict[str, int | str]:
        """Plain values, for YAML and the store."""
        data = asdict(self)
        data["loop_order"] = str(self.loop_order)
        data["fusion"] = str(self.fusion)
        return data

    @classmethod
    def from_mapping(cls, data: Mapping[str, object]) -> Schedule:
        """Inverse of `to_mapping`.

        Raises:
            ScheduleError: unknown or missing keys, or bad values.
        """
        values = dict(data)
        require_keys(cls, values, of="a schedule", error=ScheduleError)
        for name, kind in (("loop_order", LoopOrder), ("fusion", Fusion)):
            if name in values:
                text = str(values[name])
                if text not in set(kind):
                    raise ScheduleError(
                        f"must be one of {', '.join(kind)}",
                        field=name,
                        value=text,
                        remedy=f"leave it out for {getattr(cls, name)}",
                    )
                values[name] = kind(text)
        return cls(**values)  # type: ignore[arg-type]  # validated in __post_init__


def load_schedule(schedule: str | Path | Schedule) -> Schedule:
    """Load the YAML file of a schedule; one that is loaded stays as it is."""
    if isinstance(schedule, Schedule):
        return schedule
    data = read_yaml_mapping(Path(schedule), "a schedule")
    with errors_in(str(schedule)):
        return Schedule.from_mapping(data)
