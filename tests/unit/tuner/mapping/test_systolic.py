# SPDX-License-Identifier: Apache-2.0
"""Systolic arrays as architectures, against SCALE-Sim's closed form and its recorded runs."""

import csv
from dataclasses import replace
from math import ceil
from pathlib import Path

import pytest
from support.mappings import systolic_mapping
from support.randomness import fresh_rng, where

from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel
from tilewright.tuner.mapping.nest import LoopNest

RECORDED = Path(__file__).with_name("scalesim-3.0.0.csv")
FLOWS = ("os", "ws", "is")


def passes(flow: str, m: int, n: int, k: int, rows: int, columns: int) -> tuple[int, int]:
    """Passes through an array, and the cycles in which one streams: SCALE-Sim's closed form."""
    if flow == "os":
        return ceil(m / rows) * ceil(n / columns), k
    if flow == "ws":
        return ceil(k / rows) * ceil(n / columns), m
    return ceil(k / rows) * ceil(m / columns), n


def pass_cycles(flow: str, rows: int, columns: int) -> int:
    return rows + columns - 2 if flow == "os" else 2 * rows + columns - 2


def modelled(flow: str, m: int, n: int, k: int, rows: int, columns: int) -> float:
    """Compute cycles of a GEMM of M x K times K x N on an array of any shape."""
    arch = replace(
        load_architecture(f"systolic-{flow}-16x16"),
        pes=rows * columns,
        max_clusters=rows,
        max_cluster_size=columns,
        pass_cycles=pass_cycles(flow, rows, columns),
    )
    nest = LoopNest(name="gemm", sizes=(n, k, 1, m, 1, 1))
    cost = CostModel(nest, replace(arch, l2_bytes=0)).cost(
        systolic_mapping(flow, nest, rows, columns)
    )
    return cost["compute_cycles"]


@pytest.mark.parametrize("flow", FLOWS)
def test_cycles_equal_the_closed_form_of_a_systolic_array(flow):
    rng = fresh_rng()
    for _ in range(80):
        m, n, k = (int(v) for v in rng.integers(1, 400, 3))
        rows, columns = (int(v) for v in rng.integers(1, 40, 2))
        count, stream = passes(flow, m, n, k, rows, columns)
        expected = count * (stream + pass_cycles(flow, rows, columns))
        found = modelled(flow, m, n, k, rows, columns)
        assert found == expected, where(m=m, n=n, k=k, rows=rows, columns=columns)


@pytest.mark.parametrize("flow", FLOWS)
def test_a_shipped_array_has_the_fill_and_drain_of_its_shape(flow):
    arch = load_architecture(f"systolic-{flow}-16x16")
    assert arch.pass_cycles == pass_cycles(flow, arch.max_clusters, arch.max_cluster_size)
    tpu = load_architecture("tpu-like")
    assert tpu.pass_cycles == pass_cycles("ws", tpu.max_clusters, tpu.max_cluster_size)


def test_cycles_equal_the_runs_of_scale_sim():
    """SCALE-Sim tells the number of its last cycle, counted from 0."""
    with RECORDED.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(line for line in file if not line.startswith("#")))
    assert len(rows) >= 100
    for row in rows:
        m, n, k, height, width = (int(row[name]) for name in ("m", "n", "k", "rows", "columns"))
        found = modelled(row["flow"], m, n, k, height, width)
        assert found - 1 == int(row["cycles"]), row
