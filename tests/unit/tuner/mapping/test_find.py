# SPDX-License-Identifier: Apache-2.0
"""One nest, one mapping, whatever the method."""

import pytest

from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.find import finder
from tilewright.tuner.mapping.mapping import mapping_from
from tilewright.tuner.mapping.methods.mapper import MapperError
from tilewright.tuner.mapping.nest import LoopNest

FLEXIBLE = load_architecture("flexible-256")
NEST = LoopNest(name="fc", sizes=(64, 256, 1, 1, 1, 1), count=3)


@pytest.mark.parametrize("method", ["random", "tuner-random"])
def test_no_method_beats_the_proof(method: str) -> None:
    proven = finder(FLEXIBLE, Objective.EDP)(NEST, None)
    tried = finder(FLEXIBLE, Objective.EDP, method, budget=300, seed=1)(NEST, None)
    assert proven.gap == 0
    assert tried.gap is None
    assert tried.bound is None
    assert tried.samples == 300
    assert proven.value <= tried.value
    for found in (proven, tried):
        assert found.cost == CostModel(NEST, FLEXIBLE).cost(found.mapping)
        assert found.value == found.cost["cycles"] * found.cost["energy"]


def test_a_row_holds_the_mapping_and_what_it_costs() -> None:
    row = finder(FLEXIBLE, Objective.LATENCY)(NEST, None).to_row()
    assert (row["layer"], row["count"], row["kind"], row["gap"]) == ("fc", 3, "conv", 0)
    cost = CostModel(NEST, FLEXIBLE).cost(mapping_from(row["mapping"]))
    assert row["value"] == row["bound"] == cost["cycles"]
    assert row["cost"] == cost


def test_an_unknown_method_is_told_before_any_work() -> None:
    with pytest.raises(MapperError, match="no mapper of that name"):
        finder(FLEXIBLE, Objective.EDP, "nothing")
