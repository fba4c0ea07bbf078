# SPDX-License-Identifier: Apache-2.0
"""DRAM layouts: activations, weights and requantisation parameters as packed tiles.

Every tile is contiguous; the blocks that pad channels or batch are zero. A padded output
channel has zero multipliers and bias, so it yields its clipped zero point and is dropped again.

Activations lie in *stored blocks* of channels, contiguous at each pixel. With a batch of 1 a stored
block is the larger one of block_in and block_out, for inputs, residuals and outputs alike, so that
a layer reads what another one wrote. Where it is larger than the array's block, that many blocks
are *interleaved*. A padded channel that nothing wrote may hold anything: its weights are zero.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.machine.hwconfig import PARAM_BYTES_PER_CHANNEL, HwConfig
from tilewright.host.machine.isa import TABLE_ENTRIES, TABLE_ROW_ENTRIES
from tilewright.host.network.requant import RequantParams
from tilewright.host.network.workload import Kind, Workload

Bytes = npt.NDArray[np.uint8]
Int8Array = npt.NDArray[np.int8]

_BLOCKS: Final = tuple(1 << power for power in range(2, 7))
"""Every `HwConfig.block_in`."""

_PARAM_DTYPE: Final = np.dtype(
    {
        "names": ["bias", "m1", "m2", "shift", "zero_point"],
        "formats": ["<i4", "<i2", "<i2", "u1", "i1"],
        "offsets": [0, 4, 6, 8, 9],
        "itemsize": PARAM_BYTES_PER_CHANNEL,
    }
)
"""One channel of a PARAM tile: `host.machine.isa.PARAM_FIELDS` at byte boundaries."""


class Spread(NamedTuple):
    """An output that fills every so many pixels of a larger one in DRAM.

    Attributes:
        first_row, first_column: where its first pixel lies.
        row_step, column_step: from one of its pixels to the next.
        height, width: of the larger output.
    """

    first_row: int
    first_column: int
    row_step: int
    column_step: int
    height: int
    width: int

    @classmethod
    def of_rows(cls, first: int, height: int, width: int = 1) -> Spread:
        """Whole rows of an output, from one on."""
        return cls(first, 0, row_step=1, column_step=1, height=height, width=width)

    def pixels(self, array: Any, rows: int, columns: int) -> Any:
        """The pixels of an array (..., height, width) that so many rows and columns fill."""
        every = array[..., self.first_row :: self.row_step, self.first_column :: self.column_step]
        return every[..., :rows, :columns]


class TokenPacking(NamedTuple):
    """Several tokens at each pixel, so that a tensor lies as weights do that have its tokens' sums.

    A pixel's channels are ``[blocks of channels][tokens][channels of a block]``.
    """

    tokens: int  # of a pixel
    channels: int  # of a block

    def place(self, channel: Any, token: int) -> Any:
        """Which channel of a pixel some channel of its n-th token is."""
        block, within = divmod(channel, self.channels)
        return (block * self.tokens + token) * self.channels + within

    def unpacked(self, array: Int8Array) -> Int8Array:
        """Channels and tokens of a packed tensor (1, channels of pixels, pixels, 1)."""
        parts = array.reshape(-1, self.tokens, self.channels, array.shape[2])
        blocks, tokens, channels, pixels = parts.shape
        return parts.transpose(0, 2, 3, 1).reshape(blocks * channels, pixels * tokens)


def blocks_of(count: int, block: int) -> int:
    """Blocks that cover a count."""
    return -(-count // block)


def input_block(hw: HwConfig) -> int:
    """Channels of a stored block of an input."""
    return max(hw.block_in, hw.block_out) if hw.batch == 1 else hw.block_in


def output_block(hw: HwConfig) -> int:
    """Channels of a stored block of an output or a residual."""
    return max(hw.block_in, hw.block_out) if hw.batch == 1 else hw.block_out


def folds(hw: HwConfig, workload: Workload) -> bool:
    """Whether the host unrolls kernel columns into channels, which saves tile products.

    Where another layer writes the input and layers chain, nobody can.
    """
    return not (workload.chained and chains(hw)) and _gains(workload, hw.block_in)


def _gains(workload: Workload, block_in: int) -> bool:
    """Whether a block of input channels is not filled and several kernel columns share one."""
    return (
        workload.kind is Kind.CONV2D
        and workload.channels_in < block_in
        and blocks_of(workload.kernel_w * workload.channels_in, block_in) < workload.kernel_w
    )


def behind_a_layer(workload: Workload) -> Workload:
    """The workload whose input another layer writes; the same where no array would fold it."""
    return replace(workload, chained=any(_gains(workload, block) for block in _BLOCKS))


def interleaved_blocks(hw: HwConfig) -> int:
    """Blocks of the array in a stored block of an output or a residual."""
    return output_block(hw) // hw.block_out


def chains(hw: HwConfig) -> bool:
    """Whether a layer's output lies in DRAM as the next layer's input does.

    False only for a batch above 1 with block_in != block_out. A layer that folds its kernel columns
    (`fold_activations`) reads an input of its own either way.
    """
    return input_block(hw) == output_block(hw)


def pack_activations(
    data: Int8Array, *, batch: int, block: int, channel_blocks: int | None = None
) -> Bytes:
    """NCHW to tiles ``[N/batch][C/block][H][W][batch][block]``, flat bytes.

    Args:
        data: int8, (N, C, H, W).
        batch: rows of a tile.
        block: channels of a tile.
        channel_blocks: total channel blocks, if more than the channels need.
    """
    if data.ndim != 4:
        raise WorkloadError(
            "must be NCHW",
            field="data",
            value=data.shape,
            remedy="add axes of size 1, such as data[..., None, None]",
        )
    n, channels, height, width = data.shape
    rows, blocks = blocks_of(n, batch), blocks_of(channels, block)
    if channel_blocks is not None:
        if channel_blocks < blocks:
            raise WorkloadError(
                f"must be at least {blocks}",
                field="channel_blocks",
                value=channel_blocks,
                remedy="give more blocks, or None for as many as the data need",
            )
        blocks = channel_blocks
    padded = np.zeros((rows * batch, blocks * block, height, width), dtype=np.int8)
    padded[:n, :channels] = data
    tiles = padded.reshape(rows, batch, blocks, block, height, width)
    return np.ascontiguousarray(tiles.transpose(0, 2, 4, 5, 1, 3)).view(np.uint8).ravel()


def unpack_activations(
    packed: Bytes, shape: tuple[int, int, int, int], *, batch: int, block: int
) -> Int8Array:
    """Inverse of `pack_activations` for a tensor of an NCHW shape; padding is dropped."""
    n, channels, height, width = shape
    rows, blocks = blocks_of(n, batch), blocks_of(channels, block)
    size = rows * blocks * height * width * batch * block
    if packed.size < size:
        raise WorkloadError(
            f"must hold at least {size} bytes for the shape {shape}",
            field="packed",
            value=int(packed.size),
            remedy="read the whole region of the tensor, or give the shape that was packed",
        )
    tiles = packed[:size].view(np.int8).reshape(rows, blocks, height, width, batch, block)
    plain = tiles.transpose(0, 4, 1, 5, 2, 3).reshape(rows * batch, blocks * block, height, width)
    return np.ascontiguousarray(plain[:n, :channels])


def pack_weights(weights: Int8Array, *, block_in: int, block_out: int) -> Bytes:
    """OIHW to tiles ``[O/block_out][I/block_in][KH][KW][block_out][block_in]``, flat bytes."""
    if weights.ndim != 4:
        raise WorkloadError(
            "must be OIHW",
            field="weights",
            value=weights.shape,
            remedy="reshape the weights; a linear layer has H = W = 1",
        )
    outputs, inputs, kernel_h, kernel_w = weights.shape
    rows, columns = blocks_of(outputs, block_out), blocks_of(inputs, block_in)
    padded = np.zeros((rows * block_out, columns * block_in, kernel_h, kernel_w), dtype=np.int8)
    padded[:outputs, :inputs] = weights
    tiles = padded.reshape(rows, block_out, columns, block_in, kernel_h, kernel_w)
    return np.ascontiguousarray(tiles.transpose(0, 2, 4, 5, 1, 3)).view(np.uint8).ravel()


def diagonal_bytes(*, block_in: int, block_out: int) -> int:
    """Bytes of a weight tile's diagonal, the only ones that a depthwise layer uses."""
    return min(block_in, block_out)


