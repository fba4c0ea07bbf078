# SPDX-License-Identifier: Apache-2.0
"""The analytic prior: closed-form cycles of whole schedule spaces at once.

One `LayerModel` predicts a layer on a configuration and a memory for an array of schedules,
without lowering any of them. It follows the order of work of `host.lowering.walk`: the loads of
an item overlap the GEMM of the item before it when there is more than one context, and nothing
overlaps when there is one; the first item's loads and the last tile's epilogue overlap nothing.

    cycles = fill + sum over items of max(GEMM, loads) + drain        (two or four contexts)
    cycles = sum over items of (GEMM + loads) + sum over tiles of epilogues      (one context)

It is a prior: it ranks, and `residual` learns what it leaves out. NumPy, not torch: the arrays
have at most some hundred thousand rows and the formulas some hundred cheap operations, which
takes as long as importing torch does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.lowering.geometry import (
    Geometry,
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
from tilewright.sim.twin.native_lowering import NativeLowering, Points
from tilewright.tuner.schedule.bus_times import BusTimes, Floats

Bools = npt.NDArray[np.bool_]

_ORDERS: Final = {order: number for number, order in enumerate(LoopOrder)}
_FUSIONS: Final = {fusion: number for number, fusion in enumerate(Fusion)}

_START: Final = 18
"""Cycles from the start of a run to the first address on the bus and from data to GEMM."""

_TAKE: Final = 4
"""Cycles from the end of a load to the start of what waits for it."""

_LOADS_PER_ITEM: Final = 1.5

_VECTOR_TAIL: Final = 8
_PARAM_RELOAD: Final = 4
"""Cycles that a change of PARAM entries adds to the reads of their rows."""

TIED_TWO: Final = 0.75
TIED_FOUR: Final = 0.3
"""Share of the item-by-item sum in the body, by contexts: slots tie loads to the GEMM before, the
other share overlaps freely. Chosen on the landscapes of ResNet-18's C2-C11 on two arrays."""

FEATURES: Final = (
    "items", "gemm", "inp_load", "wgt_load", "fill", "drain", "vector", "store", "rows", "ragged",
    "single", "both", "by_rows", "weight", "input", "block",
)  # fmt: skip
"""Columns of `Prediction.features`: logarithms to base 2 and indicators."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What the model says of some schedules."""

    cycles: Floats  # float64 of shape (schedules,)
    features: Floats  # (schedules, len(FEATURES)): of one meaning on every layer and configuration


@dataclass(frozen=True, kw_only=True)
class _Tiling:
    """Schedules as tiles, groups of tiles in flight, and items; arrays of shape (schedules,).

    A round is a reduction step of a group, an item one of an output tile; ``gemm`` is the mean
    length of an item's GEMM.
    """

    sizes: npt.NDArray[np.int32]
    """Shape (schedules, 5): the tile knobs as they were given."""
    b: Floats
    h: Floats
    w: Floats
    ci: Floats
    co: Floats
    rows_in_flight: Floats
    cos_in_flight: Floats
    single: Bools
    weights_stay: Bools
    inputs_stay: Bools
    by_block: Bools
    steps: Floats
    tiles_co: Floats
    spatial_tiles: Floats
    spatial_groups: Floats
    co_groups: Floats
    tiles: Floats
    items: Floats
    rounds: Floats
    gemm: Floats
    ragged: Floats
    """Share of the tiled volume that lies outside of the layer."""

    @property
    def four(self) -> Bools:
        """Whether row tiles and co tiles are in flight at once."""
        return np.asarray((self.rows_in_flight > 1) & (self.cos_in_flight > 1))


@dataclass(frozen=True, kw_only=True)
class _Traffic:
    """Bus cycles of reads: a tile of each operand, and all; shares of items that fetch one."""

    inp: Floats
    wgt: Floats
    inp_share: Floats
    wgt_share: Floats
    others: Floats
    total: Floats


