# SPDX-License-Identifier: Apache-2.0
"""Weight tiles of 4 bits as DRAM holds them, and how LOAD unpacks them (`host.machine.isa`).

Plain (``int4_weights`` 1), a tile takes half its bytes. With scales (``int4_weights`` 2), as many
weights as a beat holds are a *group*. A beat of scales, 4 bits each, lies before the groups that it
is for: as many as it has scales, or the tile's.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError
from tilewright.host.machine.hwconfig import HwConfig

Bytes = npt.NDArray[np.uint8]
Int8Array = npt.NDArray[np.int8]

LOWEST: Final = -8
HIGHEST: Final = 7
LARGEST_SCALE: Final = 16
"""Scales are whole numbers from 1. The largest one takes -8 to -128, the least int8."""


def has_scales(hw: HwConfig) -> bool:
    """Whether groups of 4-bit weights have scales."""
    return hw.int4_weights > 1


def group_shape(hw: HwConfig) -> tuple[int, int]:
    """Output and input channels of a group: at one place of the kernel, within one tile."""
    inputs = min(2 * hw.axi_bytes, hw.block_in)
    return 2 * hw.axi_bytes // inputs, inputs


def are_packable(tiles: Bytes, hw: HwConfig) -> bool:
    """Whether 4 bits hold all weights of whole tiles, times the scales of groups if there are any.

    Args:
        tiles: uint8, flat, int8 numbers in two's complement.
        hw: the configuration.
    """
    if not has_scales(hw):
        return bool(_in_range(tiles.view(np.int8)).all())
    return bool(scales_of(_groups(tiles, hw)).all())


def pack_int4(tiles: Bytes, hw: HwConfig, field: str = "weights") -> Bytes:
    """Weight tiles as a LOAD with ``int4`` reads them, flat bytes.

    Args:
        tiles: uint8, flat, int8 numbers in two's complement, whole tiles.
        hw: the configuration.
        field: what an error names.
    """
    numbers = tiles.view(np.int8)
    if not has_scales(hw):
        if not _in_range(numbers).all():
            raise WorkloadError(
                "must be from -8 to 7 where weights have 4 bits",
                field=field,
                value=(int(numbers.min()), int(numbers.max())),
                remedy="quantise them to 4 bits, or set weight_bits to 8",
            )
        return _nibbles(tiles)
    groups = _groups(tiles, hw)
    scales = scales_of(groups)
    if not scales.all():
        wrong = groups[int(np.argmin(scales))]
        raise WorkloadError(
            "must be 4-bit numbers times a scale from 1 to 16 in each group of weights",
            field=field,
            value=wrong.tolist(),
            remedy="quantise them to 4 bits for this configuration, or set weight_bits to 8",
        )
    data = _nibbles((groups // scales[:, None]).astype(np.int8).view(np.uint8).ravel())
    chunks, beats = _chunks(hw), _chunk_beats(hw)
    heads = np.zeros((tiles.size // hw.wgt_tile_bytes * chunks, 2 * hw.axi_bytes), np.uint8)
    heads[:, :beats] = (scales - 1).reshape(-1, beats)
    rows = data.reshape(-1, beats * hw.axi_bytes)
    return np.hstack([_nibbles(heads.ravel()).reshape(len(rows), -1), rows]).ravel()


def unpack_int4(stored: Bytes, hw: HwConfig) -> Bytes:
    """What LOAD makes of 4-bit tiles, along the last axis: int8 numbers, as bytes.

    Args:
        stored: uint8, (..., `HwConfig.int4_tile_bytes`).
        hw: the configuration.

    Returns:
        uint8, (..., bytes of a WGT tile).
    """
    if not has_scales(hw):
        return _signed(stored).view(np.uint8)
    chunks, beats, width = _chunks(hw), _chunk_beats(hw), hw.axi_bytes
    parts = stored.reshape(*stored.shape[:-1], chunks, beats + 1, width)
    heads, rows = parts[..., 0, :], parts[..., 1:, :]
    scales = np.stack([heads & 0xF, heads >> 4], axis=-1).reshape(*heads.shape[:-1], 2 * width) + 1
    numbers = (_signed(rows).astype(np.int16) * scales[..., :beats, None]).astype(np.int8)
    tiles: Bytes = numbers.view(np.uint8).reshape(*stored.shape[:-1], hw.wgt_tile_bytes)
    return tiles


def scales_of(groups: Int8Array) -> npt.NDArray[np.int16]:
    """The least scale of each group of weights (groups, weights), 0 where there is none."""
    wide = groups.astype(np.int16)
    low, high = wide.min(axis=1), wide.max(axis=1)
    divisor = np.gcd.reduce(wide, axis=1)
    found = np.zeros(len(groups), np.int16)
    for scale in range(LARGEST_SCALE, 0, -1):
        holds = (low >= LOWEST * scale) & (high <= HIGHEST * scale) & (divisor % scale == 0)
        found[holds] = scale
    return found


def _groups(tiles: Bytes, hw: HwConfig) -> Int8Array:
    return tiles.view(np.int8).reshape(-1, 2 * hw.axi_bytes)


def _chunk_beats(hw: HwConfig) -> int:
    """Beats of weights behind a beat of scales."""
    return min(hw.wgt_tile_bytes // 2 // hw.axi_bytes, 2 * hw.axi_bytes)


def _chunks(hw: HwConfig) -> int:
    """Beats of scales in a tile."""
    return hw.wgt_tile_bytes // 2 // hw.axi_bytes // _chunk_beats(hw)


def _in_range(numbers: Int8Array) -> npt.NDArray[np.bool_]:
    return (numbers >= LOWEST) & (numbers <= HIGHEST)


def _nibbles(numbers: Bytes) -> Bytes:
    """Two 4-bit numbers in a byte, the lower half the first one."""
    return ((numbers[0::2] & 0xF) | (numbers[1::2] << 4)).astype(np.uint8)


def _signed(stored: Bytes) -> Int8Array:
    """Inverse of `_nibbles` along the last axis, for signed numbers."""
    pairs = np.stack([stored << 4, stored & 0xF0], axis=-1).view(np.int8) >> 4
    return pairs.reshape(*stored.shape[:-1], 2 * stored.shape[-1])