def pack_depthwise_weights(weights: Int8Array, *, block_in: int, block_out: int) -> Bytes:
    """Depthwise (C, 1, KH, KW) to the diagonals of weight tiles, flat bytes.

    The order is ``[C/block_out][R][KH][KW][min(block_in, block_out)]``. R is the number of input
    blocks that an output block covers: ``block_out / block_in``, or 1 when the input block is
    the larger one. A diagonal LOAD puts each where its channels meet themselves
    (`host.machine.isa`).
    """
    if weights.ndim != 4 or weights.shape[1] != 1:
        raise WorkloadError(
            "must be (C, 1, KH, KW)",
            field="weights",
            value=weights.shape,
            remedy="reshape the weights: one kernel per channel",
        )
    channels, _, kernel_h, kernel_w = weights.shape
    size = diagonal_bytes(block_in=block_in, block_out=block_out)
    padded = np.zeros(
        (blocks_of(channels, block_out) * block_out, kernel_h, kernel_w), dtype=np.int8
    )
    padded[:channels] = weights[:, 0]
    diagonals = padded.reshape(-1, size, kernel_h, kernel_w).transpose(0, 2, 3, 1)
    return np.ascontiguousarray(diagonals).view(np.uint8).ravel()


def weight_tiles(weights: Int8Array, hw: HwConfig, *, depthwise: bool, folded: bool) -> Bytes:
    """Weights as WGT holds them, of depthwise layers only the diagonals; flat bytes.

    Args:
        weights: int8, (O, I, KH, KW), I = 1 for depthwise.
        hw: the configuration.
        depthwise: only the diagonals of tiles.
        folded: kernel columns as channels.
    """
    weights = fold_weights(weights) if folded else weights
    pack = pack_depthwise_weights if depthwise else pack_weights
    return pack(weights, block_in=hw.block_in, block_out=hw.block_out)


