# SPDX-License-Identifier: Apache-2.0
"""What a user fixes of a mapping: certificates under it, and searches that obey it."""

from itertools import permutations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.randomness import fresh_rng, sample, where
from support.search.small_mappings import small_case

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.exact import ExactSearch, best_mapping
from tilewright.tuner.mapping.fixed import FREE, Fixed, fixed_from, read_fixed
from tilewright.tuner.mapping.mapping import Batch, mapping_of
from tilewright.tuner.mapping.methods.registry import make_mapper
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest
from tilewright.tuner.mapping.space import MappingSpace, SpaceError

FLEXIBLE = load_architecture("flexible-256")
CONV = LoopNest(name="conv", sizes=(64, 64, 14, 14, 3, 3))
ORDERS = ["".join(order) for order in permutations(DIMENSIONS)]
MOST = 300_000


def drawn_values(rng: np.random.Generator, rows: Batch) -> dict[str, Any]:
    """A random part of a random mapping, as a user writes it."""
    values = mapping_of(rows[rng.integers(len(rows))]).as_dict()
    share = float(rng.choice([0.1, 0.3, 0.7]))
    for level in (values["outer"], values["inner"]):
        level["tile"] = {d: size for d, size in level["tile"].items() if rng.random() < share}
        order = ORDERS[rng.integers(len(ORDERS))]
        gap = int(rng.choice([0, 2, 3, 3, 4, 6]))
        head = int(rng.integers(0, 6 - gap + 1))
        level["order"] = order[:head] + "..." + order[head + gap :] if gap else order
        if rng.random() > share:
            del level["parallel"]
    return {k: v for k, v in values.items() if k in ("outer", "inner") or rng.random() < share}


def having(values: dict[str, Any], rows: Batch) -> Batch | None:
    """Of all mappings but for their orders those that a user allows, in all orders allowed.

    None: more than `MOST`.
    """
    kept = np.ones(len(rows), dtype=bool)
    orders = []
    for at, name in enumerate(("outer", "inner")):
        level = values[name]
        for d, size in level["tile"].items():
            kept &= rows[:, 6 * at + DIMENSIONS.index(d)] == size
        if "parallel" in level:
            kept &= rows[:, 24 + at] == DIMENSIONS.index(level["parallel"])
        head, _, tail = level["order"].partition("...")
        orders.append([o for o in ORDERS if o.startswith(head) and o.endswith(tail)])
    for column, unit in ((26, "clusters"), (27, "cluster_size")):
        if unit in values:
            kept &= rows[:, column] == values[unit]
    rows = rows[kept]
    if len(rows) * len(orders[0]) * len(orders[1]) > MOST:
        return None
    pairs = [[DIMENSIONS.index(d) for d in a + b] for a, b in product(*orders)]
    found = np.repeat(rows, len(pairs), axis=0)
    found[:, 12:24] = np.tile(np.array(pairs, dtype=np.int32), (len(rows), 1))
    return found


@pytest.mark.parametrize("case", sample(12, 400))
def test_equals_the_best_of_all_mappings_that_are_left(case: int) -> None:
    rng = fresh_rng()
    while True:
        nest, arch, every = small_case(rng)
        values = drawn_values(rng, every)
        if (rows := having(values, every)) is not None:
            break
    fixed, model = fixed_from(values), CostModel(nest, arch)
    assert fixed_from(fixed.as_dict()) == fixed
    costs = model.costs(rows)
    for objective in Objective:
        least = costs.of(objective).min()
        facts = where(nest=nest, arch=arch, values=values, objective=objective)
        if not np.isfinite(least):
            with pytest.raises(ConfigError, match="what is fixed"):
                best_mapping(nest, arch, objective, fixed=fixed)
            continue
        found = best_mapping(nest, arch, objective, fixed=fixed)
        assert found.value == found.bound == least, facts
        assert fixed.refusal(found.mapping) == "", facts
        assert model.costs(found.mapping.row()[None]).of(objective)[0] == least, facts
        search = ExactSearch(nest, arch, objective, fixed=fixed, listed=1)
        while not search.done:
            search.step()
        assert search.progress.value == least, facts


