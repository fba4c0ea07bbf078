# SPDX-License-Identifier: Apache-2.0
"""A mapping in the formats of Timeloop and ZigZag.

Both cut a loop into factors, one per level. Timeloop's last tile may be smaller (its *residual*);
every other tile is a product of factors, so a tile that its own tiles do not divide is rounded up.
ZigZag knows whole factors only, and takes a mapping whose factors are the layer's loops: where they
are more, the layer itself must be given with longer loops. Each document tells what was rounded.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Final

from tilewright.tuner.mapping.mapping import Mapping
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest, NestKind


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


TIMELOOP_NAMES: Final = dict(zip(DIMENSIONS, "KCQPSR", strict=True))
"""Loops of Timeloop's ``CNN_Layer``: P and R are columns, Q and S are rows."""

MEMORIES: Final = ("L1", "L2", "DRAM")
"""Behind a step in a file of ZigZag: the memory whose tiles it walks through."""


def zigzag_names(kind: NestKind) -> dict[str, str]:
    """Loops of ZigZag by ours; in a depthwise nest C counts its groups."""
    group = "G" if kind is NestKind.DEPTHWISE else "C"
    return dict(zip(DIMENSIONS, ("K", group, "OY", "OX", "FY", "FX"), strict=True))


@dataclass(frozen=True, kw_only=True)
class Factors:
    """How one loop is cut, outermost first; their product is at least its size."""

    trips2: int  # outer steps
    clusters: int  # clusters that it is spread over
    trips1: int  # inner steps within a cluster's tile
    pes: int  # PEs of a cluster that it is spread over
    tile: int  # iterations of a PE
    rounded_from: int = 0  # the cluster's tile, where it became larger; 0: it did not

    @property
    def all(self) -> tuple[int, int, int, int, int]:
        """The factors, outermost first."""
        return (self.trips2, self.clusters, self.trips1, self.pes, self.tile)

    def residuals(self, size: int) -> tuple[int, ...]:
        """The factors of the last iteration, outermost first: the digits of ``size - 1``, and 1."""
        digits, rest = [], size - 1
        for factor in reversed(self.all):
            digits.append(rest % factor + 1)
            rest //= factor
        return tuple(reversed(digits))


def factors_of(nest: LoopNest, mapping: Mapping) -> dict[str, Factors]:
    """The factors of each loop."""
    found = {}
    for d, size in enumerate(nest.sizes):
        loop, outer, tile = DIMENSIONS[d], mapping.outer.tile[d], mapping.inner.tile[d]
        pes = mapping.cluster_size if loop == mapping.inner.parallel else 1
        pes = min(pes, -(-outer // tile))
        trips1 = -(-outer // (tile * pes))
        whole = tile * pes * trips1
        clusters = mapping.clusters if loop == mapping.outer.parallel else 1
        clusters = min(clusters, -(-size // whole))
        found[loop] = Factors(
            trips2=-(-size // (whole * clusters)),
            clusters=clusters,
            trips1=trips1,
            pes=pes,
            tile=tile,
            rounded_from=outer if whole != outer and outer < size else 0,
        )
    return found


def _comment(nest: LoopNest, factors: dict[str, Factors], tool: str) -> list[str]:
    sizes = ", ".join(f"{d} {size}" for d, size in zip(DIMENSIONS, nest.sizes, strict=True))
    lines = [f"# {tool} mapping of {nest.name!r}: {sizes}"]
    for loop, cut in factors.items():
        if cut.rounded_from:
            whole = cut.trips1 * cut.pes * cut.tile
            lines.append(
                f"# {loop}: a cluster's tile of {cut.rounded_from} is rounded up to {whole}"
            )
    return lines


def timeloop_yaml(nest: LoopNest, mapping: Mapping) -> str:
    """The mapping for Timeloop's ``CNN_Layer``, storage levels DRAM, L2, Cluster and L1.

    ``Cluster`` stores nothing: it stands between L2 and the PEs of a cluster, so that inner loops
    run below the clusters. In a depthwise nest C is the group, and outputs have it, too.
    """
    cut = factors_of(nest, mapping)
    names = TIMELOOP_NAMES
    lines = _comment(nest, cut, "Timeloop")
    if nest.kind is NestKind.DEPTHWISE:
        lines.append("# depthwise: add [C] to the Outputs of the problem's shape")
    lines.append("mapping:")
    plain = "".join(DIMENSIONS)

    def first(loop: str) -> str:
        return loop + plain.replace(loop, "")

    for target, kind, place, order in (
        ("DRAM", "temporal", 0, mapping.outer.order),
        ("L2", "temporal", None, plain),
        ("L2", "spatial", 1, first(mapping.outer.parallel)),
        ("Cluster", "temporal", 2, mapping.inner.order),
        ("Cluster", "spatial", 3, first(mapping.inner.parallel)),
        ("L1", "temporal", 4, plain),
    ):
        factors = []
        for loop, size in zip(DIMENSIONS, nest.sizes, strict=True):
            factor = residual = 1
            if place is not None:
                factor, residual = cut[loop].all[place], cut[loop].residuals(size)[place]
            last = f",{residual}" if residual != factor else ""
            factors.append(f"{names[loop]}={factor}{last}")
        lines += [
            f"- target: {target}",
            f"  type: {kind}",
            f"  factors: {' '.join(factors)} N=1",
            f"  permutation: N{''.join(names[loop] for loop in reversed(order))}",
        ]
    lines += [
        "- target: Cluster",
        "  type: bypass",
        "  keep: []",
        "  bypass: [Weights, Inputs, Outputs]",
    ]
    return "\n".join(lines) + "\n"


def zigzag_yaml(nest: LoopNest, mapping: Mapping) -> str:
    """The mapping for ZigZag (`zigzag-dse` 3.9), with an array of clusters (D1) times PEs (D2).

    ZigZag itself decides which memory holds which loops; comments tell which of ours does. A loop
    whose factors exceed its size must be padded in the layer that ZigZag is given; the first lines
    tell to which sizes.
    """
    cut = factors_of(nest, mapping)
    names = zigzag_names(nest.kind)
    lines = _comment(nest, cut, "ZigZag")
    for loop, size in zip(DIMENSIONS, nest.sizes, strict=True):
        padded = prod(cut[loop].all)
        if padded != size:
            lines.append(f"# {names[loop]}: {size} is padded to {padded}; pad the layer's, too")
    outer, inner = mapping.outer.parallel, mapping.inner.parallel
    temporal = [(loop, cut[loop].tile, "L1") for loop in reversed(DIMENSIONS)]
    temporal += [(loop, cut[loop].trips1, "L2") for loop in reversed(mapping.inner.order)]
    temporal += [(loop, cut[loop].trips2, "DRAM") for loop in reversed(mapping.outer.order)]
    steps = [f"  - [{names[d]}, {factor}]  # {of}" for d, factor, of in temporal if factor > 1]
    lines += [
        "- name: default",
        "  spatial_mapping:",
        "    D1:",
        f"    - {names[outer]}, {cut[outer].clusters}",
        "    D2:",
        f"    - {names[inner]}, {cut[inner].pes}",
        *(["  temporal_ordering:  # innermost first"] if steps else []),
        *steps,
        "  memory_operand_links: {O: O, W: I2, I: I1}",
    ]
    return "\n".join(lines) + "\n"
