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
from dataclasses import dataclass
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
Bools = npt.NDArray[np.bool_]

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
"""Cycles that a burst holds its place in flight beyond the memory's latency and its beats, of
which the last takes one cycle, whatever time the memory then needs."""

ROWS: Final = 1 << 17
"""Schedules that are bounded at a time: the arrays stay in the caches' reach."""


class _Channel:
    """Least bus cycles of rows in one direction.

    A row takes its beats, and its bursts hold places in flight. Both sums over rows are bounds,
    each by itself; a sum over the larger of both for each row is none.
    """

    def __init__(self, hw: HwConfig, *, latency: int, beat: float, flights: int) -> None:
        self._axi: Final = hw.axi_bytes
        self._burst: Final = min(hw.axi_burst_beats, 4096 // hw.axi_bytes)
        self._latency: Final = latency
        self.beat: Final = beat
        self.spare: Final = beat - 1 if beat == int(beat) else beat
        """Of the bus cycles of beats in a row, those that nothing waits for: the last beat takes
        one cycle, and the first may begin in the fraction that a beat before it left."""
        self._flights: Final = flights

    def row(self, nbytes: int, *, joined: bool = False) -> tuple[float, float]:
        """Beats and held places of a row of so many bytes; joined: part of a longer one, maybe."""
        beats = nbytes / self._axi if joined else -(-nbytes // self._axi)
        bursts = beats / self._burst if joined else math.ceil(beats / self._burst)
        moved = beats * self.beat
        waits = bursts * max(0.0, self._latency + _HOLD - self.beat)
        return moved, (waits + moved) / self._flights

    def of(self, nbytes: Floats | float) -> Floats:
        """Beats alone."""
        return np.asarray(nbytes / self._axi * self.beat, dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class _Tiles:
    """Schedules as tiles; arrays of shape (schedules,), ``rows`` and ``columns`` with a table's."""

    b: Floats
    h: Floats
    w: Floats
    ci: Floats
    co: Floats
    tile_co: npt.NDArray[np.int32]
    rows: Floats
    columns: Floats
    tiles_b: Floats
    tiles_co: Floats
    steps: Floats
    spatial: Floats
    in_rows: Floats
    in_cos: Floats
    single: Bools
    slots: Ints
    weights_stay: Bools
    inputs_stay: Bools
    by_block: Bools


@dataclass(frozen=True, kw_only=True)
class _Loads:
    """Bus cycles of all inputs (also by held places), weights and micro-ops; LOADs that read."""

    inp: Floats
    held: Floats
    wgt: Floats
    inp_loads: Floats
    wgt_loads: Floats
    uops: Floats


class ScheduleBound:
    """Bounds schedules of one workload on one configuration and memory."""

    def __init__(self, hw: HwConfig, workload: Workload, memory: MemoryModel) -> None:
        self._hw: Final = hw
        self._memory: Final = memory
        self._shape: Final = geometry(hw, workload)
        read_beat, write_beat, self._shared_beat = memory.beat_cycles(hw.axi_bytes)
        self._read: Final = _Channel(
            hw,
            latency=memory.read_latency,
            beat=read_beat,
            flights=min(hw.read_outstanding, memory.max_reads),
        )
        self._write: Final = _Channel(
            hw,
            latency=memory.write_latency,
            beat=write_beat,
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

    def moved(self, points: Points) -> tuple[Floats, Floats]:
        """Bytes that each schedule reads and writes, nearly: no more than it does.

        Args:
            points: as of `least`.
        """
        t = self._tiles(points)
        loads = self._loads(t)
        read = (self._read_time(loads) + self._fetched(t, loads)) / self._read.beat
        written = self._stores(t)[0] / self._write.beat
        return read * self._hw.axi_bytes, written * self._hw.axi_bytes

    # -- tables by tile size ----------------------------------------------------------------

    def _axis(
        self, extent: int, cut: Callable[[int], Spans], inp_bytes: int, out_bytes: int
    ) -> Floats:
        """By tile size (row 0 is unused), shape (extent + 1, 12).

        Columns: tiles; input positions of all, of the first and of the last tile; output positions
        of the last; beats of the rows read of all tiles, of the first, and the same of held places;
        of the rows written of all tiles; tiles that lie in the padding and read nothing.
        """
        shape = self._shape
        table = np.zeros((extent + 1, 12))
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
                sum(t.size == 0 for t in tiles),
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

    # -- what schedules move and compute ---------------------------------------------------------

    def _tiles(self, points: Points) -> _Tiles:
        shape = self._shape
        sizes = points[:, :5]
        b, h, w, ci, co = sizes.astype(np.float64).T
        if shape.depthwise:
            ci = np.full_like(ci, shape.reduce_blocks)
        rows, columns = self._rows[sizes[:, 1]].T, self._columns[sizes[:, 2]].T
        tiles_b, tiles_co = np.ceil(shape.batches / b), np.ceil(shape.out_blocks / co)
        single = points[:, 5] * points[:, 6] == 1
        return _Tiles(
            b=b,
            h=np.minimum(h, shape.out_height),
            w=np.minimum(w, shape.out_width),
            ci=np.minimum(ci, shape.reduce_blocks),
            co=np.minimum(co, shape.out_blocks),
            tile_co=sizes[:, 4],
            rows=rows,
            columns=columns,
            tiles_b=tiles_b,
            tiles_co=tiles_co,
            steps=np.ceil(shape.reduce_blocks / ci),
            spatial=tiles_b * rows[0] * columns[0],
            in_rows=np.minimum(points[:, 5], rows[0]),
            in_cos=np.minimum(points[:, 6], tiles_co),
            single=single,
            slots=np.where(single, 1, 2),
            weights_stay=points[:, 7] == _number(LoopOrder.WEIGHT_STATIONARY),
            inputs_stay=points[:, 7] == _number(LoopOrder.INPUT_STATIONARY),
            by_block=points[:, 8] == _number(Fusion.BLOCK),
        )

    def _loads(self, t: _Tiles) -> _Loads:
        """How often operands are loaded: slots are filled in turn, so a cycle of more misses."""
        shape = self._shape
        planes = float(shape.batches * shape.in_planes)
        groups = t.tiles_b * t.columns[0] * np.ceil(t.rows[0] / t.in_rows)
        if shape.depthwise:
            co_groups = t.tiles_co
            positions, inp_loads = planes * t.rows[1], t.spatial * t.tiles_co
        else:
            co_groups = np.ceil(t.tiles_co / t.in_cos)
            # The last group of rows may have fewer members, and then stay in the slots.
            ragged = np.where(t.in_rows > 1, np.mod(t.rows[0], t.in_rows), 0)
            again = np.where(t.in_rows * t.steps <= t.slots, 1, co_groups)
            again_last = np.where(ragged * t.steps <= t.slots, 1, co_groups)
            last = np.where(ragged > 0, t.rows[3], 0)
            streamed = (t.rows[1] - last) * again + last * again_last
            full = np.floor(t.rows[0] / t.in_rows) * t.in_rows
            loads = t.tiles_b * t.columns[0] * t.steps * (full * again + ragged * again_last)
            kept = np.where(t.spatial * t.steps <= t.slots, 1, co_groups)
            order = [t.weights_stay, t.inputs_stay]
            positions = planes * np.select(order, [t.rows[1] * kept, t.rows[1]], streamed)
            once = t.spatial * t.steps
            inp_loads = np.select(order, [once * kept, once], loads)
        read = t.tiles_b * (t.rows[0] - t.rows[11]) * (t.columns[0] - t.columns[11])
        inp_loads = np.maximum(0, inp_loads - (t.spatial - read) * t.steps * co_groups)
        weights = t.tiles_co * t.steps
        turns = np.where(t.weights_stay | (weights <= t.slots), 1, groups)
        whole = self._shape.out_blocks * self._shape.reduce_blocks * self._shape.taps
        return _Loads(
            inp=positions * t.columns[5],
            held=positions * t.columns[7],
            wgt=whole * self._weight_time() * turns,
            inp_loads=inp_loads,
            wgt_loads=weights * turns,
            uops=self._read.of(t.ci * shape.taps * UOP_BYTES),
        )

    def _first_data(self, t: _Tiles, uops: Floats) -> Floats:
        """Bus cycles of what the first GEMM waits for."""
        shape, blocks = self._shape, t.ci
        if shape.depthwise:
            each = shape.reduce_blocks if shape.share == 1 else 1
            blocks = np.ceil(t.co / shape.share) * each
        rows = t.b * np.ceil(blocks / shape.inp_interleave) * t.rows[2]
        wgt = t.co * t.ci * shape.taps * self._weight_time()
        held = np.maximum(0, rows * t.columns[8] - self._memory.read_latency)
        return np.asarray(np.maximum(rows * t.columns[6] + wgt + uops, held))

    def _stores(self, t: _Tiles) -> tuple[Floats, Floats]:
        """Beats of all that is written, and the bus cycles that this takes."""
        shape = self._shape
        lines = shape.batches * self._whole[t.tile_co] * shape.out_height
        pieces = shape.batches * self._pieces[t.tile_co] * shape.out_height * shape.out_width
        beats = lines * t.columns[9] + self._write.of(pieces * self._hw.out_tile_bytes)
        held = lines * t.columns[10] - self._memory.write_latency
        return np.asarray(beats), np.asarray(np.maximum(beats, held))

    def _fetched(self, t: _Tiles, loads: _Loads) -> Floats:
        """Bus cycles of the instructions: LOAD, GEMM, VECTOR and STORE."""
        runs = t.spatial * np.where(t.by_block, self._shape.out_blocks, t.tiles_co)
        count = runs * (t.steps + np.where(t.by_block, 1, 2)) + loads.inp_loads + loads.wgt_loads
        return self._read.of(count * INSTRUCTION_BYTES)

    # -- the chains -----------------------------------------------------------------------------

    def _least(self, points: Points) -> Floats:
        shape, hw, memory = self._shape, self._hw, self._memory
        t = self._tiles(points)
        loads = self._loads(t)
        macs, lanes = float(shape.mac_tiles), hw.out_tile_bytes / hw.vector_lanes
        turn = hw.param_tile_bytes // max(_PARAM_ROW_BYTES, hw.axi_bytes) + _PARAM_SETUP
        read_spare, write_spare = self._read.spare, self._write.spare
        data = _TO_DATA + 2 * memory.read_latency + self._read.of(INSTRUCTION_BYTES) - read_spare
        fill = data + self._first_data(t, loads.uops) - read_spare + _TO_GEMM

        # The last tile behind the last product: its VECTOR, and its last STORE.
        pixels = (shape.batches - (t.tiles_b - 1) * t.b) * t.rows[4] * t.columns[4]
        last_co = shape.out_blocks - (t.tiles_co - 1) * t.co
        last_blocks = np.where(t.by_block, 1, last_co)
        stored = last_blocks
        if shape.out_interleave > 1:
            stored = np.minimum(last_co, self._last_part[t.tile_co])
        finish = _STORE_START + memory.write_latency + _END - write_spare
        last_store = finish + self._write.of(stored * pixels * hw.out_tile_bytes)
        tail = last_blocks * (pixels * lanes + turn) + _VECTOR_TAIL + last_store
        drain = _GEMM_TAIL + tail

        # The first output: its VECTOR follows the reduction of its tile, or of its block.
        pixels = np.minimum(t.b, shape.batches) * t.h * t.w
        first_blocks = np.where(t.by_block, 1, t.co)
        ready = fill + pixels * first_blocks * shape.reduce_blocks * shape.taps + _GEMM_TAIL
        first_vector = first_blocks * (pixels * lanes + turn) + _VECTOR_TAIL

        outputs = shape.batches * shape.out_blocks * shape.out_height * shape.out_width
        vector = outputs * lanes + t.spatial * shape.out_blocks * turn
        read = self._read_time(loads)
        written, store = self._stores(t)
        chains = [
            fill + macs + drain,
            data + np.maximum(read, loads.held - memory.read_latency) - read_spare + tail,
            memory.read_latency + read + self._fetched(t, loads) - read_spare,
            ready + vector + _VECTOR_TAIL + last_store,
            ready + first_vector + finish + store,
        ]
        if self._shared_beat:
            beats = read / self._read.beat + written / self._write.beat
            chains.append(beats * self._shared_beat - max(0.0, self._shared_beat - 1))
        if not shape.depthwise:
            turns = t.single & ~t.weights_stay & ~t.inputs_stay
            waits = np.maximum(loads.inp_loads, loads.wgt_loads) - 1
            waits = waits * (memory.read_latency + _TO_GEMM - read_spare)
            serial = data + loads.inp + loads.wgt - read_spare + macs + waits + drain
            chains.append(np.where(turns, serial, 0))
        return np.asarray(np.maximum.reduce(chains))

    def _read_time(self, loads: _Loads) -> Floats:
        """Bus cycles of all operands."""
        shape, hw = self._shape, self._hw
        others = shape.out_blocks * hw.param_tile_bytes
        if shape.residual:
            outputs = shape.batches * shape.out_blocks * shape.out_height * shape.out_width
            others += outputs * hw.out_tile_bytes
        return np.asarray(loads.inp + loads.wgt + loads.uops + self._read.of(float(others)))

    def _weight_time(self) -> float:
        """Bus cycles of a weight tile."""
        hw = self._hw
        if self._shape.depthwise:
            nbytes = diagonal_bytes(block_in=hw.block_in, block_out=hw.block_out)
        else:
            nbytes = hw.int4_tile_bytes if self._shape.int4 else hw.wgt_tile_bytes
        return float(self._read.of(nbytes))


def _number(member: LoopOrder | Fusion) -> int:
    """The number of a loop order or a fusion in an array of schedules."""
    return list(type(member)).index(member)