@dataclass(frozen=True, kw_only=True)
class _Epilogue:
    """Cycles of VECTOR and STORE in all, VECTOR of an output block, and what nothing hides."""

    vector: Floats
    store: Floats
    block: Floats
    drain: Floats


@dataclass(frozen=True, kw_only=True)
class _OutputParts:
    """By ``tile_co`` (index 0 is unused): how the tiles of all output blocks lie in DRAM.

    A tile's blocks of one stored block are a part. A whole one has rows as long as the tile is
    wide; of one that is not, each pixel is a row.
    """

    whole: Floats
    parts: Floats
    """Whole parts, and all."""
    write_time: Floats
    read_time: Floats
    """Bus cycles of a pixel of the others, summed."""


def _output_parts(shape: Geometry, bus: BusTimes, tile_bytes: int) -> _OutputParts:
    size, extent = shape.out_interleave, shape.out_blocks
    table = np.zeros((4, extent + 1))
    for tile_co in range(1, extent + 1):
        parts = [
            blocks
            for first, count in even_tiles(extent, tile_co)
            for _, blocks in aligned_parts(first, count, size)
        ]
        pieces = [blocks * tile_bytes for blocks in parts if blocks < size]
        table[:, tile_co] = (
            len(parts) - len(pieces),
            len(parts),
            sum(map(bus.write_row, pieces)),
            sum(map(bus.read_row, pieces)),
        )
    whole, count, write_time, read_time = table
    return _OutputParts(whole=whole, parts=count, write_time=write_time, read_time=read_time)


