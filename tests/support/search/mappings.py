# SPDX-License-Identifier: Apache-2.0
"""Loop nests, mappings and architectures to test with, drawn by hypothesis or by a generator."""

import math

import numpy as np
from hypothesis import strategies as st

from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.mapping.mapping import Batch, Level, Mapping
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest, NestKind

PRICED = Architecture(
    name="priced",
    pes=1 << 20,
    noc_bytes_per_cycle=3,
    dram_bytes_per_cycle=0.5,
    weight_bytes=1,
    input_bytes=2,
    output_bytes=3,
    partial_bytes=5,
    pass_cycles=4,
    mac_energy=1,
    l1_energy=3,
    l2_energy=17,
    noc_energy=7,
    dram_energy=211,
    pe_area=1,
    l1_area=0.25,
    l2_area=0.125,
    noc_area=2,
)
"""No two prices are equal, and buffers are as large as needed."""


@st.composite
def nests(draw: st.DrawFn, most: int = 6, most_kernel: int = 4) -> LoopNest:
    """Small nests of every kind: dense, strided, depthwise, strides above the kernel, too."""
    kind = draw(st.sampled_from(NestKind))
    loops = [draw(st.integers(1, most)) for _ in range(4)]
    kernel = [draw(st.integers(1, most_kernel)) for _ in range(2)]
    if kind is NestKind.DEPTHWISE:
        loops[0] = min(loops[0], 2)
    k, c, y, x = loops
    return LoopNest(
        name="drawn",
        kind=kind,
        sizes=(k, c, y, x, kernel[0], kernel[1]),
        stride_y=draw(st.integers(1, 3)),
        stride_x=draw(st.integers(1, 3)),
    )


@st.composite
def levels(draw: st.DrawFn, within: tuple[int, ...], *, even: bool) -> Level:
    """A level whose tiles are at most ``within``; ``even``: they divide it."""
    tiles = [
        draw(st.sampled_from([t for t in range(1, size + 1) if not even or size % t == 0]))
        for size in within
    ]
    k, c, y, x, r, s = tiles
    return Level(
        tile=(k, c, y, x, r, s),
        order="".join(draw(st.permutations(DIMENSIONS))),
        parallel=draw(st.sampled_from(DIMENSIONS)),
    )


@st.composite
def cases(draw: st.DrawFn, *, even: bool = False) -> tuple[LoopNest, Mapping]:
    """A nest and a mapping of it; ``even``: tiles and what works on them divide what they cut."""
    nest = draw(nests())
    outer = draw(levels(nest.sizes, even=even))
    inner = draw(levels(outer.tile, even=even))
    wide = []
    for extents, level in ((nest.sizes, outer), (outer.tile, inner)):
        at = DIMENSIONS.index(level.parallel)
        tiles = math.ceil(extents[at] / level.tile[at])
        fair = [w for w in range(1, 6) if not even or tiles % w == 0 or w >= tiles]
        wide.append(draw(st.sampled_from(fair)))
    return nest, Mapping(outer=outer, inner=inner, clusters=wide[0], cluster_size=wide[1])


def random_batch(nest: LoopNest, n: int, pes: int, rng: np.random.Generator) -> Batch:
    """Random legal rows for buffers that have no limit, shape ``[n, len(COLUMNS)]``."""
    sizes = np.array(nest.sizes)
    loops = len(DIMENSIONS)
    # Small and large tiles alike: an exponent is drawn evenly.
    outer = np.ceil(sizes ** rng.random((n, loops))).astype(np.int64)
    inner = np.ceil(outer ** rng.random((n, loops))).astype(np.int64)
    orders = [rng.permuted(np.tile(np.arange(loops), (n, 1)), axis=1) for _ in range(2)]
    parallel = rng.integers(0, loops, (n, 2))
    clusters = np.floor(np.exp(rng.random(n) * np.log(pes))).astype(np.int64)
    size = np.floor(np.exp(rng.random(n) * np.log(np.maximum(1, pes // clusters)))).astype(int)
    return np.hstack([outer, inner, *orders, parallel, clusters[:, None], size[:, None]]).astype(
        np.int32
    )


def systolic_mapping(flow: str, nest: LoopNest, rows: int, columns: int) -> Mapping:
    """A GEMM (loops K, C and X) on an array that keeps its outputs, weights or inputs.

    One loop lies across the rows, one along the columns; the third one streams: a PE tile has all
    of it.
    """
    across, along = {"os": "XK", "ws": "CK", "is": "CX"}[flow]
    size = dict(zip(DIMENSIONS, nest.sizes, strict=True))
    outer = {**size, across: 1, along: min(columns, size[along])}
    inner = {**outer, along: 1}
    return Mapping(
        outer=Level(tile=tuple(outer[d] for d in DIMENSIONS), order="KCYXRS", parallel=across),
        inner=Level(tile=tuple(inner[d] for d in DIMENSIONS), order="KCYXRS", parallel=along),
        clusters=rows,
        cluster_size=columns,
    )
