# SPDX-License-Identifier: Apache-2.0
"""A mapping as the loop nest that it stands for, to read."""

from __future__ import annotations

from tilewright.tuner.mapping.mapping import Mapping
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest


def loop_lines(nest: LoopNest, mapping: Mapping) -> list[str]:
    r"""The loops that make more than one trip, outermost first; one line per loop.

    ``k0`` counts within the layer, ``k1`` within a cluster's tile. A line ends with what the loop
    makes: trips one after another, or tiles at the same time.

    Example:
        >>> from tilewright.tuner.mapping.mapping import Level
        >>> nest = LoopNest(name="fc", sizes=(64, 256, 1, 1, 1, 1))
        >>> outer = Level(tile=(4, 256, 1, 1, 1, 1), order="CKYXRS", parallel="K")
        >>> inner = Level(tile=(4, 8, 1, 1, 1, 1), order="KCYXRS", parallel="C")
        >>> mapping = Mapping(outer=outer, inner=inner, clusters=8, cluster_size=16)
        >>> print("\n".join(loop_lines(nest, mapping)))
        for k0 in 0..64 by 32                             # 2 trips: DRAM -> L2
          parallel k0 by 4                                # 8 clusters
            for c1 in 0..256 by 128                       # 2 trips: L2 -> L1
              parallel c1 by 8                            # 16 PEs of a cluster
                multiply and add a tile of K 4, C 8       # 32 per PE
    """
    lines: list[tuple[str, str]] = []
    extents = nest.sizes
    for at, level, wide, where, unit in (
        (0, mapping.outer, mapping.clusters, "DRAM -> L2", "clusters"),
        (1, mapping.inner, mapping.cluster_size, "L2 -> L1", "PEs of a cluster"),
    ):
        for loop in level.order:
            d = DIMENSIONS.index(loop)
            tiles = -(-extents[d] // level.tile[d])
            spread = min(wide, tiles) if loop == level.parallel else 1
            step, trips = spread * level.tile[d], -(-tiles // spread)
            if trips > 1:
                text = f"for {loop.lower()}{at} in 0..{extents[d]} by {step}"
                lines.append((text, f"{trips} trips: {where}"))
        d = DIMENSIONS.index(level.parallel)
        spread = min(wide, -(-extents[d] // level.tile[d]))
        if spread > 1:
            text = f"parallel {level.parallel.lower()}{at} by {level.tile[d]}"
            lines.append((text, f"{spread} {unit}"))
        extents = level.tile
    macs = 1
    for extent in extents:
        macs *= extent
    named = [f"{d} {e}" for d, e in zip(DIMENSIONS, extents, strict=True) if e > 1]
    lines.append((f"multiply and add a tile of {', '.join(named) or 'one'}", f"{macs:,} per PE"))
    indented = [("  " * depth + text, note) for depth, (text, note) in enumerate(lines)]
    width = max(50, *(len(text) + 2 for text, _ in indented))
    return [f"{text:{width}}# {note}" for text, note in indented]
