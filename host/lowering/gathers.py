# SPDX-License-Identifier: Apache-2.0
"""Pixels of an activation in another order: windows, rolls, reversals of both.

Pixels that are neighbours before and after, in rows of equal length and distance, are a *box*. A
box is one LOAD to RES and one VECTOR, which requantises with the factor 1 to its place in OUT; one
whose pixels are each there several times, as nearest neighbours are, is read once, and has a VECTOR
for each time. A *piece* is a run of boxes whose pixels follow each other in the result: one STORE.

RES holds ``[box][stored block][pixel]``, OUT ``[stored block][pixel]``; a stored block has one tile
at each pixel, or several that are neighbours.
"""

from __future__ import annotations

from itertools import pairwise, product
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.lowering.emission import Emission, Emitted, OperandPlacement
from tilewright.host.lowering.program_builder import (
    ProgramBuilder,
    pack_load,
    pack_vector,
)
from tilewright.host.lowering.transfers import box
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.isa import RESIDUAL_SHIFT, Memory, Operand, Unit, VectorOp
from tilewright.host.network.layout import blocks_of, interleaved_blocks, output_block
from tilewright.host.network.requant import RequantParams

Pixels = npt.NDArray[np.int64]
"""Of a source, its rows one after another: one for each pixel of a result."""

_ACC: Final = ("acc", 0)
_CLIP: Final = (-128, 127)
_PIECES: Final = 6
_FEW_PIXELS: Final = 16
"""Fewer in a piece cost more in instructions than pieces side by side save."""


class PixelBox(NamedTuple):
    """Pixels in rows."""

    source: int  # its first pixel in the source
    length: int  # pixels of a row; they are neighbours
    rows: int  # of the box; they follow each other in the result
    stride: int  # pixels from row to row in the source
    times: int = 1  # that each pixel is in the result, one after another

    @property
    def read(self) -> int:
        """Pixels of the source."""
        return self.length * self.rows

    @property
    def pixels(self) -> int:
        """Pixels of the result."""
        return self.read * self.times


def pieces_of(pixels: Pixels, most: int) -> list[list[PixelBox]]:
    """Boxes that cover a result from its first to its last pixel, in pieces."""
    pieces: list[list[PixelBox]] = [[]]
    room = most
    for whole in _boxes(pixels):
        done = 0
        while done < whole.pixels:
            part = _part(whole, done, room)
            pieces[-1].append(part)
            done += part.pixels
            room -= part.pixels
            if not room:
                pieces.append([])
                room = most
    return [piece for piece in pieces if piece]


