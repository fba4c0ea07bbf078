# SPDX-License-Identifier: Apache-2.0
"""Lower bounds of single schedules: no run of a schedule takes fewer cycles than its bound.

`host.lowering.cycle_bound` bounds a layer, whatever its schedule. A `ScheduleBound` knows tiles,
order, threads and fusion, and bounds whole arrays of schedules without lowering one. Each part is a
chain of work that cannot overlap, in the order of `host.lowering.walk`:

    gemm    fetch and loads of the first item, every tile product, VECTOR and STORE of the last tile
    read    the first fetch, every load one behind the other, VECTOR and STORE of the last tile
    fetch   the loads and the instructions together: they share a channel
    vector  what the first output needs, the whole of VECTOR, the last STORE
    store   what the first output needs, the whole of STORE
    single  with one context: GEMM and the loads that overwrite what it reads take turns

It is no prior: `layer_model` predicts, and may say too much; a bound may only say too little. Its
latencies are those of the RTL (`sim/twin/core/latency.h`), left out where they might overlap.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.lowering.geometry import (
    Spans,
    aligned_parts,
    column_spans,
    even_tiles,
    geometry,
    row_spans,
)
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, UOP_BYTES, HwConfig
from tilewright.host.network.layout import diagonal_bytes
from tilewright.host.network.schedule import Fusion, LoopOrder
from tilewright.host.network.workload import Workload
from tilewright.sim.twin.native_lowering import Points

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_TO_DATA: Final = 9
"""Start to the first data, without two latencies of the memory: fetch, take, offer, address."""

_TO_GEMM: Final = 1
_GEMM_TAIL: Final = 5
"""The last product's issue to its retirement, and to the take of what waits for it."""

_VECTOR_TAIL: Final = 10
_STORE_START: Final = 6
"""The take of a STORE to its first beat."""

_END: Final = 2
"""The last response to the end, without the memory's latency."""

_PARAM_ROW_BYTES: Final = 32
_PARAM_SETUP: Final = 2
_HOLD: Final = 1
"""Cycles that a burst holds its place in flight beyond the memory's latency and its beats."""

ROWS: Final = 1 << 17
"""Schedules that are bounded at a time: the arrays stay in the caches' reach."""