def pack_params(params: RequantParams, *, block_out: int) -> Bytes:
    """Requantisation parameters as PARAM tiles of ``block_out`` 16-byte entries, flat bytes."""
    entries = np.zeros(blocks_of(params.channels, block_out) * block_out, dtype=_PARAM_DTYPE)
    for name in ("bias", "m1", "m2", "shift", "zero_point"):
        entries[name][: params.channels] = getattr(params, name)
    return entries.view(np.uint8).ravel()


def pack_table(table: Int8Array, *, axi_bytes: int) -> Bytes:
    """An activation table as TABLE tiles: a beat with the entries of each row, flat bytes.

    Args:
        table: int8, shape (256,), the entries of -128 to 127.
        axi_bytes: of a beat.
    """
    rows = np.zeros((TABLE_ENTRIES // TABLE_ROW_ENTRIES, axi_bytes), dtype=np.uint8)
    by_byte = np.roll(table.view(np.uint8), TABLE_ENTRIES // 2)  # entry q mod 256
    rows[:, :TABLE_ROW_ENTRIES] = by_byte.reshape(-1, TABLE_ROW_ENTRIES)
    return rows.ravel()


def fold_activations(
    data: Int8Array, *, kernel_w: int, stride_w: int, dilation_w: int, pad_left: int, out_width: int
) -> Int8Array:
    """Unroll kernel columns into channels: (N, C, H, W) to (N, kernel_w * C, H, out_width).

    Channel ``j * C + c`` of the result holds the pixels that kernel column j sees.
    """
    n, channels, height, width = data.shape
    folded = np.zeros((n, kernel_w, channels, height, out_width), dtype=np.int8)
    source = np.arange(out_width) * stride_w - pad_left
    for j in range(kernel_w):
        column = source + j * dilation_w
        inside = (column >= 0) & (column < width)
        folded[:, j, :, :, inside] = np.moveaxis(data[:, :, :, column[inside]], 3, 0)
    return folded.reshape(n, kernel_w * channels, height, out_width)


def fold_weights(weights: Int8Array) -> Int8Array:
    """The weights that match `fold_activations`: (O, I, KH, KW) to (O, KW * I, KH, 1)."""
    outputs, inputs, kernel_h, kernel_w = weights.shape
    moved = weights.transpose(0, 3, 1, 2)
    return np.ascontiguousarray(moved).reshape(outputs, kernel_w * inputs, kernel_h, 1)
