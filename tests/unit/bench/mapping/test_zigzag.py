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
from tilewright.tuner.mapping.cost import CostModel

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


def test_elements_add_up_to_the_bytes_of_the_model(sides):
    for nest, batch, here, _, _ in sides:
        costs = CostModel(nest, ARCHITECTURE).costs(batch)
        dram = here.dram_weights + here.dram_inputs + here.dram_outputs
        noc = here.noc_weights + here.noc_inputs + here.noc_outputs
        delivered = here.delivered_weights + here.delivered_inputs + here.delivered_outputs
        np.testing.assert_array_equal(costs["dram_output_bytes"], here.dram_outputs)
        np.testing.assert_array_equal(costs["noc_in_bytes"] + costs["noc_out_bytes"], noc)
        np.testing.assert_array_equal(costs["delivered_bytes"], delivered)
        np.testing.assert_array_equal(costs["l2_moved_bytes"], dram + noc)


def test_ranks_of_energy_and_cycles_agree():
    """docs/results/mapping-models.md tells these figures."""
    found = document(RECORDED)
    quantities = found["quantities"]
    assert found["mappings"] == 600
    assert quantities["energy"]["spearman"] > 0.998
    assert quantities["cycles"]["spearman"] > 0.99
    for tensor in ("weights", "inputs"):
        assert quantities[f"dram_{tensor}"]["equal_pct"] == 100
