# SPDX-License-Identifier: Apache-2.0
"""Where an output tile lies in OUT, RES and DRAM."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import NamedTuple

from tilewright.host.lowering.geometry import aligned_parts
from tilewright.host.lowering.plan import Plan
from tilewright.host.lowering.transfers import Box, box
from tilewright.host.lowering.walk import Item, walk
from tilewright.host.machine.board import MemoryModel
from tilewright.host.network.layout import Spread, blocks_of


class OutputPart(NamedTuple):
    """Output blocks of a tile that lie together in OUT and RES and are stored at once.

    They lie there as [blocks][pixels], or as [pixels][blocks] where DRAM interleaves blocks: then a
    part is what the tile has of a stored block, and its rows in DRAM are as long as they can be.
    """

    first: int  # its first output block, relative to the tile
    blocks: int  # output blocks
    interleaved: bool  # which of the two

    @property
    def end(self) -> int:
        """The output block after the last."""
        return self.first + self.blocks

    @property
    def keys(self) -> range:
        """Output blocks that stand for the part's place in OUT when dependencies are tracked.

        One is enough where places of different tiles are equal or disjoint; interleaved parts of
        tiles that start within a stored block overlap.
        """
        return range(self.first, self.end if self.interleaved else self.first + 1)

    def steps(self, pixels: int) -> tuple[int, int]:
        """Tiles from block to block and from pixel to pixel, of a tile with so many pixels."""
        return (1, self.blocks) if self.interleaved else (pixels, 1)


def channels_last(plan: Plan) -> Plan:
    """The plan of a layer whose output in DRAM has all channels of a pixel together.

    The whole output is then one stored block. The channels must be whole blocks of the array, and
    the layer has no residual, which would have to lie so, too.
    """
    return replace(plan, shape=replace(plan.shape, out_interleave=plan.shape.out_blocks))


def parts(plan: Plan, item: Item, first: int, count: int) -> list[OutputPart]:
    """The parts that hold output blocks ``first .. first + count - 1`` of a tile."""
    interleave = plan.shape.out_interleave
    if interleave == 1:
        return [OutputPart(first, count, interleaved=False)]
    tile = plan.channels.tiles[item.co]
    cut = [
        OutputPart(*part, interleaved=True)
        for part in aligned_parts(tile.first, tile.count, interleave)
    ]
    return [part for part in cut if part.first < first + count and part.end > first]


def out_boxes(plan: Plan, item: Item, part: OutputPart) -> list[tuple[int, int, Box]]:
    """Of each region of the output that a part fills: byte offset, tile in the part, shape."""
    shape = plan.shape
    batch, batches = plan.batch_tiles[item.batch]
    row, column = plan.rows.tiles[item.row], plan.columns.tiles[item.column]
    interleave, count = shape.out_interleave, part.blocks
    line = shape.out_width * interleave
    plane = shape.out_height * shape.out_width
    image = shape.stored_out_blocks * plane
    block = plan.channels.tiles[item.co].first + part.first
    within = block % interleave
    start = batch * image + (block - within) * plane + within
    start += row.out * line + column.out * interleave
    pixels = row.count * column.count
    if not part.interleaved and batches == 1:
        places = [(start, 0, box(column.count, row.count, count, line, plane))]
    elif not part.interleaved:
        region = box(column.count, row.count, batches, line, image)
        places = [(start + i * plane, i * batches * pixels, region) for i in range(count)]
    elif count == interleave:
        places = [(start, 0, box(column.count * count, row.count, batches, line, image))]
    else:
        region = box(count, column.count, row.count, interleave, line)
        places = [(start + i * image, i * pixels * count, region) for i in range(batches)]
    size = plan.hw.out_tile_bytes
    return [(offset * size, at, region) for offset, at, region in places]


def spread_boxes(
    plan: Plan, item: Item, part: OutputPart, spread: Spread
) -> list[tuple[int, int, Box]]:
    """As `out_boxes`, for an output that is spread.

    One row of the walk is one pixel, or a row of pixels where they are neighbours.
    """
    shape = plan.shape
    batch, batches = plan.batch_tiles[item.batch]
    row, column = plan.rows.tiles[item.row], plan.columns.tiles[item.column]
    interleave, count = shape.out_interleave, part.blocks
    line = spread.width * interleave
    plane = spread.height * spread.width
    image = shape.stored_out_blocks * plane
    block = plan.channels.tiles[item.co].first + part.first
    within = block % interleave
    start = batch * image + (block - within) * plane + within
    start += (spread.first_row + row.out * spread.row_step) * line
    start += (spread.first_column + column.out * spread.column_step) * interleave
    pixels = row.count * column.count
    along, down = spread.column_step * interleave, spread.row_step * line
    beside = spread.column_step == 1
    if part.interleaved and beside and count == interleave:
        region = box(column.count * count, row.count, batches, down, image)
        places = [(start, 0, region)]
    elif part.interleaved:
        region = Box(count, column.count, row.count, along, down)
        places = [(start + i * image, i * pixels * count, region) for i in range(batches)]
    else:
        region = (
            box(column.count, row.count, 1, down, 0)
            if beside
            else Box(1, column.count, row.count, along, down)
        )
        places = [
            (start + i * image + j * plane, (j * batches + i) * pixels, region)
            for j in range(count)
            for i in range(batches)
        ]
    size = plan.hw.out_tile_bytes
    return [(offset * size, at, region) for offset, at, region in places]


def store_cycles(plan: Plan, memory: MemoryModel) -> float:
    """Cycles of STORE for a layer's whole output, if nothing else holds it up.

    A burst takes its beats, or its share of the time from its address to its response, because
    only so many bursts are in flight.
    """
    hw = plan.hw
    beat = hw.axi_bytes / min(hw.axi_bytes, memory.write_bytes_per_cycle)
    in_flight = min(memory.max_writes, hw.write_outstanding)

    def burst(beats: int) -> float:
        moved = beats * beat
        return max(moved, (memory.write_latency + moved) / in_flight)

    rows: Counter[int] = Counter()
    for item in walk(plan):
        if not item.last:
            continue
        for part in parts(plan, item, 0, plan.channels.tiles[item.co].count):
            for _, _, region in out_boxes(plan, item, part):
                rows[region.x_size] += region.y_size * region.z_size
    total = 0.0
    for tiles, count in rows.items():
        beats = blocks_of(tiles * hw.out_tile_bytes, hw.axi_bytes)
        whole, rest = divmod(beats, hw.axi_burst_beats)
        total += count * (whole * burst(hw.axi_burst_beats) + (burst(rest) if rest else 0.0))
    return total
