# SPDX-License-Identifier: Apache-2.0
"""How softmax and layer normalisation are cut into pieces that the scratchpads hold.

The rows of an activation are its pixels, a row's values are a pixel's channels. A piece is some
consecutive pixels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tilewright.host.common.errors import ProgramError, WorkloadError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import blocks_of, interleaved_blocks

Shape = tuple[int, int, int, int]

CONSTANTS: Final = 3
"""Tiles of ACC that hold numbers."""

_PIECES: Final = 6
_FEW_ROWS: Final = 16
"""Fewer in a piece cost more in the latency of its instructions than pieces side by side save."""


@dataclass(frozen=True, kw_only=True)
class RowPlan:
    """How a piece of rows lies in the scratchpads."""

    hw: HwConfig  # the configuration
    shape: Shape  # NCHW of the activation; a row is the channels of a pixel
    blocks: int  # tiles of a row
    interleave: int  # tiles of a stored block at each pixel
    rows: int  # pixels of a piece
    slots: int  # pieces that RES and OUT hold
    operands: int  # of that shape in RES: the input, and what is added
    masked: bool = False  # a row is added to all rows; RES and ACC hold it

    @property
    def planes(self) -> int:
        """Stored blocks of a row."""
        return blocks_of(self.blocks, self.interleave)

    @property
    def held(self) -> int:
        """Tiles of a row whose parameters PARAM holds at a time: whole stored blocks, or all."""
        whole = self.hw.param_depth // self.interleave * self.interleave
        return min(self.blocks, whole)

    @property
    def piece(self) -> int:
        """Tiles of a piece, with those that fill the last stored block up."""
        return self.planes * self.interleave * self.rows

    @property
    def mask_tiles(self) -> int:
        """Tiles of the row that is added to all rows."""
        return self.planes * self.interleave if self.masked else 0

    @property
    def pixels(self) -> int:
        """Rows of an image."""
        return self.shape[2] * self.shape[3]

    @property
    def pieces(self) -> list[tuple[int, int, int]]:
        """Image, first row and rows of each piece."""
        return [
            (image, first, min(self.rows, self.pixels - first))
            for image in range(blocks_of(self.shape[0], self.hw.batch))
            for first in range(0, self.pixels, self.rows)
        ]


def plan_rows(
    hw: HwConfig, shape: Shape, operands: int = 1, layers: int = 1, *, masked: bool = False
) -> RowPlan:
    """Pieces that fit, two at a time where RES and OUT hold two, and several for a long image.

    Args:
        hw: a configuration with a row unit.
        shape: NCHW of the activation.
        operands: activations of that shape that are read.
        layers: activations whose pieces follow each other.
        masked: a row is added to all rows, given at run time.
    """
    if not hw.row_unit:
        raise ProgramError(
            "softmax and layer normalisation need an accelerator with a row unit",
            field=hw.name,
            value="row_unit: 0",
            remedy="use a configuration with row_unit: 1",
        )
    if masked and shape[0] != 1:
        raise WorkloadError(
            "a mask needs a batch of 1",
            field=f"rows on {hw.name}",
            value=shape,
            remedy="run this operator on the CPU, or compile the network for one input at a time",
        )
    blocks = blocks_of(shape[1], hw.block_out)
    interleave = interleaved_blocks(hw)
    tiles = blocks_of(blocks, interleave) * interleave
    mask = tiles if masked else 0
    shared = min(max(hw.res_depth - mask, 0) // operands, hw.out_depth) // tiles
    slots = min(2, shared)
    pixels = shape[2] * shape[3]
    rows = min(pixels, (hw.acc_depth - CONSTANTS - mask) // (tiles + 2))
    rows = min(rows, shared // slots if slots else 0)
    # What is loaded before the first piece and stored after the last has nothing beside it.
    rows = min(rows, max(_FEW_ROWS, blocks_of(layers * pixels, _PIECES)))
    if layers > 1 and rows > 0:
        rows = blocks_of(pixels, blocks_of(pixels, rows))  # pieces of one size hide each other
    if rows < 1 or hw.param_depth < interleave:
        raise WorkloadError(
            "a row must fit ACC, RES and OUT, the parameters of a stored block PARAM",
            field=f"rows on {hw.name}",
            value=f"{shape[1]} channels",
            remedy="enlarge the scratchpads, or leave the operator to the CPU",
        )
    return RowPlan(
        hw=hw,
        shape=shape,
        blocks=blocks,
        interleave=interleave,
        rows=rows,
        slots=slots,
        operands=operands,
        masked=masked,
    )
