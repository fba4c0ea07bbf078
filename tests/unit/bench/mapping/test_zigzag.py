# SPDX-License-Identifier: Apache-2.0
"""The cost model against 600 recorded mappings of ZigZag 3.9.1: every difference has a rule."""

from pathlib import Path

import numpy as np
import pytest

from tilewright.bench.mapping.zigzag import (
    ARCHITECTURE,
    batch_of_rows,
    by_nest,
    document,
    explained,
    ours,
    read_rows,
    shares_halos,
    theirs,
)

RECORDED = Path(__file__).with_name("zigzag-3.9.1.csv")


@pytest.fixture(scope="module")
def sides() -> list[tuple]:
    found = []
    for nest, rows in by_nest(read_rows(RECORDED)).items():
        batch = batch_of_rows(rows)
        found.append((nest, batch, ours(nest, batch), explained(nest, batch), theirs(rows)))
    assert sum(len(batch) for _, batch, *_ in found) >= 500
    return found


def test_shared_halos_only_lessen_what_leaves_l2(sides):
    for _, batch, _, bridge, there in sides:
        more = bridge.noc_inputs - there.noc_inputs
        assert (more >= 0).all()
        assert (more[~shares_halos(batch)] == 0).all()
        np.testing.assert_array_equal(bridge.energy - more * ARCHITECTURE.l2_energy, there.energy)
    assert any((b.noc_inputs > t.noc_inputs).any() for _, _, _, b, t in sides)


def test_ranks_of_energy_and_cycles_agree():
    """docs/results/mapping-models.md tells these figures."""
    found = document(RECORDED)
    quantities = found["quantities"]
    assert found["mappings"] == 600
    assert quantities["energy"]["spearman"] > 0.998
    assert quantities["cycles"]["spearman"] > 0.99
    for tensor in ("weights", "inputs"):
        assert quantities[f"dram_{tensor}"]["equal_pct"] == 100
