# SPDX-License-Identifier: Apache-2.0
"""Random contents for random programs: micro-ops, parameters, places to work at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

from tilewright.host.hwconfig import PARAM_BYTES_PER_CHANNEL, UOP_BYTES, HwConfig
from tilewright.host.isa import MAX_SHIFT, PARAM_FIELDS, Memory, encode_uop, pack_fields
from tilewright.sim.footprint import Index

UOP_POOL: Final = 192
"""Micro-ops in DRAM."""

PARAM_POOL: Final = 12
"""Random PARAM tiles in DRAM; the probes follow."""

PROBE_SHIFTS: Final = (0, 6, 12, 20)
"""Shifts with which ACC is made visible at the end."""

DRAM_LINE: Final = 64
"""Granularity, in bytes, at which DRAM accesses are ordered."""

_Rng = np.random.Generator


def anchors(rng: _Rng, depth: int) -> list[int]:
    """Tiles around which a program works: the ends, a quarter boundary, a random place."""
    quarter = depth // 4 * int(rng.integers(1, 4))
    chosen = {0, depth - 1, quarter, int(rng.integers(depth))}
    return sorted(rng.permutation(sorted(chosen))[:3].tolist())


def lines(dram: Index, nbytes: int) -> Index:
    """DRAM lines of `DRAM_LINE` bytes that tiles at these offsets touch."""
    inside = np.append(np.arange(0, nbytes, DRAM_LINE), nbytes - 1)
    lines: Index = np.unique((dram[:, None] + inside) // DRAM_LINE)
    return lines


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
                base[memory] = int(rng.choice(anchors[memory])) // 2
        spread = int(rng.choice([1, 2, 6]))
        chance = float(rng.choice([0.0, 0.3, 1.0]))
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
    """PARAM tiles over the full legal ranges, then one probe tile a shift of `PROBE_SHIFTS`."""
    entries: list[dict[str, int]] = []
    for _ in range(PARAM_POOL * hw.block_out):
        wide = rng.random() < 0.5
        bias = 2**31 if wide else 2**12
        entries.append(
            {
                "bias": int(rng.integers(-bias, bias)),
                "m1": int(rng.integers(-(2**15), 2**15)),
                "m2": int(rng.integers(-(2**15), 2**15)),
                "shift": int(rng.integers(MAX_SHIFT + 1)),
                "zero_point": int(rng.integers(-128, 128)),
            }
        )
    for shift in PROBE_SHIFTS:
        entries += [{"m1": 1, "shift": shift}] * hw.block_out
    return b"".join(
        pack_fields(PARAM_FIELDS, entry).to_bytes(PARAM_BYTES_PER_CHANNEL, "little")
        for entry in entries
    )
