# SPDX-License-Identifier: Apache-2.0
"""Every allocator keeps the contract."""

import pytest

from tilewright.testing.allocator_contract import AllocatorContract
from tilewright.tuner.allocate import ALLOCATORS, make_allocator
from tilewright.tuner.search import TunerError


class TestSequential(AllocatorContract):
    name = "sequential"


class TestRandom(AllocatorContract):
    name = "random"


class TestRoundRobin(AllocatorContract):
    name = "round-robin"


class TestLinear(AllocatorContract):
    name = "linear"


class TestDynamicRandom(AllocatorContract):
    name = "dynamic-random"


class TestDynamicRoundRobin(AllocatorContract):
    name = "dynamic-round-robin"


class TestEpsilonGreedy(AllocatorContract):
    name = "epsilon-greedy"


class TestSoftmax(AllocatorContract):
    name = "softmax"


class TestAnsor(AllocatorContract):
    name = "ansor"


class TestHeadroom(AllocatorContract):
    name = "headroom"


class TestDynaTune(AllocatorContract):
    name = "dynatune"


class TestDynaTuneShare(AllocatorContract):
    name = "dynatune-share"


class TestGainEpsilonGreedy(AllocatorContract):
    name = "gain-epsilon-greedy"


class TestGainSoftmax(AllocatorContract):
    name = "gain-softmax"


class TestLinearLatency(AllocatorContract):
    name = "linear-latency"


def test_no_allocator_is_left_out() -> None:
    assert {kind.name for kind in AllocatorContract.__subclasses__()} == set(ALLOCATORS)


def test_an_unknown_name_is_refused_with_the_known_ones() -> None:
    with pytest.raises(TunerError, match="round-robin"):
        make_allocator("fair", [], seed=0, slot=1.0)
