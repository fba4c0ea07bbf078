# SPDX-License-Identifier: Apache-2.0
"""Placement of activations: nothing alive overlaps, and little is wasted."""

import pytest
from support.randomness import generator, where

from tilewright.host.compiler.lower.memory import Lifetime, place

ALIGNMENT = 64


def draw(rng):
    lifetimes = {}
    for i in range(int(rng.integers(1, 25))):
        first = int(rng.integers(-1, 12))
        lifetimes[f"t{i}"] = Lifetime(
            nbytes=int(rng.integers(1, 5000)), first=first, last=first + int(rng.integers(0, 6))
        )
    return lifetimes


@pytest.mark.parametrize("number", range(50))
def test_tensors_that_live_together_do_not_overlap(number):
    lifetimes = draw(generator(f"arena {number}"))
    arena = place(lifetimes, alignment=ALIGNMENT)
    facts = where(lifetimes=lifetimes, arena=arena)
    for a, one in lifetimes.items():
        assert arena.offsets[a] % ALIGNMENT == 0, facts
        assert arena.offsets[a] + one.nbytes <= arena.nbytes, facts
        for b, other in lifetimes.items():
            if a < b and one.first <= other.last and other.first <= one.last:
                begin, end = arena.offsets[a], arena.offsets[a] + one.nbytes
                assert end <= arena.offsets[b] or begin >= arena.offsets[b] + other.nbytes, facts
    assert arena.peak <= arena.nbytes <= sum(x.nbytes + ALIGNMENT for x in lifetimes.values())


def test_a_chain_needs_two_tensors_at_once():
    lifetimes = {f"t{i}": Lifetime(nbytes=1000, first=i, last=i + 1) for i in range(10)}
    arena = place(lifetimes, alignment=8)
    assert arena.nbytes == arena.peak == 2000


def test_nothing_takes_nothing():
    arena = place({}, alignment=8)
    assert (arena.nbytes, arena.peak) == (0, 0)
