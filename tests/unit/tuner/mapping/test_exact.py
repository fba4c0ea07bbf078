# SPDX-License-Identifier: Apache-2.0
"""The exact mapper: certificates, its trees, and one call for any method."""

import ctypes
import functools
import math
from dataclasses import replace
from itertools import pairwise, permutations
from pathlib import Path

import numpy as np
import pytest
from support.randomness import fresh_rng, sample, where
from support.search.mappings import PRICED, random_batch
from support.search.small_mappings import drawn_architecture, drawn_nest, small_case

from tilewright.host.common.errors import ConfigError
from tilewright.sim.tools.build_cache import bind_library
from tilewright.sim.tools.native_build import build_native
from tilewright.tuner.mapping import exact
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import NATIVE_DIR, CostModel, Costs, Objective, c_architecture
from tilewright.tuner.mapping.exact import ExactSearch, best_mapping, with_best_orders
from tilewright.tuner.mapping.find import finder
from tilewright.tuner.mapping.mapping import mapping_from
from tilewright.tuner.mapping.methods.mapper import MapperError
from tilewright.tuner.mapping.methods.registry import make_mapper
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest, NestKind
from tilewright.tuner.mapping.options import MapOptions

FLEXIBLE = load_architecture("flexible-256")
CONV = LoopNest(name="conv", sizes=(64, 64, 14, 14, 3, 3))
ORDERS = np.array(list(permutations(range(len(DIMENSIONS)))), dtype=np.int32)


@pytest.mark.parametrize("case", sample(8, 200))
def test_equals_the_best_of_all_mappings_of_a_small_space(case: int) -> None:
    nest, arch, rows = small_case(fresh_rng())
    model = CostModel(nest, arch)
    for objective in Objective:
        least = model.costs(with_best_orders(model, objective, rows)).of(objective).min()
        if not np.isfinite(least):
            with pytest.raises(ConfigError, match="not even one"):
                best_mapping(nest, arch, objective)
            continue
        found = best_mapping(nest, arch, objective)
        assert found.optimal, where(nest=nest, arch=arch, objective=objective)
        assert found.value == found.bound == least, where(nest=nest, arch=arch, objective=objective)
        assert value(found.cost, objective) == least, where(
            nest=nest, arch=arch, objective=objective
        )
        # Sets of choices that are split down to single ones: their bounds alone rule out.
        search = ExactSearch(nest, arch, objective, listed=1)
        while not search.done:
            search.step()
        assert search.progress.value == least, where(nest=nest, arch=arch, objective=objective)


def value(cost: dict[str, float], objective: Objective) -> float:
    """The objective of a cost."""
    return float(Costs(np.zeros(1, np.int32), np.array([list(cost.values())])).of(objective)[0])


@pytest.mark.parametrize("case", sample(4, 40))
def test_orders_equal_the_best_of_all_pairs_of_orders(case: int) -> None:
    rng = fresh_rng()
    nest = drawn_nest(rng)
    arch = replace(drawn_architecture(rng), l1_bytes=0, l2_bytes=0)
    arch = replace(arch, outer_parallel=PRICED.outer_parallel, inner_parallel=PRICED.inner_parallel)
    arch = replace(arch, max_clusters=0, max_cluster_size=0)
    model = CostModel(nest, arch)
    pairs = np.empty((len(ORDERS), 12), dtype=np.int32)
    pairs[:, 6:] = ORDERS
    for row in random_batch(nest, 2, arch.pes, rng):
        least = dict.fromkeys(Objective, math.inf)
        rows = np.tile(row, (len(ORDERS), 1))
        for order in ORDERS:
            pairs[:, :6] = order
            rows[:, 12:24] = pairs
            costs = model.costs(rows)
            for objective in Objective:
                least[objective] = min(least[objective], costs.of(objective).min())
        for objective in Objective:
            chosen = with_best_orders(model, objective, row[None])
            assert model.costs(chosen).of(objective)[0] == least[objective], where(
                nest=nest, row=row
            )


