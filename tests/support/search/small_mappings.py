# SPDX-License-Identifier: Apache-2.0
"""Small nests and architectures of every kind, and all of their mappings."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
from support.search.mappings import PRICED

from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.mapping import COLUMNS, Batch
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest, NestKind

MOST_ROWS = 200_000


def drawn_nest(rng: np.random.Generator) -> LoopNest:
    """A nest of at most 3,000 tilings, of every kind."""
    depthwise = bool(rng.integers(2))
    while True:
        sizes = rng.integers(1, 8, 6)
        sizes[4:] = rng.integers(1, 4, 2)
        if rng.random() < 0.4:  # rows and columns alike: the mapper searches half of them
            sizes[3], sizes[5] = sizes[2], sizes[4]
        if np.prod(sizes * (sizes + 1) // 2) <= 3000:
            break
    stride = int(rng.integers(1, 4))
    k, c, y, x, r, s = (int(v) for v in sizes)
    return LoopNest(
        name="drawn",
        kind=NestKind.DEPTHWISE if depthwise else NestKind.CONV,
        sizes=(k, c, y, x, r, s),
        stride_y=stride,
        stride_x=stride if rng.random() < 0.5 else int(rng.integers(1, 4)),
    )


def drawn_architecture(rng: np.random.Generator) -> Architecture:
    """Any prices; buffers without a limit, or such that they matter."""

    def some(*values: float) -> float:
        return float(rng.choice(values))

    def loops() -> str:
        chosen = [d for d in DIMENSIONS if rng.random() < 0.5]
        return "".join(chosen) or str(rng.choice(list(DIMENSIONS)))

    drawn: Architecture = replace(
        PRICED,
        pes=int(rng.integers(1, 13)),
        max_clusters=int(rng.integers(0, 4)),
        max_cluster_size=int(rng.integers(0, 4)),
        l1_bytes=int(some(0, 16, 40, 100)),
        l2_bytes=int(some(0, 24, 80, 300)),
        noc_bytes_per_cycle=some(0.5, 3, 64),
        dram_bytes_per_cycle=some(0.3, 2, 16),
        input_bytes=some(1, 2),
        output_bytes=some(1, 2),
        partial_bytes=some(2, 4),
        buffers=int(rng.integers(1, 3)),
        outer_parallel=loops(),
        inner_parallel=loops(),
        pass_cycles=some(0, 0, 5),
        l1_energy=some(0, 1.68),
        l2_energy=some(0, 18.61),
        noc_energy=some(0, 2),
        dram_energy=some(0, 200),
        l1_area=some(0, 0.01),
        l2_area=some(0, 0.01),
    )
    return drawn


def all_mappings(nest: LoopNest, arch: Architecture) -> Batch:
    """Every mapping but for its orders, shape ``[n, len(COLUMNS)]``."""
    tiles = [
        [(outer, inner) for outer in range(1, size + 1) for inner in range(1, outer + 1)]
        for size in nest.sizes
    ]
    tilings = np.array(list(product(*tiles)), dtype=np.int32)
    pes = [
        (clusters, size)
        for clusters in range(1, arch.pes + 1)
        for size in range(1, arch.pes // clusters + 1)
        if clusters <= (arch.max_clusters or arch.pes)
        and size <= (arch.max_cluster_size or arch.pes)
    ]
    spread = np.array(
        [
            (DIMENSIONS.index(outer), DIMENSIONS.index(inner), *shape)
            for outer in arch.outer_parallel
            for inner in arch.inner_parallel
            for shape in pes
        ],
        dtype=np.int32,
    )
    n = len(tilings) * len(spread)
    rows = np.empty((n, len(COLUMNS)), dtype=np.int32)
    rows[:, :6] = np.repeat(tilings[:, :, 0], len(spread), axis=0)
    rows[:, 6:12] = np.repeat(tilings[:, :, 1], len(spread), axis=0)
    rows[:, 12:18] = rows[:, 18:24] = range(6)
    rows[:, 24:] = np.tile(spread, (len(tilings), 1))
    return rows


def small_case(rng: np.random.Generator) -> tuple[LoopNest, Architecture, Batch]:
    """A nest, an architecture and all of their mappings but for the orders."""
    while True:
        nest, arch = drawn_nest(rng), drawn_architecture(rng)
        tilings = math.prod(size * (size + 1) // 2 for size in nest.sizes)
        shapes = sum(arch.pes // clusters for clusters in range(1, arch.pes + 1))
        spread = len(arch.outer_parallel) * len(arch.inner_parallel) * shapes
        if tilings * spread <= MOST_ROWS:
            return nest, arch, all_mappings(nest, arch)
