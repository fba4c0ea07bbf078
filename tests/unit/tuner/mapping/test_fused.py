# SPDX-License-Identifier: Apache-2.0
"""Two fused layers: the certificate, its bounds, and what is refused."""

import math
import time
from dataclasses import replace

import numpy as np
import pytest
from support.randomness import fresh_rng, sample, where
from support.search.fused_enumeration import least_fused
from support.search.small_mappings import drawn_architecture

from tilewright.host.common.errors import ConfigError, WorkloadError
from tilewright.interface.layers import load_layer
from tilewright.tuner.mapping.architecture import Architecture, load_architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.exact import best_mapping
from tilewright.tuner.mapping.fused import Pair, best_fused, cuts_of, least_value, pair_of
from tilewright.tuner.mapping.nest import LoopNest, NestKind

FLEXIBLE = load_architecture("flexible-256")
MOST_TILINGS = 3_000


def drawn_pair(rng: np.random.Generator) -> tuple[Pair, Architecture]:
    """Two small layers of any kind that fit each other."""
    while True:
        channels = int(rng.choice([1, 2, 3, 4]))
        y, x = (int(v) for v in rng.choice([1, 2, 3, 4], 2))
        kernel = [int(v) for v in rng.integers(1, 4, 2)]
        stride = int(rng.integers(1, 4))  # beyond the kernel, too: pixels that nobody reads
        pads = [int(rng.integers(0, k)) for k in kernel]
        ends = [int(rng.integers(0, k)) for k in kernel]
        high, wide = ((n - 1) * stride + k - p - e
                      for n, k, p, e in zip((y, x), kernel, pads, ends, strict=True))  # fmt: skip
        if min(high, wide) < 1:
            continue
        own, other = (NestKind.DEPTHWISE if rng.random() < 0.4 else NestKind.CONV for _ in "ab")
        taps = int(rng.integers(1, 3))
        k1, c1 = (1, channels) if own is NestKind.DEPTHWISE else (channels, int(rng.integers(1, 3)))
        k2 = 1 if other is NestKind.DEPTHWISE else int(rng.integers(1, 3))
        first = LoopNest(name="first", kind=own, sizes=(k1, c1, high, wide, taps, 1),
                         stride_y=int(rng.integers(1, 3)))  # fmt: skip
        second = LoopNest(name="second", kind=other, sizes=(k2, channels, y, x, *kernel),
                          stride_y=stride, stride_x=stride)  # fmt: skip
        tilings = [math.prod(n * (n + 1) // 2 for n in nest.sizes) for nest in (first, second)]
        if max(tilings) <= MOST_TILINGS:
            break
    arch = drawn_architecture(rng)
    arch = replace(
        arch, dram_energy=arch.dram_energy or 50, pes=min(arch.pes, 4),
        outer_parallel=arch.outer_parallel[:2], inner_parallel=arch.inner_parallel[:2],
        l2_bytes=int(rng.choice([0, 24, 40, 60, 120])),
    )  # fmt: skip
    return Pair(first=first, second=second, pad_top=pads[0], pad_left=pads[1]), arch


@pytest.mark.parametrize("case", sample(6, 50))
def test_equals_the_best_of_all_fused_mappings(case: int) -> None:
    pair, arch = drawn_pair(fresh_rng())
    for objective in (Objective.LATENCY, Objective.ENERGY):
        pads = (pair.pad_top, pair.pad_left)
        least = least_fused(pair.first, pair.second, pads, arch, objective.value)
        facts = where(pair=pair, arch=arch, objective=objective, least=least)
        if least == math.inf:
            with pytest.raises(ConfigError, match="not even the smallest step"):
                best_fused(pair, arch, objective)
            continue
        found = best_fused(pair, arch, objective)
        assert found.optimal, facts
        assert found.value == pytest.approx(least, rel=1e-9), facts
        told = found.cost["cycles" if objective is Objective.LATENCY else "energy"]
        assert told == pytest.approx(least, rel=1e-9), facts
        assert arch.l2_bytes == 0 or found.cost["l2_bytes"] <= arch.l2_bytes, facts


def test_bounds_without_a_search_are_below_every_best_mapping() -> None:
    rng = fresh_rng()
    for _ in range(40):
        pair, arch = drawn_pair(rng)
        arch = replace(arch, l2_bytes=0)
        for nest in (pair.first, pair.second):
            for objective in (Objective.LATENCY, Objective.ENERGY):
                try:
                    best = best_mapping(nest, arch, objective)
                except ConfigError:  # L1 holds nothing
                    continue
                least = least_value(nest, arch, objective, frozenset())
                assert 0 < least <= best.value, where(nest=nest, arch=arch)


def test_a_real_pair_saves_the_traffic_of_its_intermediate() -> None:
    """The parts do all of the work, and their costs add up to that of the pair."""
    layers = [load_layer(f"mobilenet_v2:{name}") for name in ("b2.depthwise", "b2.project")]
    pair = pair_of(*layers)
    found = best_fused(pair, FLEXIBLE, Objective.ENERGY)
    assert found.optimal
    alone = [best_mapping(nest, FLEXIBLE, Objective.ENERGY) for nest in (pair.first, pair.second)]
    assert found.value < sum(one.value for one in alone)
    assert found.cost["macs"] >= pair.first.macs + pair.second.macs
    last = found.parts[-1]
    assert last.mapping is not None
    assert CostModel(last.nest, FLEXIBLE, resident=last.held).cost(last.mapping) == last.cost
    assert last.times * last.nest.macs == pair.second.macs
    traffic = [sum(v for name, v in one.cost.items() if name.startswith("dram_")) for one in alone]
    intermediate = layers[0].out_height * layers[0].out_width * layers[0].channels_out
    assert found.cost["dram_bytes"] <= sum(traffic) - intermediate


def test_ends_early_with_a_proven_distance() -> None:
    layers = (load_layer(f"mobilenet_v2:{name}") for name in ("b2.expand", "b2.depthwise"))
    pair = pair_of(*layers)
    early = best_fused(pair, FLEXIBLE, Objective.LATENCY, seconds=0)
    assert 0 < early.bound <= early.value
    assert early.tried < early.cuts

    calls = 0

    def interrupt(_: object) -> None:
        nonlocal calls
        calls += 1
        if calls > 100:
            raise KeyboardInterrupt

    stopped = best_fused(pair, FLEXIBLE, Objective.LATENCY, listener=interrupt)
    assert stopped.stopped
    assert 0 < stopped.bound <= stopped.value


def test_what_cannot_be_fused_is_refused() -> None:
    layers = {name: load_layer(f"resnet18:{name}") for name in ("C2", "C3", "C6")}
    with pytest.raises(WorkloadError, match="what C3 makes"):
        pair_of(layers["C3"], layers["C2"])
    with pytest.raises(WorkloadError, match=r"C2.n: must be what C2 makes \(1\)"):
        pair_of(layers["C2"], replace(layers["C2"], n=2))
    nests = [LoopNest(name=n, sizes=(64, c, 4, 4, 1, 1)) for n, c in (("a", 8), ("b", 32))]
    with pytest.raises(WorkloadError, match="the 64 channels of a"):
        Pair(first=nests[0], second=nests[1])
    pair = Pair(first=nests[0], second=replace(nests[0], sizes=(8, 64, 4, 4, 1, 1)))
    with pytest.raises(ConfigError, match="must be a sum over both"):
        best_fused(pair, FLEXIBLE, Objective.EDP)
    with pytest.raises(ConfigError, match="not even the smallest step"):
        best_fused(pair, replace(FLEXIBLE, l2_bytes=16))
    assert len({(cut.channels, cut.rows, cut.columns) for cut in cuts_of(pair)}) == 7 * 3 * 3


def test_the_first_cut_ends_in_time() -> None:
    pair = pair_of(*(load_layer(f"resnet18:{name}") for name in ("C2r", "C3")))
    started = time.thread_time()
    early = best_fused(pair, FLEXIBLE, Objective.ENERGY, seconds=0)
    assert time.thread_time() - started < 2
    assert 0 < early.bound < early.value
    assert early.tried == 1
