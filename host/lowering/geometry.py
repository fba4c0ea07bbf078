# SPDX-License-Identifier: Apache-2.0
"""What a workload looks like to the accelerator: blocked, folded, and cut into tile spans."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from tilewright.host.common.errors import WorkloadError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.network.layout import blocks_of, folds, input_block, interleaved_blocks
from tilewright.host.network.workload import Kind, Workload


@dataclass(frozen=True, kw_only=True, slots=True)
class Geometry:
    """A workload on a configuration, after folding, in tiles and pixels.

    Attributes:
        in_blocks: input-channel blocks stored in DRAM, whole stored blocks (`host.network.layout`).
        share: output blocks that read one input block (above 1 only for depthwise with
            block_in > block_out).
        inp_interleave, out_interleave: blocks of a stored block of inputs, and of outputs and
            residuals: tiles that are contiguous at each pixel.
        height, width: stored input plane.
        row_step: stored rows from one loaded row to the next; above 1 when kernel_h is 1 and
            the stride skips rows.
        taps: kernel positions, kernel_h * kernel_w.
        inp_depth, wgt_depth, acc_depth, out_depth, res_depth, param_depth, uop_depth,
    """

    folded: bool  # kernel columns were unrolled into channels on the host
    depthwise: bool  # reduction stays inside an output block (diagonal weight tiles)
    int4: bool  # DRAM holds weights of 4 bits; where their scales would take as much, int8
    batches: int  # batch tiles
    in_blocks: int
    out_blocks: int  # output-channel blocks that are computed
    reduce_blocks: int  # input blocks that one output block reduces over
    share: int
    inp_interleave: int
    out_interleave: int
    height: int
    width: int
    out_height: int
    out_width: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    pad_top: int
    pad_left: int
    row_step: int
    taps: int
    residual: bool
    inp_depth: int
    wgt_depth: int
    acc_depth: int
    out_depth: int
    res_depth: int
    param_depth: int
    uop_depth: int
    acc_banks: int  # of the configuration, computed once

    @property
    def in_planes(self) -> int:
        """Stored blocks of the input."""
        return self.in_blocks // self.inp_interleave

    @property
    def stored_out_blocks(self) -> int:
        """Output blocks that the output in DRAM has room for: whole stored blocks."""
        return blocks_of(self.out_blocks, self.out_interleave) * self.out_interleave

    @property
    def tile_ci_unit(self) -> int:
        """What ``tile_ci`` is a multiple of, unless it covers the reduction."""
        return 1 if self.depthwise else self.inp_interleave

    @property
    def mac_tiles(self) -> int:
        """Tile products of the whole workload, one per cycle at best."""
        pixels = self.batches * self.out_height * self.out_width
        return pixels * self.out_blocks * self.reduce_blocks * self.taps


@lru_cache(maxsize=512)
def geometry(hw: HwConfig, workload: Workload) -> Geometry:
    """The geometry of a workload on a configuration (cached)."""
    if not workload.kind.weighs:
        raise WorkloadError(
            f"native lowering, priors and tuning spaces take convolutions, not {workload.kind}",
            field=f"{workload.name}.kind",
            value=str(workload.kind),
            remedy="use host.lowering with its default_schedule",
        )
    folded = folds(hw, workload)
    depthwise = workload.kind is Kind.DEPTHWISE
    out_blocks = blocks_of(workload.channels_out, hw.block_out)
    inp_interleave = input_block(hw) // hw.block_in
    share = 1
    if depthwise:
        reduce_blocks = max(1, hw.block_out // hw.block_in)
        share = max(1, hw.block_in // hw.block_out)
        in_blocks = blocks_of(out_blocks, share) * reduce_blocks
    else:
        columns = workload.kernel_w if folded else 1
        reduce_blocks = blocks_of(columns * workload.channels_in, hw.block_in)
        in_blocks = blocks_of(reduce_blocks, inp_interleave) * inp_interleave
    kernel_w = 1 if folded else workload.kernel_w
    return Geometry(
        folded=folded,
        depthwise=depthwise,
        int4=workload.weight_bits == 4 and 0 < hw.int4_tile_bytes < hw.wgt_tile_bytes,
        batches=blocks_of(workload.n, hw.batch),
        in_blocks=in_blocks,
        out_blocks=out_blocks,
        reduce_blocks=reduce_blocks,
        share=share,
        inp_interleave=inp_interleave,
        out_interleave=interleaved_blocks(hw),
        height=workload.height,
        width=workload.out_width if folded else workload.width,
        out_height=workload.out_height,
        out_width=workload.out_width,
        kernel_h=workload.kernel_h,
        kernel_w=kernel_w,
        stride_h=workload.stride_h,
        stride_w=1 if folded else workload.stride_w,
        dilation_h=workload.dilation_h,
        dilation_w=1 if folded else workload.dilation_w,
        pad_top=workload.pad_top,
        pad_left=0 if folded else workload.pad_left,
        row_step=workload.stride_h if workload.kernel_h == 1 else 1,
        taps=workload.kernel_h * kernel_w,
        residual=workload.residual,
        inp_depth=hw.inp_depth,
        wgt_depth=hw.wgt_depth,
        acc_depth=hw.acc_depth,
        out_depth=hw.out_depth,
        res_depth=hw.res_depth,
        param_depth=hw.param_depth,
        uop_depth=hw.uop_depth,
        acc_banks=hw.acc_banks,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """One tile along one image axis."""

    out: int  # first output position
    count: int  # output positions
    loaded: int  # input positions in the scratchpad, padding included
    pad_low: int  # how many of them are padding before
    pad_high: int  # and after
    source: int  # stored position of the first one that is not padding
    size: int  # positions read from DRAM; loaded - pad_low - pad_high


@dataclass(frozen=True, kw_only=True, slots=True)
class Spans:
    """All tiles along one image axis.

    Attributes:
        count, loaded: output and input positions of a full tile.
    """

    tiles: tuple[Span, ...]  # in order; only the last can be smaller
    counts: tuple[int, ...]  # distinct output counts, the full tile first
    count: int
    loaded: int
    max_pad: int  # largest padding of any tile on one side
    max_size: int  # most positions that any tile reads from DRAM
    step: int  # input positions in the scratchpad from one output position to the next


@lru_cache(maxsize=4096)
def spans(
    *,
    extent: int,
    tile: int,
    stored: int,
    stride: int,
    pad: int,
    kernel: int,
    dilation: int,
    row_step: int,
) -> Spans:
    """Cut an axis of `extent` output positions into tiles of `tile`."""
    step = stride // row_step
    reach = (kernel - 1) * dilation + 1
    tiles = []
    for out in range(0, extent, tile):
        count = min(tile, extent - out)
        loaded = (count - 1) * step + reach
        first = out * stride - pad
        low = min(max(-(first // row_step), 0), loaded)  # positions before 0
        end = min(max(-((first - stored) // row_step), 0), loaded)  # positions before `stored`
        tiles.append(
            Span(
                out=out,
                count=count,
                loaded=loaded,
                pad_low=low,
                pad_high=loaded - end,
                source=first + low * row_step,
                size=end - low,
            )
        )
    return Spans(
        tiles=tuple(tiles),
        counts=tuple(dict.fromkeys((tiles[0].count, tiles[-1].count))),
        count=tiles[0].count,
        loaded=tiles[0].loaded,
        max_pad=max(max(t.pad_low, t.pad_high) for t in tiles),
        max_size=max(t.size for t in tiles),
        step=step,
    )


def row_spans(shape: Geometry, tile: int) -> Spans:
    """Tiles over output rows."""
    return spans(
        extent=shape.out_height,
        tile=tile,
        stored=shape.height,
        stride=shape.stride_h,
        pad=shape.pad_top,
        kernel=shape.kernel_h,
        dilation=shape.dilation_h,
        row_step=shape.row_step,
    )


def column_spans(shape: Geometry, tile: int) -> Spans:
    """Tiles over output columns."""
    return spans(
        extent=shape.out_width,
        tile=tile,
        stored=shape.width,
        stride=shape.stride_w,
        pad=shape.pad_left,
        kernel=shape.kernel_w,
        dilation=shape.dilation_w,
        row_step=1,
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """Output blocks of a tile that one GEMM instruction can cover.

    Attributes:
        first, count: output blocks, relative to the tile.
    """

    first: int
    count: int
    inp_block: int  # first input block that they read, relative to the loaded ones


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelTile:
    """One tile of output-channel blocks, and the input blocks that a depthwise one reads."""

    first: int
    count: int
    inp_first: int
    inp_count: int
    runs: tuple[Run, ...]  # how GEMM covers it when it is issued for the whole tile


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelTiles:
    """All tiles of output-channel blocks."""

    tiles: tuple[ChannelTile, ...]  # in order; only the last can be smaller
    kinds: tuple[tuple[int, int], ...]  # distinct (`Run.count`, `inp_count`) pairs
    max_inp_count: int  # most input blocks that a tile reads (depthwise)


@lru_cache(maxsize=4096)
def channel_tiles(
    *, out_blocks: int, tile: int, depthwise: bool, reduce_blocks: int, share: int
) -> ChannelTiles:
    """Cut the output-channel blocks into tiles of `tile` blocks.

    With `share` above 1 several output blocks read one input block, which is not affine in the
    output block: a tile then splits into one run for each input block.
    """
    tiles = []
    for first in range(0, out_blocks, tile):
        count = min(tile, out_blocks - first)
        if not depthwise:
            inp_first = inp_count = 0
            runs: tuple[Run, ...] = (Run(first=0, count=count, inp_block=0),)
        elif share == 1:
            inp_first, inp_count = first * reduce_blocks, count * reduce_blocks
            runs = (Run(first=0, count=count, inp_block=0),)
        else:
            inp_first = first // share
            inp_count = (first + count - 1) // share - inp_first + 1
            runs = tuple(
                Run(first=part, count=blocks, inp_block=(first + part) // share - inp_first)
                for part, blocks in aligned_parts(first, count, share)
            )
        tiles.append(
            ChannelTile(
                first=first, count=count, inp_first=inp_first, inp_count=inp_count, runs=runs
            )
        )
    return ChannelTiles(
        tiles=tuple(tiles),
        kinds=tuple(dict.fromkeys((run.count, t.inp_count) for t in tiles for run in t.runs)),
        max_inp_count=max(t.inp_count for t in tiles),
    )


@lru_cache(maxsize=4096)
def aligned_parts(first: int, count: int, size: int) -> tuple[tuple[int, int], ...]:
    """Cut the range of `count` from `first` at multiples of `size`."""
    edges = [first, *range((first // size + 1) * size, first + count, size), first + count]
    return tuple((low - first, high - low) for low, high in pairwise(edges))


@lru_cache(maxsize=4096)
def stored_parts(blocks: int, interleave: int) -> list[tuple[int, int]]:
    """(first, count) of the output blocks of a tile that lie together: all, or stored blocks."""
    if interleave == 1:
        return [(0, blocks)]
    return [(first, min(interleave, blocks - first)) for first in range(0, blocks, interleave)]


def even_tiles(total: int, tile: int) -> tuple[tuple[int, int], ...]:
    """(first, count) of the tiles of an axis without halo; only the last can be smaller."""
    return tuple((first, min(tile, total - first)) for first in range(0, total, tile))


def halved(extent: int) -> list[int]:
    """Tile sizes that cut an extent into 1, 2, 4, ... parts, largest first."""
    sizes = {blocks_of(extent, 1 << halvings) for halvings in range(extent.bit_length() + 1)}
    return sorted(sizes, reverse=True)


def halved_blocks(hw: HwConfig, channels: int) -> list[int]:
    """Output blocks of tiles that cut channels so, in whole stored blocks, largest first."""
    unit, blocks = interleaved_blocks(hw), blocks_of(channels, hw.block_out)
    return [min(stored * unit, blocks) for stored in halved(blocks_of(blocks, unit))]