@pytest.mark.parametrize("objective", Objective)
@pytest.mark.parametrize(
    "nest",
    [
        CONV,
        LoopNest(name="dense", sizes=(1000, 512, 1, 1, 1, 1)),
        LoopNest(
            name="dw", kind=NestKind.DEPTHWISE, sizes=(1, 96, 56, 56, 3, 3), stride_y=2, stride_x=2
        ),
    ],
    ids=lambda nest: nest.name,
)
def test_no_random_mapping_beats_a_certificate(nest: LoopNest, objective: Objective) -> None:
    found = best_mapping(nest, FLEXIBLE, objective)
    assert found.optimal
    model = CostModel(nest, FLEXIBLE)
    rows = with_best_orders(model, objective, random_batch(nest, 50_000, 256, fresh_rng()))
    assert model.costs(rows).of(objective).min() >= found.value


def test_repeats_itself() -> None:
    first, second = (best_mapping(CONV, FLEXIBLE, Objective.EDP) for _ in range(2))
    assert replace(first, seconds=0) == replace(second, seconds=0)


def test_the_bound_rises_and_never_passes_the_best() -> None:
    seen: list[exact.Progress] = []
    search = ExactSearch(CONV, FLEXIBLE, Objective.EDP)
    while not search.done:
        seen.append(search.step(2000))
    assert len(seen) > 3
    assert all(a.bound <= b.bound for a, b in pairwise(seen))
    assert all(a.value >= b.value for a, b in pairwise(seen))
    assert all(0 <= p.bound <= p.value for p in seen)
    assert seen[-1].gap == 0


def test_a_limit_of_time_gives_a_mapping_and_a_proven_gap() -> None:
    found = best_mapping(LoopNest(name="3x3", sizes=(256, 256, 56, 56, 3, 3)), FLEXIBLE, seconds=0)
    assert not found.stopped
    assert 0 < found.bound <= found.value < math.inf
    assert best_mapping(CONV, FLEXIBLE, gap=0.5).gap <= 0.5


def test_a_limit_of_time_is_looked_at_after_few_bounds() -> None:
    """A bound of a loop of a million iterations may have to list thousands of choices."""
    wide = LoopNest(name="wide", sizes=(1, 1, 1, 1_000_000, 1, 3))
    found = best_mapping(wide, FLEXIBLE, Objective.ENERGY, seconds=0)
    assert not found.optimal
    assert found.nodes < 50_000


def test_ctrl_c_gives_the_best_mapping_so_far() -> None:
    def interrupt(progress: exact.Progress) -> None:
        if progress.bound:
            raise KeyboardInterrupt

    found = best_mapping(CONV, FLEXIBLE, Objective.ENERGY, listener=interrupt)
    assert found.stopped
    assert not found.optimal
    assert found.cost["energy"] == found.value >= found.bound > 0


def test_a_gap_that_rounds_to_the_limit_ends_the_search() -> None:
    """The best of 10 cycles and the bound of 7: ``1 - 7 / 10`` is above 0.3 in binary."""
    steps: list[exact.Progress] = []

    def listen(progress: exact.Progress) -> None:
        steps.append(progress)
        assert len(steps) < 1000, progress

    nest = LoopNest(name="small", sizes=(2, 1, 3, 9, 2, 1))
    arch = replace(FLEXIBLE, pes=32, l2_bytes=0)
    found = best_mapping(nest, arch, Objective.LATENCY, gap=0.3, listener=listen)
    assert (found.value, found.bound) == (10, 7)


def test_ctrl_c_in_the_second_search_of_an_area_keeps_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made: list[ExactSearch] = []

    class Search(ExactSearch):
        def step(self, nodes: int = 1, gap: float = 0.0) -> exact.Progress:
            made.append(self)
            if self is not made[0]:
                raise KeyboardInterrupt
            return super().step(nodes, gap)

    monkeypatch.setattr(exact, "ExactSearch", Search)
    found = best_mapping(CONV, FLEXIBLE, Objective.AREA)
    assert found.stopped
    assert found.optimal
    assert found.cost["area"] == found.value


def test_refuses_to_minimise_what_has_no_price() -> None:
    free = replace(FLEXIBLE, **{f"{n}_energy": 0 for n in ("mac", "l1", "l2", "noc", "dram")})
    for objective in (Objective.ENERGY, Objective.EDP):
        with pytest.raises(ConfigError, match="no energy of flexible-256 is above 0"):
            best_mapping(CONV, free, objective)
        with pytest.raises(ConfigError, match="nothing to minimise"):
            make_mapper("random").run(CostModel(CONV, free), objective, 9, 0)
    assert best_mapping(CONV, free, Objective.LATENCY).cost["energy"] == 0


