# SPDX-License-Identifier: Apache-2.0
"""The front of latency and energy equals that of all mappings."""

from dataclasses import replace
from itertools import permutations, product

import numpy as np
import pytest
from support.randomness import fresh_rng, sample, where
from support.search.small_mappings import all_mappings, drawn_architecture

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping import exact
from tilewright.tuner.mapping.architecture import Architecture, load_architecture
from tilewright.tuner.mapping.cost import CostModel
from tilewright.tuner.mapping.fixed import fixed_from
from tilewright.tuner.mapping.front import pareto_front
from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.nest import LoopNest, NestKind

FLEXIBLE = load_architecture("flexible-256")
CONV = LoopNest(name="conv", sizes=(64, 64, 14, 14, 3, 3))


def small_case(rng: np.random.Generator) -> tuple[LoopNest, Architecture, Batch]:
    """A nest in which at most three loops turn, and all of its mappings in all orders of them."""
    while True:
        turning = rng.choice(6, 3, replace=False)
        sizes = [1] * 6
        for d in turning:
            sizes[d] = int(rng.integers(2, 7 if d < 4 else 4))
        k, c, y, x, r, s = sizes
        kind = NestKind.DEPTHWISE if rng.integers(2) else NestKind.CONV
        stride = int(rng.integers(1, 3))
        nest = LoopNest(
            name="drawn", kind=kind, sizes=(k, c, y, x, r, s), stride_y=stride, stride_x=stride
        )
        arch = drawn_architecture(rng)
        arch = replace(arch, dram_energy=arch.dram_energy or 50, pes=min(arch.pes, 6))
        rows = all_mappings(nest, arch)
        if len(rows) <= 20_000:
            break
    rest = [d for d in range(6) if d not in turning]
    orders = [[*rest, *turns] for turns in permutations(turning)]
    pairs = np.array([a + b for a, b in product(orders, orders)], dtype=np.int32)
    rows = np.repeat(rows, len(pairs), axis=0)
    rows[:, 12:24] = np.tile(pairs, (len(rows) // len(pairs), 1))
    return nest, arch, rows


def front_of(cycles: np.ndarray, energy: np.ndarray) -> list[tuple[float, float]]:
    """Pairs that no other pair is as good as in both, one after another."""
    found: list[tuple[float, float]] = []
    for pair in sorted(set(zip(cycles.tolist(), energy.tolist(), strict=True))):
        if not found or pair[1] < found[-1][1]:
            found.append(pair)
    return found


@pytest.mark.parametrize("case", sample(12, 300))
def test_equals_the_front_of_all_mappings(case: int) -> None:
    nest, arch, rows = small_case(fresh_rng())
    costs = CostModel(nest, arch).costs(rows)
    legal = costs.legal
    if not legal.any():
        with pytest.raises(ConfigError, match="not even one"):
            pareto_front(nest, arch)
        return
    wanted = front_of(costs["cycles"][legal], costs["energy"][legal])
    front = pareto_front(nest, arch)
    assert front.certified
    found = [(cost["cycles"], cost["energy"]) for _, cost in front.points]
    assert found == wanted, where(nest=nest, arch=arch)
    # With a gap, each mapping is as bad as one of the front that gets better by that much.
    rough = pareto_front(nest, arch, gap=0.1)
    least = [(cost["cycles"] * 0.9, cost["energy"] * 0.9) for _, cost in rough.points]
    assert all(any(c <= cycles and e <= energy for c, e in least) for cycles, energy in wanted)


def test_the_ends_are_the_least_of_each() -> None:
    front = pareto_front(CONV, FLEXIBLE)
    assert front.certified
    assert len(front.points) > 3
    for at, measure, objective in ((0, "cycles", "latency"), (-1, "energy", "energy")):
        least = exact.best_mapping(CONV, FLEXIBLE, exact.Objective(objective)).value
        assert front.points[at][1][measure] == least
    model = CostModel(CONV, FLEXIBLE)
    for mapping, cost in front.points:
        assert model.cost(mapping) == cost
    edp = min(cost["cycles"] * cost["energy"] for _, cost in front.points)
    assert edp == exact.best_mapping(CONV, FLEXIBLE).value


def test_obeys_what_is_fixed_and_limits_of_time() -> None:
    fixed = fixed_from({"outer": {"parallel": "X"}, "clusters": 7})
    front = pareto_front(CONV, FLEXIBLE, fixed=fixed, gap=0.02)
    assert front.certified
    assert all(fixed.refusal(mapping) == "" for mapping, _ in front.points)
    early = pareto_front(CONV, FLEXIBLE, seconds=0)
    assert not early.certified
    assert early.to_rows()[0]["gap"] is None
