# SPDX-License-Identifier: Apache-2.0
"""The comparison with MAESTRO, on its recorded rows."""

import csv
from pathlib import Path

import pytest

from tilewright.bench.mapping import maestro
from tilewright.tuner.mapping.nest import NestKind

ROWS = Path(__file__).with_name("maestro")


def rows_of(name: str) -> list[dict[str, str]]:
    with (ROWS / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def found() -> dict:
    return maestro.document(ROWS)


def test_ranks_of_cycles_agree(found):
    """docs/results/mapping-models.md tells these figures."""
    groups = found["groups"]
    assert found["fates"] == {"compared": 474, "unsound": 61, "untranslated": 129}
    assert groups["all"]["spearman"] > 0.975
    assert groups["mapspace"]["spearman"] > 0.985
    assert groups["all"]["median_error_pct"] < 10


@pytest.mark.parametrize("flow", ["kcp_ws", "dla_magma", "xp_ws", "nlr"])
def test_cycles_are_equal_where_bandwidth_and_hops_cost_nothing(found, flow):
    assert found["groups"][f"{flow} C hop 0"]["median_error_pct"] < 0.1


def test_a_row_that_does_less_than_all_or_too_fast_is_left_out():
    row = next(r for r in rows_of("dataflows") if r["dataflow"] == "kcp_ws")
    assert [fate for fate, _ in maestro.compare([row])] == ["compared"]
    fewer = {**row, "Num MACs": str(int(row["Num MACs"]) - 1)}
    faster = {**row, "Runtime (Cycles)": "1"}
    other = {**row, "Avg number of utilized PEs": "1"}
    stationary = {**row, "dataflow": "rs_micro19"}
    fates = [fate for fate, _ in maestro.compare([fewer, faster, other, stationary])]
    assert fates == ["unsound", "unsound", "untranslated", "untranslated"]


def test_tiles_of_rows_and_columns_count_outputs():
    row = rows_of("mapspace")[0]
    nest = maestro.nest_of_row(row)
    assert nest.kind is NestKind.DEPTHWISE
    assert nest.sizes == (1, 32, 112, 112, 3, 3)
    mapping = maestro.mapping_of_row(row, nest, 1024)
    assert (mapping.outer.tile, mapping.inner.tile) == ((1, 13, 61, 11, 3, 3), (1, 9, 30, 7, 3, 3))
    assert (mapping.clusters, mapping.cluster_size) == (4, 256)
    assert maestro.average_pes(nest, mapping) == float(row["Avg number of utilized PEs"])


def test_figures_are_those_of_ratios():
    pairs = ((100, 50), (100, 100), (200, 300))
    rows = [maestro.Compared(group="g", theirs=a, ours=b, compute=b) for a, b in pairs]
    assert maestro.figures(rows) == {
        "rows": 3,
        "spearman": round(3**0.5 / 2, 4),
        "median_ratio": 1.0,
        "median_error_pct": 50.0,
        "worst_ratio": 2.0,
    }
