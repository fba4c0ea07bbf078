# SPDX-License-Identifier: Apache-2.0
"""Shapes of LOAD and STORE: strided rows, joined into longer ones where DRAM is contiguous.

Short rows mean short bursts, so rows, planes and blocks that follow each other are merged.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from tilewright.host.lowering.geometry import Span

ROW_MAX: Final = (1 << 16) - 1
"""Most tiles of a row, rows of a plane, planes."""

STRIDE_MAX: Final = (1 << 24) - 1
"""Largest stride in tiles."""

PAD_MAX: Final = (1 << 6) - 1
"""Most padding on one side."""


class Box(NamedTuple):
    """A strided region: sizes in tiles, rows and planes; strides in tiles."""

    x_size: int
    y_size: int
    z_size: int
    y_stride: int
    z_stride: int

    @property
    def tiles(self) -> int:
        """Tiles in the region."""
        return self.x_size * self.y_size * self.z_size


@lru_cache(maxsize=16384)
def box(x: int, y: int, z: int, y_stride: int, z_stride: int) -> Box:
    """The region with as long rows as contiguity in DRAM and the field widths allow."""
    for _ in range(2):
        if (y == 1 or y_stride == x) and x * y <= ROW_MAX:
            x, y, y_stride, z, z_stride = x * y, z, z_stride, 1, 0
    return Box(x, y, z, y_stride if y > 1 else 0, z_stride if z > 1 else 0)


class PaddedBox(NamedTuple):
    """A region with padding on four sides."""

    box: Box
    pad_left: int
    pad_right: int
    pad_top: int
    pad_bottom: int

    def fields(self) -> dict[str, int]:
        """Fields of the LOAD."""
        padding = self._asdict()
        return {**padding.pop("box")._asdict(), **padding}


@lru_cache(maxsize=16384)
def input_box(
    row: Span, column: Span, *, planes: int, width: int, plane: int, row_step: int, interleave: int
) -> PaddedBox:
    """The LOAD of an input tile."""
    size, stride = column.size * interleave, row_step * width * interleave
    plane *= interleave
    left, right = column.pad_low * interleave, column.pad_high * interleave
    if row.size == 0 or size == 0:
        empty = Box(size, row.size, planes, 0, 0)
        return PaddedBox(empty, left, right, row.pad_low, row.pad_high)
    plain = Box(
        size,
        row.size,
        planes,
        stride if row.size > 1 else 0,
        plane if planes > 1 else 0,
    )
    if left or right:
        return PaddedBox(plain, left, right, row.pad_low, row.pad_high)
    if not (row.pad_low or row.pad_high):
        return PaddedBox(box(size, row.size, planes, stride, plane), 0, 0, 0, 0)
    # Padding above and below a plane that is one row is padding before and after that row.
    before, after = row.pad_low * size, row.pad_high * size
    joined = box(size, row.size, 1, stride, 0)
    if joined.y_size == 1 and before <= PAD_MAX and after <= PAD_MAX:
        wide = Box(joined.x_size, planes, 1, plane if planes > 1 else 0, 0)
        return PaddedBox(wide, before, after, 0, 0)
    return PaddedBox(plain, 0, 0, row.pad_low, row.pad_high)
