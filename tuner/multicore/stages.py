# SPDX-License-Identifier: Apache-2.0
"""The cut of a network into stages, one per core, whose slowest stage is fastest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tilewright.host.common.errors import WorkloadError

Costs = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Cut:
    """Stages of a network.

    Attributes:
        places: ascending numbers of the operators that begin a stage, without 0.
        cores: of the stages, in their order.
        cycles: of the slowest stage.
        moved: bytes that stages hand over.
    """

    places: tuple[int, ...]
    cores: tuple[int, ...]
    cycles: float
    moved: int


def best_cut(costs: Costs, moved: Sequence[int], cores: Sequence[int] | None = None) -> Cut:
    """The cut with the fastest slowest stage; of equals the one that hands over fewest bytes.

    Dynamic programming over (cores that are used, operators that are placed). The first pass finds
    the cycles of the slowest stage, the second the fewest bytes within them, so the result is
    optimal for these costs. A core may be left out.
    """
    count, operators = costs.shape
    sums = np.concatenate([np.zeros((count, 1)), np.cumsum(costs, axis=1)], axis=1)
    if cores is not None and len(cores) > operators:
        raise WorkloadError(
            f"a network of {operators} operators has no more stages than that",
            field="cores",
            value=len(cores),
            remedy="use fewer cores",
        )
    slowest = _pass(sums, moved, cores, limit=np.inf)[0]
    cycles, handed, places, order = _pass(sums, moved, cores, limit=slowest)
    return Cut(places=places, cores=order, cycles=cycles, moved=handed)


def _pass(
    sums: Costs, moved: Sequence[int], fixed: Sequence[int] | None, *, limit: float
) -> tuple[float, int, tuple[int, ...], tuple[int, ...]]:
    """One pass: with an infinite limit the least slowest stage, else the fewest bytes within it."""
    count, operators = sums.shape[0], sums.shape[1] - 1
    by_bytes = np.isfinite(limit)
    # state: (cores used, operators placed) -> (value, other value, places, order)
    states: dict[int, list[tuple[float, float, tuple[int, ...], tuple[int, ...]] | None]] = {
        0: [(0.0, 0.0, (), ())] + [None] * operators
    }
    best: tuple[float, float, tuple[int, ...], tuple[int, ...]] | None = None
    depth = count if fixed is None else len(fixed)
    for stage in range(depth):
        following: dict[
            int, list[tuple[float, float, tuple[int, ...], tuple[int, ...]] | None]
        ] = {}
        for used, row in states.items():
            tried: list[bytes] = []
            for core in range(count) if fixed is None else (fixed[stage],):
                alike = sums[core].tobytes()  # equal cores are tried once
                if used >> core & 1 or alike in tried:
                    continue
                tried.append(alike)
                target = following.setdefault(used | 1 << core, [None] * (operators + 1))
                for start, state in enumerate(row):
                    if state is None or (stage and not start):
                        continue
                    for end in range(start + 1, operators + 1):
                        cycles = float(sums[core, end] - sums[core, start])
                        if by_bytes and cycles > limit:
                            break
                        handed = float(moved[start]) if start else 0.0
                        value = state[0] + handed if by_bytes else max(state[0], cycles)
                        other = max(state[1], cycles) if by_bytes else state[1] + handed
                        known = target[end]
                        if known is None or (value, other) < known[:2]:
                            places = (*state[2], start) if start else ()
                            target[end] = (value, other, places, (*state[3], core))
        states = following
        if fixed is not None and stage < depth - 1:
            continue
        for row in states.values():
            if row[operators] is not None and (best is None or row[operators][:2] < best[:2]):
                best = row[operators]
    assert best is not None
    value, other, places, order = best
    cycles, handed = (other, value) if by_bytes else (value, other)
    return cycles, round(handed), places, order
