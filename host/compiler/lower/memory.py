# SPDX-License-Identifier: Apache-2.0
"""Where activations lie in DRAM: tensors that are never needed together share bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Lifetime:
    """A tensor's bytes and the steps from its first write to its last read, both included."""

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, kw_only=True)
class Arena:
    """A placement of tensors."""

    offsets: Mapping[str, int]  # first byte of each tensor
    nbytes: int  # bytes of the whole arena
    peak: int  # most bytes alive at one step: no placement needs less


def place(lifetimes: Mapping[str, Lifetime], *, alignment: int) -> Arena:
    """Place the largest tensors first, each at the lowest offset that is free while it lives.

    Deterministic; tensors of equal size are placed in the order of their first step, then name.
    """

    def rounded(nbytes: int) -> int:
        return -(-max(nbytes, 1) // alignment) * alignment

    order = sorted(
        lifetimes, key=lambda name: (-lifetimes[name].nbytes, lifetimes[name].first, name)
    )
    offsets: dict[str, int] = {}
    for name in order:
        life = lifetimes[name]
        taken = sorted(
            (offsets[other], offsets[other] + rounded(lifetimes[other].nbytes))
            for other in offsets
            if lifetimes[other].first <= life.last and life.first <= lifetimes[other].last
        )
        offset = 0
        for begin, end in taken:
            if offset + rounded(life.nbytes) <= begin:
                break
            offset = max(offset, end)
        offsets[name] = offset
    nbytes = max((offsets[n] + rounded(lifetimes[n].nbytes) for n in offsets), default=0)
    steps = {life.first for life in lifetimes.values()}
    peak = max(
        (
            sum(rounded(x.nbytes) for x in lifetimes.values() if x.first <= step <= x.last)
            for step in steps
        ),
        default=0,
    )
    return Arena(offsets=offsets, nbytes=nbytes, peak=peak)
