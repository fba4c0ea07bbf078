# SPDX-License-Identifier: Apache-2.0
"""Random contents for random programs: micro-ops, parameters, places to work at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from tilewright.host.machine.hwconfig import PARAM_BYTES_PER_CHANNEL, UOP_BYTES, HwConfig
from tilewright.host.machine.isa import MAX_SHIFT, PARAM_FIELDS, Memory, encode_uop, pack_fields
from tilewright.sim.reference.footprint import Index

UOP_POOL: Final = 192
"""Micro-ops in DRAM."""

PARAM_POOL: Final = 12
"""Random PARAM tiles in DRAM."""

PROBE_SHIFTS: Final = (6, 14, 24)
"""Shifts with which ACC is made visible at the end."""

DRAM_LINE: Final = 64
"""Granularity, in bytes, at which DRAM accesses are ordered."""

_Rng = np.random.Generator
T = TypeVar("T")


def pick(rng: _Rng, values: Sequence[T]) -> T:
    """One of some values: what `Generator.choice` draws, in a fifth of its time."""
    return values[int(rng.integers(len(values)))]


def anchors(rng: _Rng, depth: int) -> list[int]:
    """Tiles around which a program works: the ends, a quarter boundary, a random place."""
    quarter = depth // 4 * int(rng.integers(1, 4))
    chosen = {0, depth - 1, quarter, int(rng.integers(depth))}
    return sorted(rng.permutation(sorted(chosen))[:3].tolist())


def lines(dram: Index, nbytes: int) -> Index:
    """DRAM lines of `DRAM_LINE` bytes that tiles at these offsets touch."""
    inside = np.append(np.arange(0, nbytes, DRAM_LINE), nbytes - 1)
    return np.array(sorted(set(((dram[:, None] + inside) // DRAM_LINE).ravel().tolist())), np.int64)


def runs(tiles: list[int], *, limit: int) -> list[tuple[int, int]]:
    """Runs (first, count) of consecutive numbers, none longer than ``limit``."""
    runs: list[tuple[int, int]] = []
    for tile in tiles:
        if runs and tile == sum(runs[-1]) and runs[-1][1] < limit:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((tile, 1))
    return runs


def random_uops(
    hw: HwConfig, rng: _Rng, anchors: Mapping[Memory, list[int]]
) -> npt.NDArray[np.uint8]:
    """The micro-op pool, shape ``(UOP_POOL, 8)``: kernels of like offsets, accumulators reused."""
    depths = {Memory.INP: hw.inp_depth, Memory.WGT: hw.wgt_depth, Memory.ACC: hw.acc_depth}
    words: list[int] = []
    while len(words) < UOP_POOL:
        base = dict.fromkeys(depths, 0)
        for memory in depths:
            if rng.random() < 0.3:
                base[memory] = pick(rng, anchors[memory]) // 2
        spread = pick(rng, (1, 2, 6))
        chance = pick(rng, (0.0, 0.3, 1.0))
        for _ in range(int(rng.integers(4, 17))):
            tile = {m: min(b + int(rng.integers(spread)), depths[m] - 1) for m, b in base.items()}
            words.append(
                encode_uop(
                    inp=tile[Memory.INP],
                    wgt=tile[Memory.WGT],
                    acc=tile[Memory.ACC],
                    first=bool(rng.random() < chance),
                )
            )
    pool = np.array(words[:UOP_POOL], dtype="<u8")
    return pool.view(np.uint8).reshape(UOP_POOL, UOP_BYTES)


def random_params(hw: HwConfig, rng: _Rng) -> bytes:
    """PARAM tiles over the full legal ranges.

    Half of the channels have a shift that fits an accumulator of random magnitude: with shifts
    at random most results would be clipped or zero.
    """
    entries: list[dict[str, int]] = []
    for _ in range(PARAM_POOL * hw.block_out):
        magnitude = int(rng.integers(6, 32))
        fits = rng.random() < 0.5
        bias = 2 ** (magnitude - 1) if fits else 2**31
        m1 = int(rng.integers(-(2**15), 2**15))
        shift = magnitude + abs(m1).bit_length() - 7
        entries.append(
            {
                "bias": int(rng.integers(-bias, bias)),
                "m1": m1,
                "m2": int(rng.integers(-(2**15), 2**15)),
                "shift": min(max(shift, 0), MAX_SHIFT)
                if fits
                else int(rng.integers(MAX_SHIFT + 1)),
                "zero_point": int(rng.integers(-128, 128)),
            }
        )
    return b"".join(_entry(entry) for entry in entries)


def shift_params(hw: HwConfig, shift: int) -> bytes:
    """A PARAM tile that shows an accumulator divided by ``2^shift``."""
    return _entry({"m1": 1, "shift": shift}) * hw.block_out


def exact_params(rng: _Rng, acc: npt.NDArray[np.int32]) -> bytes:
    """A PARAM tile that shows every bit of an ACC tile of known value, shape (batch, block_out).

    The bias moves the expected value into int8, so that one that is off by any amount gives another
    result.
    """
    row = acc[int(rng.integers(acc.shape[0]))].astype(np.int64)
    bias = np.clip(rng.integers(-100, 101, row.size) - row, -(2**31), 2**31 - 1)
    return b"".join(_entry({"bias": value, "m1": 1}) for value in bias.tolist())


def _entry(values: Mapping[str, int]) -> bytes:
    return pack_fields(PARAM_FIELDS, values).to_bytes(PARAM_BYTES_PER_CHANNEL, "little")


def random_tensor(rng: _Rng, nbytes: int) -> npt.NDArray[np.uint8]:
    """Random bytes; the last quarter are int32 of random magnitude, for ACC."""
    data = rng.integers(0, 256, nbytes, dtype=np.uint8)
    words = rng.integers(-(2**31), 2**31, nbytes // 16)
    scaled = (words >> rng.integers(0, 31, words.size)).astype("<i4").view(np.uint8)
    data[data.size - scaled.size :] = scaled
    return data