def test_of_equal_areas_the_fastest_is_taken() -> None:
    nest = LoopNest(name="small", sizes=(4, 3, 5, 1, 1, 1))
    found = best_mapping(nest, FLEXIBLE, Objective.AREA)
    one_pe = replace(FLEXIBLE, pes=1)
    assert found.cost["pes"] == 1
    assert found.cost["cycles"] == best_mapping(nest, one_pe, Objective.LATENCY).value


def test_refuses_a_limit_that_is_none() -> None:
    for seconds, gap in ((-1.0, 0.0), (None, 2.0), (None, math.nan)):
        with pytest.raises(ConfigError, match="must be a number"):
            best_mapping(CONV, FLEXIBLE, seconds=seconds, gap=gap)


def test_buffers_that_hold_nothing_are_told() -> None:
    with pytest.raises(ConfigError, match="not even one multiply-accumulate"):
        best_mapping(CONV, replace(FLEXIBLE, l1_bytes=11))


# -- The exact mapper's trees: bounds hold, and no choice is dropped but for a better one
COUNTS = 12


@functools.cache
def choices_library() -> ctypes.CDLL:
    source = Path(__file__).parents[3] / "support" / "search" / "mapping_choices.cpp"
    native = [NATIVE_DIR / name for name in ("choices.cpp", "choices.h", "cost.h")]
    pointer, i32, i64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64
    return bind_library(
        build_native("mapping-choices", [source, *native]),
        {"tw_choices_version": 1},
        {"tw_choices_check": ([pointer, i64, i64, pointer, i32, i64, pointer, pointer], i64)},
    )


def test_bounds_hold_and_every_choice_has_a_leaf_that_is_as_good() -> None:
    rng = fresh_rng()
    met = 0
    for _ in range(1500):
        size = int(rng.integers(1, 40))
        ends = np.sort(rng.integers(1, [size + 1, size + 1, 6, 6], (2, 4)), axis=0)
        if rng.random() < 0.3:
            ends[:, 2] = 1
        if rng.random() < 0.3:
            ends[:, 3] = 1
        box = np.ascontiguousarray(ends, dtype=np.int32)
        arch = replace(PRICED, pes=int(rng.integers(1, 30)))
        stride, timed = int(rng.integers(1, 4)), int(rng.integers(2))
        listed = int(rng.choice([1, 40, 2048]))
        bounds, least = np.empty(COUNTS), np.empty(COUNTS)
        missed = choices_library().tw_choices_check(
            *(ctypes.byref(c_architecture(arch)), size, stride, box.ctypes.data),
            *(timed, listed, bounds.ctypes.data, least.ctypes.data),
        )
        facts = where(size=size, stride=stride, box=box.tolist(), pes=arch.pes, listed=listed)
        assert missed == 0, facts
        assert (bounds <= least).all(), facts + f" {bounds} {least}"
        met += bool(np.isfinite(least).all())
    assert met > 500


# -- One nest, one mapping, whatever the method
NEST = LoopNest(name="fc", sizes=(64, 256, 1, 1, 1, 1), count=3)


@pytest.mark.parametrize("method", ["random", "tuner-random"])
def test_no_method_beats_the_proof(method: str) -> None:
    proven = finder(FLEXIBLE, MapOptions())(NEST, None)
    tried = finder(FLEXIBLE, MapOptions(method=method, budget=300, seed=1))(NEST, None)
    assert proven.gap == 0
    assert tried.gap is None
    assert tried.bound is None
    assert tried.samples == 300
    assert proven.value <= tried.value
    for found in (proven, tried):
        assert found.cost == CostModel(NEST, FLEXIBLE).cost(found.mapping)
        assert found.value == found.cost["cycles"] * found.cost["energy"]


def test_a_row_holds_the_mapping_and_what_it_costs() -> None:
    row = finder(FLEXIBLE, MapOptions(objective="latency"))(NEST, None).to_row()
    assert (row["layer"], row["count"], row["kind"], row["gap"]) == ("fc", 3, "conv", 0)
    cost = CostModel(NEST, FLEXIBLE).cost(mapping_from(row["mapping"]))
    assert row["value"] == row["bound"] == cost["cycles"]
    assert row["cost"] == cost


def test_an_unknown_method_is_told_before_any_work() -> None:
    with pytest.raises(MapperError, match="no mapper of that name"):
        finder(FLEXIBLE, MapOptions(method="nothing"))