class _Channel:
    """Least bus cycles of rows in one direction.

    A row takes its beats, and its bursts hold places in flight. Both sums over rows are bounds, each
    by itself; a sum over the larger of both for each row is none.
    """

    def __init__(self, hw: HwConfig, *, latency: int, bytes_per_cycle: float, flights: int) -> None:
        self._axi: Final = hw.axi_bytes
        self._burst: Final = min(hw.axi_burst_beats, 4096 // hw.axi_bytes)
        self._latency: Final = latency
        self.beat: Final = max(1.0, hw.axi_bytes / bytes_per_cycle)
        self._flights: Final = flights

    def row(self, nbytes: int, *, joined: bool = False) -> tuple[float, float]:
        """Beats and held places of a row of so many bytes; joined: part of a longer one, maybe."""
        beats = nbytes / self._axi if joined else -(-nbytes // self._axi)
        bursts = beats / self._burst if joined else math.ceil(beats / self._burst)
        moved = beats * self.beat
        return moved, ((self._latency + _HOLD) * bursts + moved) / self._flights

    def of(self, nbytes: Floats | float) -> Floats:
        """Beats alone."""
        return np.asarray(nbytes / self._axi * self.beat, dtype=np.float64)


class ScheduleBound:
    """Bounds schedules of one workload on one configuration and memory."""

    def __init__(self, hw: HwConfig, workload: Workload, memory: MemoryModel) -> None:
        self._hw: Final = hw
        self._memory: Final = memory
        self._shape: Final = geometry(hw, workload)
        self._read: Final = _Channel(
            hw,
            latency=memory.read_latency,
            bytes_per_cycle=memory.read_bytes_per_cycle,
            flights=min(hw.read_outstanding, memory.max_reads),
        )
        self._write: Final = _Channel(
            hw,
            latency=memory.write_latency,
            bytes_per_cycle=memory.write_bytes_per_cycle,
            flights=min(hw.write_outstanding, memory.max_writes),
        )
        shape = self._shape
        inp = shape.inp_interleave * hw.inp_tile_bytes
        out = shape.out_interleave * hw.out_tile_bytes
        self._rows: Final = self._axis(shape.out_height, lambda t: row_spans(shape, t), inp, out)
        self._columns: Final = self._axis(
            shape.out_width, lambda t: column_spans(shape, t), inp, out
        )
        self._whole, self._pieces, self._last_part = self._output_parts()

    def least(self, points: Points) -> Ints:
        """Cycles that no run of each schedule undercuts, int64 of shape (schedules,).

        Args:
            points: int32 of shape (schedules, 9), as `native_lowering.encode_schedules` gives it;
                tiles lie within the layer.
        """
        found = np.empty(len(points), dtype=np.int64)
        for first in range(0, len(points), ROWS):
            part = points[first : first + ROWS]
            found[first : first + ROWS] = np.ceil(self._least(part) - 1e-6)
        return found

    # -- tables by tile size ----------------------------------------------------------------

    def _axis(
        self, extent: int, cut: Callable[[int], Spans], inp_bytes: int, out_bytes: int
    ) -> Floats:
        """By tile size (row 0 is unused), shape (extent + 1, 11).

        Columns: tiles; input positions of all, of the first and of the last tile; output positions
        of the last; beats of the rows read of all tiles, of the first, and the same of held places;
        of the rows written of all tiles.
        """
        shape = self._shape
        table = np.zeros((extent + 1, 11))
        for size in range(1, extent + 1):
            tiles = cut(size).tiles
            reads = [
                self._read.row(t.size * inp_bytes, joined=t.size == shape.width) for t in tiles
            ]
            writes = [
                self._write.row(t.count * out_bytes, joined=t.count == shape.out_width)
                for t in tiles
            ]
            table[size] = (
                *(len(tiles), sum(t.size for t in tiles), tiles[0].size, tiles[-1].size),
                *(tiles[-1].count, sum(r[0] for r in reads), reads[0][0]),
                *(sum(r[1] for r in reads), reads[0][1]),
                *(sum(w[0] for w in writes), sum(w[1] for w in writes)),
            )
        return table

    def _output_parts(self) -> tuple[Floats, Floats, Floats]:
        """By ``tile_co``: whole stored blocks, blocks in other parts, blocks of the last part."""
        shape = self._shape
        extent, size = shape.out_blocks, shape.out_interleave
        found = np.zeros((3, extent + 1))
        for tile in range(1, extent + 1):
            tiles = even_tiles(extent, tile)
            parts = [n for first, count in tiles for _, n in aligned_parts(first, count, size)]
            whole = parts.count(size)
            found[:, tile] = (whole, sum(parts) - whole * size, parts[-1])
        return found[0], found[1], found[2]

    # -- the chains -------------------------------------------------------------------------

    def _least(self, points: Points) -> Floats:
        shape, hw, memory = self._shape, self._hw, self._memory
        sizes = points[:, :5]
        b, h, w, ci, co = sizes.astype(np.float64).T
        rows, columns = self._rows[sizes[:, 1]].T, self._columns[sizes[:, 2]].T
        if shape.depthwise:
            ci = np.full_like(ci, shape.reduce_blocks)
        tiles_b, tiles_co = np.ceil(shape.batches / b), np.ceil(shape.out_blocks / co)
        steps = np.ceil(shape.reduce_blocks / ci)
        spatial = tiles_b * rows[0] * columns[0]
        in_rows = np.minimum(points[:, 5], rows[0])
        in_cos = np.minimum(points[:, 6], tiles_co)
        single = points[:, 5] * points[:, 6] == 1
        weights_stay = points[:, 7] == _number(LoopOrder.WEIGHT_STATIONARY)
        inputs_stay = points[:, 7] == _number(LoopOrder.INPUT_STATIONARY)
        by_block = points[:, 8] == _number(Fusion.BLOCK)
        macs = float(shape.mac_tiles)
        taps, lanes = shape.taps, hw.out_tile_bytes / hw.vector_lanes

        # What an input plane costs, by row tiles: all of them, and the last.
        planes = float(shape.batches * shape.in_planes)
        groups = tiles_b * columns[0] * np.ceil(rows[0] / in_rows)
        co_groups = np.ceil(tiles_co / in_cos)
        slots = np.where(single, 1, 2)
        if shape.depthwise:
            positions = planes * rows[1]
            inp_loads = spatial * tiles_co
        else:
            ragged = np.where(in_rows > 1, np.mod(rows[0], in_rows), 0)
            again = np.where(in_rows * steps <= slots, 1, co_groups)
            again_last = np.where(ragged * steps <= slots, 1, co_groups)
            last = np.where(ragged > 0, rows[3], 0)
            streamed = (rows[1] - last) * again + last * again_last
            kept = rows[1] * np.where(spatial * steps <= slots, 1, co_groups)
            positions = np.where(weights_stay, kept, np.where(inputs_stay, rows[1], streamed))
            positions = planes * positions
            full = np.floor(rows[0] / in_rows) * in_rows
            inp_loads = tiles_b * columns[0] * steps * (full * again + ragged * again_last)
            kept_loads = spatial * steps * np.where(spatial * steps <= slots, 1, co_groups)
            inp_loads = np.where(weights_stay, kept_loads, inp_loads)
            inp_loads = np.where(inputs_stay, spatial * steps, inp_loads)
        weight = float(self._read.of(self._weight_bytes()))
        all_weights = shape.out_blocks * shape.reduce_blocks * taps * weight
        once = weights_stay | (tiles_co * steps <= slots)
        wgt = all_weights * np.where(once, 1, groups)
        wgt_loads = tiles_co * steps * np.where(once, 1, groups)

        # The first item: its micro-ops, its inputs, its weights.
        first_ci = np.minimum(ci, shape.reduce_blocks)
        blocks = first_ci
        if shape.depthwise:
            full_co = np.minimum(co, shape.out_blocks)
            blocks = np.ceil(full_co / shape.share) * (
                shape.reduce_blocks if shape.share == 1 else 1
            )
        first_planes = np.ceil(blocks / shape.inp_interleave)
        first_rows = b * first_planes * rows[2]
        first_wgt = np.minimum(co, shape.out_blocks) * first_ci * taps * weight
        uops = self._read.of(first_ci * taps * UOP_BYTES)
        data = _TO_DATA + 2 * memory.read_latency + self._read.of(INSTRUCTION_BYTES)
        first_held = np.maximum(0, first_rows * columns[8] - memory.read_latency)
        first_data = np.maximum(first_rows * columns[6] + first_wgt + uops, first_held)
        fill = data + first_data + _TO_GEMM

        # The last tile behind the last product.
        last_b = shape.batches - (tiles_b - 1) * b
        pixels = last_b * rows[4] * columns[4]
        last_co = shape.out_blocks - (tiles_co - 1) * co
        turn = hw.param_tile_bytes // max(_PARAM_ROW_BYTES, hw.axi_bytes) + _PARAM_SETUP
        vector_blocks = np.where(by_block, 1, last_co)
        tail = vector_blocks * (pixels * lanes + turn) + _VECTOR_TAIL
        stored = np.minimum(last_co, self._last_part[sizes[:, 4]])
        if shape.out_interleave == 1:
            stored = vector_blocks
        finish = _STORE_START + memory.write_latency + _END
        last_store = finish + self._write.of(stored * pixels * hw.out_tile_bytes)
        drain = _GEMM_TAIL + tail + last_store

        # The first output: its first VECTOR follows the reduction of its tile, or of its block.
        first_pixels = b * np.minimum(h, shape.out_height) * np.minimum(w, shape.out_width)
        first_pixels = np.minimum(first_pixels, shape.batches * first_pixels / b)
        first_blocks = np.where(by_block, 1, np.minimum(co, shape.out_blocks))
        reduced = first_pixels * first_blocks * shape.reduce_blocks * taps
        ready = fill + reduced + _GEMM_TAIL

        outputs = float(shape.batches * shape.out_blocks * shape.out_height * shape.out_width)
        vector = outputs * lanes + spatial * shape.out_blocks * turn
        lines = shape.batches * self._whole[sizes[:, 4]] * shape.out_height
        pieces = shape.batches * self._pieces[sizes[:, 4]] * shape.out_height * shape.out_width
        written = lines * columns[9] + self._write.of(pieces * hw.out_tile_bytes)
        store = np.maximum(written, lines * columns[10] - memory.write_latency)
        others = shape.out_blocks * hw.param_tile_bytes
        if shape.residual:
            others += int(outputs) * hw.out_tile_bytes
        inp = positions * columns[5]
        read = inp + wgt + uops + self._read.of(float(others))
        held = positions * columns[7] - memory.read_latency
        runs = np.where(by_block, spatial * shape.out_blocks, spatial * tiles_co)
        count = runs * steps + 2 * runs + inp_loads + wgt_loads
        fetched = self._read.of((count - np.where(by_block, runs, 0)) * INSTRUCTION_BYTES)

        first_vector = first_blocks * (first_pixels * lanes + turn)
        chains = [
            fill + macs + drain,
            data + np.maximum(read, held) + tail + last_store,
            memory.read_latency + read + fetched,
            ready + vector + _VECTOR_TAIL + last_store,
            ready + first_vector + _VECTOR_TAIL + finish + store,
        ]
        if memory.shared_bytes_per_cycle > 0:
            moved = (read / self._read.beat + written / self._write.beat) * hw.axi_bytes
            chains.append(moved / memory.shared_bytes_per_cycle)
        streams = (~weights_stay) & (~inputs_stay) & single
        waits = (np.maximum(inp_loads, wgt_loads) - 1) * (memory.read_latency + _TO_GEMM)
        if not shape.depthwise:
            chains.append(np.where(streams, data + inp + wgt + macs + waits + drain, 0))
        return np.asarray(np.maximum.reduce(chains))

    def _weight_bytes(self) -> int:
        """Bytes in DRAM of a weight tile."""
        hw = self._hw
        if self._shape.depthwise:
            return diagonal_bytes(block_in=hw.block_in, block_out=hw.block_out)
        return hw.int4_tile_bytes if self._shape.int4 else hw.wgt_tile_bytes


def _number(member: LoopOrder | Fusion) -> int:
    """The number of a loop order or a fusion in an array of schedules."""
    return list(type(member)).index(member)