def _part(whole: PixelBox, done: int, room: int) -> PixelBox:
    """What of a box comes next and has room: rows, a part of a row, or a pixel a few times."""
    start, length, rows, stride, times = whole
    place, before = divmod(done, times)
    row, column = divmod(place, length)
    first = start + row * stride + column
    if before or times > room:
        return PixelBox(first, 1, 1, 0, min(times - before, room))
    room //= times
    if column or length > room:
        return PixelBox(first, min(length - column, room), 1, 0, times)
    count = min(rows - row, room // length)
    return PixelBox(first, length, count, stride if count > 1 else 0, times)


def _boxes(pixels: Pixels) -> list[PixelBox]:
    """Boxes in the order of the result, with pixels that are there several times, if it is less."""
    plain = _boxes_once(pixels)
    firsts = np.flatnonzero(np.diff(pixels, prepend=pixels[0] - 1))
    times = np.diff([*firsts, pixels.size])
    if times.max() == 1:
        return plain
    edges = [0, *(np.flatnonzero(np.diff(times)) + 1).tolist(), times.size]
    several = [
        each._replace(times=int(times[first]))
        for first, end in pairwise(edges)
        for each in _boxes_once(pixels[firsts[first:end]])
    ]
    return min(plain, several, key=lambda boxes: sum(1 + each.times for each in boxes))


def _boxes_once(pixels: Pixels) -> list[PixelBox]:
    """Boxes in the order of the result, as large as greed makes them.

    A run of neighbours that goes on behind a row of the box before it is cut there: the end of one
    window and the beginning of the next are neighbours by chance.
    """
    edges = np.flatnonzero(np.diff(pixels) != 1) + 1
    starts = [0, *edges.tolist()]
    lengths = np.diff([*starts, pixels.size]).tolist()
    boxes = [PixelBox(int(pixels[0]), lengths[0], 1, 0)]
    for start, length in zip(pixels[starts[1:]].tolist(), lengths[1:], strict=True):
        last = boxes[-1]
        stride = start - last.source - (last.rows - 1) * last.stride
        follows = stride == last.stride if last.rows > 1 else stride > 0
        if follows and (length == last.length or last.rows > 1 < last.length < length):
            boxes[-1] = last._replace(rows=last.rows + 1, stride=stride)
            if length > last.length:
                boxes.append(PixelBox(start + last.length, length - last.length, 1, 0))
        else:
            boxes.append(PixelBox(start, length, 1, 0))
    return boxes


def copy_params(channels: int) -> RequantParams:
    """Parameters with which VECTOR writes its operand as it is."""
    zeros = np.zeros(channels, np.int64)
    return RequantParams(
        bias=zeros.astype(np.int32),
        m1=zeros.astype(np.int16),
        m2=np.ones(channels, np.int16),
        shift=np.full(channels, RESIDUAL_SHIFT, np.uint8),
        zero_point=zeros.astype(np.int8),
        clip_min=_CLIP[0],
        clip_max=_CLIP[1],
    )


def room_of(hw: HwConfig, channels: int) -> tuple[int, int]:
    """Pixels that a piece has room for, and how many pieces RES and OUT hold."""
    tiles = blocks_of(channels, output_block(hw)) * interleaved_blocks(hw)
    shared = min(hw.res_depth, hw.out_depth) // tiles
    slots = min(2, shared)
    if not slots:
        raise WorkloadError(
            "the channels of a pixel must fit RES and OUT",
            field=f"pixels on {hw.name}",
            value=f"{channels} channels",
            remedy="enlarge the scratchpads, or leave the operator to the CPU",
        )
    return shared // slots, slots


def emit_gather(
    builder: ProgramBuilder,
    channels: int,
    pixels: Pixels,
    source: int,
    placement: OperandPlacement,
) -> Emitted:
    """Append a move of pixels to a program."""
    return _GatherEmitter(builder, channels, pixels, source, placement).run()


class _GatherEmitter(Emission):
    def __init__(
        self,
        builder: ProgramBuilder,
        channels: int,
        pixels: Pixels,
        source: int,
        placement: OperandPlacement,
    ) -> None:
        super().__init__(builder, _CLIP, placement)
        hw = builder.hw
        self.interleave = interleaved_blocks(hw)
        self.planes = blocks_of(channels, output_block(hw))
        self.size = hw.out_tile_bytes
        self.source, self.result = source, pixels.size
        room, self.slots = room_of(hw, channels)
        self.slot_tiles = room * self.planes * self.interleave
        few = max(_FEW_PIXELS, blocks_of(pixels.size, _PIECES))
        self.pieces = pieces_of(pixels, min(room, few))

    def run(self) -> Emitted:
        self._load(0)
        self.load_params(0, 1, 0, 1)
        banks = self.builder.hw.acc_bank_mask(0, 1)
        zero = pack_vector(op=VectorOp.MOV, acc_banks=banks, iter_outer=1, iter_inner=1)
        self.builder.emit_word(Unit.VECTOR, zero, (), (_ACC,))
        done = 0
        for number, piece in enumerate(self.pieces):
            ahead = number + 1 < len(self.pieces)
            if ahead and self.slots > 1:
                self._load(number + 1)
            self._copy(number)
            if ahead and self.slots == 1:
                self._load(number + 1)
            self._store(number, done)
            done += sum(each.pixels for each in piece)
        return self.emitted()

    def _base(self, number: int) -> int:
        return number % self.slots * self.slot_tiles

    def _load(self, number: int) -> None:
        width, base = self.interleave, self._base(number)
        for part in self.pieces[number]:
            region = box(
                part.length * width,
                part.rows,
                self.planes,
                part.stride * width,
                self.source * width,
            )
            word = pack_load(
                memory=Memory.RES,
                sram_base=base,
                dram_offset=self.offsets["inp"] + part.source * width * self.size,
                **region._asdict(),
            )
            self.builder.emit_word(Unit.LOAD, word, (), (("res", number % self.slots),))
            base += region.tiles
            self.bytes_read += region.tiles * self.size

    def _copy(self, number: int) -> None:
        width, slot = self.interleave, number % self.slots
        source = target = self._base(number)
        line = sum(part.pixels for part in self.pieces[number]) * width
        for part in self.pieces[number]:
            for time, block in product(range(part.times), range(width if part.times > 1 else 1)):
                self._copy_once(part, source + block, target + time * width + block, line, slot)
            source += part.read * width * self.planes
            target += part.pixels * width

    def _copy_once(self, part: PixelBox, source: int, target: int, line: int, slot: int) -> None:
        """A box, or of one whose pixels are there several times one tile of each, to OUT."""
        width, several = self.interleave, part.times > 1
        word = pack_vector(
            acc_banks=self.builder.hw.acc_bank_mask(0, 1),
            operand=int(Operand.RES),
            iter_outer=self.planes,
            iter_inner=part.read if several else part.read * width,
            dst_base=target,
            dst_outer=line,
            dst_inner=part.times * width if several else 1,
            opd_base=source,
            opd_outer=part.read * width,
            opd_inner=width if several else 1,
            **self.requant_fields,
        )
        reads = (_ACC, ("res", slot), ("param", 0))
        self.builder.emit_word(Unit.VECTOR, word, reads, (("out", slot),))

    def _store(self, number: int, done: int) -> None:
        width = self.interleave
        line = sum(part.pixels for part in self.pieces[number]) * width
        region = box(line, self.planes, 1, self.result * width, 0)
        self.store(self._base(number), done * width, region, ("out", number % self.slots))