class LayerModel:
    """Predicts schedules of one workload on one configuration and memory."""

    def __init__(self, hw: HwConfig, workload: Workload, memory: MemoryModel) -> None:
        self.hw: Final = hw
        self.workload: Final = workload
        self.memory: Final = memory
        self._shape: Final = geometry(hw, workload)
        self._macs: Final = float(self._shape.mac_tiles)
        self._native: NativeLowering | None = None
        bus = BusTimes(hw, memory)
        self._read_beat: Final = bus.read_beat
        self._write_beat: Final = bus.write_beat
        shape = self._shape
        pixel = {
            "inp_bytes": shape.inp_interleave * hw.inp_tile_bytes,
            "out_bytes": shape.out_interleave * hw.out_tile_bytes,
        }
        self._rows: Final = bus.axis(shape.out_height, lambda tile: row_spans(shape, tile), **pixel)
        self._columns: Final = bus.axis(
            shape.out_width, lambda tile: column_spans(shape, tile), **pixel
        )
        self._out: Final = _output_parts(shape, bus, hw.out_tile_bytes)

    def legal(self, points: Points) -> Bools:
        """Whether each schedule lowers: bool of shape (schedules,); native, 0.3 us each."""
        if self._native is None:
            self._native = NativeLowering(self.hw, self.workload)
        legal: Bools = self._native.rules(points) == 0
        return legal

    def within(self, points: Points) -> Bools:
        """Whether the tiles of each schedule lie in the layer's extents: bool, (schedules,)."""
        shape = self._shape
        reduction = 1 if shape.depthwise else shape.reduce_blocks
        limits = (shape.batches, shape.out_height, shape.out_width, reduction, shape.out_blocks)
        return np.asarray((points[:, :5] <= np.array(limits)).all(axis=1))

    def predict(self, points: Points) -> Prediction:
        """Cycles and features of schedules whose tiles lie `within` the layer.

        Args:
            points: int32 of shape (schedules, 9), as `native_lowering.encode_schedules` gives it.
        """
        tiling = self._tiling(points)
        traffic = self._traffic(tiling)
        epilogue = self._epilogue(tiling)
        fill = self._fill(tiling, traffic)
        body = self._body(tiling, traffic, epilogue)
        wait = self.memory.read_latency + _TAKE + _START
        serial = self._macs + traffic.total + tiling.rounds * wait
        serial += epilogue.vector + tiling.tiles * _VECTOR_TAIL
        cycles = np.where(tiling.single, serial, fill + body) + epilogue.drain
        return Prediction(
            cycles=np.asarray(cycles, dtype=np.float64),
            features=self._features(tiling, traffic, epilogue, fill),
        )

    # -- tiles and what they move ---------------------------------------------------------------

    def _tiling(self, points: Points) -> _Tiling:
        shape = self._shape
        sizes = points[:, :5].copy()
        sizes[:, 4] = np.minimum(sizes[:, 4], shape.out_blocks)  # illegal beyond: nothing is there
        b, h, w, ci, co = sizes.astype(np.float64).T
        rows_in_flight, cos_in_flight = points[:, 5:7].astype(np.float64).T
        if shape.depthwise:
            ci = np.full_like(ci, shape.reduce_blocks)
        tiles_h = self._rows.tiles[points[:, 1]]
        tiles_w = self._columns.tiles[points[:, 2]]
        tiles_b, tiles_co = np.ceil(shape.batches / b), np.ceil(shape.out_blocks / co)
        steps = np.ceil(shape.reduce_blocks / ci)
        rows_in_flight = np.minimum(rows_in_flight, tiles_h)
        cos_in_flight = np.minimum(cos_in_flight, tiles_co)
        spatial_groups = tiles_b * tiles_w * np.ceil(tiles_h / rows_in_flight)
        co_groups = np.ceil(tiles_co / cos_in_flight)
        spatial_tiles = tiles_b * tiles_h * tiles_w
        even = (shape.out_height / (tiles_h * h)) * (shape.out_width / (tiles_w * w))
        even *= (shape.out_blocks / (tiles_co * co)) * (shape.reduce_blocks / (steps * ci))
        return _Tiling(
            sizes=sizes,
            b=b,
            h=h,
            w=w,
            ci=ci,
            co=co,
            rows_in_flight=rows_in_flight,
            cos_in_flight=cos_in_flight,
            single=points[:, 5] * points[:, 6] == 1,
            weights_stay=points[:, 7] == _ORDERS[LoopOrder.WEIGHT_STATIONARY],
            inputs_stay=points[:, 7] == _ORDERS[LoopOrder.INPUT_STATIONARY],
            by_block=points[:, 8] == _FUSIONS[Fusion.BLOCK],
            steps=steps,
            tiles_co=tiles_co,
            spatial_tiles=spatial_tiles,
            spatial_groups=spatial_groups,
            co_groups=co_groups,
            tiles=spatial_tiles * tiles_co,
            items=spatial_tiles * tiles_co * steps,
            rounds=spatial_groups * co_groups * steps,
            gemm=self._macs / (spatial_tiles * tiles_co * steps),
            ragged=1 - even,
        )

    def _traffic(self, t: _Tiling) -> _Traffic:
        """Bus cycles of one tile of each operand, and how often each is fetched.

        An operand is fetched once when it is stationary or all that a group needs of it stays in
        its slots (two with more than one context, else one).
        """
        shape = self._shape
        slots = np.where(t.single, 1, 2)
        planes = shape.batches * shape.in_planes
        h, w = t.sizes[:, 1], t.sizes[:, 2]
        inputs_once = planes * self._rows.stored[h] * self._columns.read_time[w]
        if shape.depthwise:
            inp = inputs_once / t.tiles
            inp_loads = t.tiles
        else:
            inp = inputs_once / (t.spatial_tiles * t.steps)
            once = t.spatial_tiles * t.steps
            kept = np.where(t.weights_stay, once <= slots, t.rows_in_flight * t.steps <= slots)
            inp_loads = once * np.where(kept | t.inputs_stay, 1, t.co_groups)
        once = t.tiles_co * t.steps
        wgt = shape.out_blocks * shape.reduce_blocks * shape.taps * self._weight_time() / once
        wgt_loads = once * np.where(t.weights_stay | (once <= slots), 1, t.spatial_groups)
        others = self._other_reads(t)
        return _Traffic(
            inp=inp,
            wgt=wgt,
            inp_share=np.minimum(1, inp_loads / np.maximum(1, t.rounds * t.rows_in_flight)),
            wgt_share=np.minimum(1, wgt_loads / np.maximum(1, t.rounds * t.cos_in_flight)),
            others=others,
            total=inp_loads * inp + wgt_loads * wgt + others,
        )

    def _epilogue(self, t: _Tiling) -> _Epilogue:
        """VECTOR and STORE: in all, of one block, and behind the last GEMM."""
        shape, hw = self._shape, self.hw
        parts = hw.out_tile_bytes / hw.vector_lanes
        reload = _PARAM_RELOAD + max(1, hw.param_tile_bytes // max(32, hw.axi_bytes))
        outputs = shape.batches * shape.out_blocks * shape.out_height * shape.out_width
        co, pixel_rows = t.sizes[:, 4], shape.batches * shape.out_height * shape.out_width
        rows = shape.batches * self._out.whole[co] * shape.out_height
        store = rows * self._columns.write_time[t.sizes[:, 2]]
        last_h, last_w = self._rows.last[t.sizes[:, 1]], self._columns.last[t.sizes[:, 2]]
        pixels = t.b * last_h * last_w
        last_co = shape.out_blocks - (t.tiles_co - 1) * t.co
        block = pixels * parts + reload
        behind = np.maximum(0, (last_co - 1) * (block - pixels * t.ci * shape.taps))
        last_vector = np.where(t.by_block, block + behind, last_co * block)
        stored_at_once = np.minimum(shape.out_interleave, last_co)
        last_store = np.where(t.by_block, stored_at_once, last_co) * pixels * hw.out_tile_bytes
        drain = last_vector + last_store / hw.axi_bytes * self._write_beat
        return _Epilogue(
            vector=outputs * parts + t.tiles * t.co * reload,
            store=store + pixel_rows * self._out.write_time[co],
            block=t.b * t.h * t.w * parts + reload,
            drain=drain + _VECTOR_TAIL + self.memory.write_latency + _TAKE,
        )

    # -- time -----------------------------------------------------------------------------------

    def _fill(self, t: _Tiling, traffic: _Traffic) -> Floats:
        """Cycles before the first GEMM: its operands and its micro-ops."""
        first = self._rows.first[t.sizes[:, 1]] * self._columns.first_time[t.sizes[:, 2]]
        uops = self._kernel(t) * UOP_BYTES / self.hw.axi_bytes * self._read_beat
        start = _START + self.memory.read_latency
        planes = np.ceil(t.ci / self._shape.inp_interleave)
        return np.asarray(start + t.b * planes * first + traffic.wgt + uops, dtype=np.float64)

    def _body(self, t: _Tiling, traffic: _Traffic, epilogue: _Epilogue) -> Floats:
        """Cycles with more than one context, between fill and drain."""
        inp, wgt, spread = traffic.inp, traffic.wgt, traffic.others / t.items
        both = np.maximum(t.gemm, inp + wgt + spread)
        only_inp, only_wgt = np.maximum(t.gemm, inp + spread), np.maximum(t.gemm, wgt + spread)
        none = np.maximum(t.gemm, spread)

        def mix(share: Floats, fresh: Floats, kept: Floats) -> Floats:
            return np.asarray(share * fresh + (1 - share) * kept, dtype=np.float64)

        with_inp = mix(traffic.wgt_share, both, only_inp)
        without = mix(traffic.wgt_share, only_wgt, none)
        leading = mix(traffic.inp_share, with_inp, without)
        more_rows = (t.rows_in_flight - 1) * mix(traffic.inp_share, only_inp, none)
        more_cos = (t.cos_in_flight - 1) * mix(traffic.wgt_share, only_wgt, none)
        rest = (t.rows_in_flight - 1) * (t.cos_in_flight - 1) * none
        by_item = t.rounds * (leading + more_rows + more_cos + rest)
        macs = np.full_like(t.gemm, self._macs)
        by_sum = np.maximum.reduce([macs, traffic.total, epilogue.vector, epilogue.store])
        tied = np.where(t.four, TIED_FOUR, TIED_TWO)
        return np.asarray(tied * np.maximum(by_item, by_sum) + (1 - tied) * by_sum)

    def _features(self, t: _Tiling, traffic: _Traffic, epilogue: _Epilogue, fill: Floats) -> Floats:
        def log(value: Floats, over: Floats | float) -> Floats:
            return np.asarray(np.log2(1 + value / np.maximum(over, 1)), dtype=np.float64)

        run = np.where(t.by_block, 1, t.co)
        columns = {
            "items": np.log2(t.items) / 4,
            "gemm": np.log2(1 + t.gemm) / 4,
            "inp_load": log(traffic.inp_share * traffic.inp, t.gemm),
            "wgt_load": log(traffic.wgt_share * traffic.wgt, t.gemm),
            "fill": 8 * fill / self._macs,
            "drain": 8 * epilogue.drain / self._macs,
            "vector": log(epilogue.block * run, t.gemm * t.steps),
            "store": log(epilogue.store, self._macs),
            "rows": np.log2(1 + t.w) / 4,
            "ragged": t.ragged,
            "single": t.single,
            "both": t.four,
            "by_rows": t.rows_in_flight > 1,
            "weight": t.weights_stay,
            "input": t.inputs_stay,
            "block": t.by_block,
        }
        return np.stack([columns[name] for name in FEATURES], axis=1).astype(np.float64)

    # -- parts ------------------------------------------------------------------------------

    def _weight_time(self) -> float:
        """Bus cycles of a weight tile; of a diagonal one at least the cycle that places it."""
        hw = self.hw
        if not self._shape.depthwise:
            stored = hw.int4_tile_bytes if self._shape.int4 else hw.wgt_tile_bytes
            return stored / hw.axi_bytes * self._read_beat
        nbytes = diagonal_bytes(block_in=hw.block_in, block_out=hw.block_out)
        return max(1.0, nbytes / hw.axi_bytes * self._read_beat)

    def _other_reads(self, t: _Tiling) -> Floats:
        """Bus cycles of instructions, parameters and residuals."""
        shape, hw = self._shape, self.hw
        runs = np.where(t.by_block, t.co, 1)
        epilogues = 2 * t.tiles * runs
        if shape.out_interleave > 1:
            parts = t.spatial_tiles * self._out.parts[t.sizes[:, 4]]
            epilogues = np.where(t.by_block, t.tiles * t.co, parts) + parts
        instructions = t.items * (runs + _LOADS_PER_ITEM) + epilogues
        nbytes = instructions * INSTRUCTION_BYTES + shape.out_blocks * hw.param_tile_bytes
        slow = np.zeros_like(t.b)
        if shape.residual:
            pixels = shape.batches * shape.out_height * shape.out_width
            whole = self._out.whole[t.sizes[:, 4]] * shape.out_interleave
            nbytes = nbytes + pixels * whole * hw.out_tile_bytes
            slow = pixels * self._out.read_time[t.sizes[:, 4]]
        return np.asarray(nbytes / hw.axi_bytes * self._read_beat + slow, dtype=np.float64)

    def _kernel(self, t: _Tiling) -> Floats:
        """Micro-ops of a full tile's GEMM: all loops but the two longest, which hardware runs."""
        shape = self._shape
        run = np.where(t.by_block, 1, t.co)
        taps = (np.full_like(t.h, shape.kernel_h), np.full_like(t.h, shape.kernel_w))
        loops = np.sort(np.stack([t.b, t.h, t.w, t.ci, run, *taps]), axis=0)
        return np.asarray(loops[:-2].prod(axis=0), dtype=np.float64)