@pytest.mark.parametrize("case", sample(5, 50))
def test_a_space_draws_what_is_fixed_and_repairs_within_it(case: int) -> None:
    rng = fresh_rng()
    nest, arch, every = small_case(rng)
    values = drawn_values(rng, every)
    fixed, model = fixed_from(values), CostModel(nest, arch)
    try:
        space = MappingSpace(nest, arch, fixed)
    except SpaceError:
        with pytest.raises(ConfigError, match="what is fixed"):
            best_mapping(nest, arch, Objective.LATENCY, fixed=fixed)
        return
    rows = space.decode_batch(space.sample_batch(rng, 200))
    assert model.costs(rows).legal.all()
    for row in rows:
        mapping = mapping_of(row)
        assert fixed.refusal(mapping) == "", where(values=values, row=row)
        assert space.decode(space.encode(mapping)) == mapping


@pytest.mark.parametrize("method", ["random", "gamma", "structured", "annealing", "tuner-genetic"])
def test_mappers_obey_what_is_fixed(method: str) -> None:
    fixed = fixed_from(
        {"outer": {"tile": {"K": 24}, "order": "C...Y", "parallel": "X"}, "cluster_size": 8}
    )
    trace = make_mapper(method).run(CostModel(CONV, FLEXIBLE), Objective.EDP, 400, 1, fixed)
    assert len(trace.rows)
    for row in trace.rows:
        assert fixed.refusal(mapping_of(row)) == ""
    assert trace.value >= best_mapping(CONV, FLEXIBLE, fixed=fixed).value


def test_texts_and_files_are_joined(tmp_path: Path) -> None:
    (tmp_path / "part.yaml").write_text("outer: {order: K...YX}\ninner: {tile: {K: 4}}\n")
    fixed = read_fixed(["outer.tile.K=16", str(tmp_path / "part.yaml"), "inner.parallel=C"])
    assert fixed.as_dict() == {
        "outer": {"tile": {"K": 16}, "order": "K...YX"},
        "inner": {"tile": {"K": 4}, "parallel": "C"},
    }
    assert read_fixed([]) == FREE
    assert not FREE
    assert fixed


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["outer.tile.K=16", "outer.tile.K=8"], "outer.tile.K=8: K is fixed twice"),
        (["outer.tile.Q=16"], "Q: unknown key of a tile"),
        (["outer.tile.K=0"], "outer.tile.K: must be an integer from 1"),
        (["outer.tile=16"], "outer.tile: must name loops"),
        (["outer=16"], "outer: must have some of"),
        (["middle.order=K..."], "middle: unknown key"),
        (["outer.order=KC"], "outer.order: must name each of"),
        (["outer.order=KK..."], "outer.order: must name each of"),
        (["inner.parallel=Z"], "inner.parallel: must be one of"),
        (["inner.parallel="], "inner.parallel: must name a loop"),
        *(([f"clusters={n}"], "clusters: must be an integer") for n in ("x", "010", "٣", "")),
        (["outer.tile.K=2", "inner.tile.K=3"], "inner.tile.K: must be at most the outer tile"),
        (["nothing.yaml"], "must be a readable file"),
    ],
)
def test_what_no_mapping_has_is_refused(texts: list[str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        read_fixed(texts)


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (["outer.tile.K=65"], r"outer.tile.K: must be at most the loop's size \(64 in conv\)"),
        (["clusters=300"], "clusters: must be at most 256"),
        (["clusters=20", "cluster_size=20"], "20 x 20"),
        (["outer.tile.K=64", "outer.tile.C=64", "inner.tile.K=64", "inner.tile.C=64"],
         "not even a mapping with what is fixed"),
    ],
)  # fmt: skip
def test_what_a_layer_or_an_architecture_has_not_is_refused(texts: list[str], told: str) -> None:
    for run in (
        lambda fixed: best_mapping(CONV, FLEXIBLE, fixed=fixed),
        lambda fixed: MappingSpace(CONV, FLEXIBLE, fixed),
    ):
        with pytest.raises((ConfigError, SpaceError), match=told):
            run(read_fixed(texts))
    with pytest.raises(ConfigError, match="spreads there"):
        read_fixed(["outer.parallel=S"]).require_possible(CONV, load_architecture("nvdla-like"))


def test_idle_clusters_may_be_fixed() -> None:
    nest = LoopNest(name="narrow", sizes=(3, 4, 1, 1, 1, 1))
    fixed = Fixed(clusters=8, outer=fixed_from({"outer": {"parallel": "K"}}).outer)
    found = best_mapping(nest, FLEXIBLE, Objective.AREA, fixed=fixed)
    assert (found.mapping.clusters, found.cost["pes"]) == (8, 8)
