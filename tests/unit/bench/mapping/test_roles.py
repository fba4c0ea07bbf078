# SPDX-License-Identifier: Apache-2.0
"""Pictures of roles: cells by correlation, branches by agent."""

import re

import pytest

from tilewright.bench.mapping.roles import correlation_map, dendrogram, trajectories
from tilewright.tuner.report.drawing.page import figure

CLUSTERING = {
    "knobs": ["tile_K", "order", "tile_C"],
    "idle": ["tile_S"],
    "correlation": [[1.0, 0.1, 0.8], [0.1, 1.0, 0.2], [0.8, 0.2, 1.0]],
    "tree": [[0.0, 2.0, 0.2, 2.0], [1.0, 3.0, 0.85, 3.0]],
}
ROLES = {"agent 1": ["tile_K", "tile_C", "tile_S"], "agent 2": ["order"]}

pytest.importorskip("scipy")


def test_neighbours_in_the_tree_stand_beside_each_other():
    chart = correlation_map(CLUSTERING)
    assert chart.names == ["order", "tile_K", "tile_C"]
    assert chart.values[1] == [0.1, 1.0, 0.8]
    drawn = figure(chart, "correlation")
    shown = re.findall(r'fill-opacity="([\d.]+)" data-tip="tile_K, tile_C: 0.80"', drawn)
    assert shown == ["0.8", "0.8"], "once for screens, once for phones"


def test_a_branch_has_the_colour_of_its_agent_until_agents_meet():
    chart = dendrogram(CLUSTERING, ROLES)
    inside, between = chart.series
    assert (inside.name, between.name) == ("agent 1", "between agents")
    assert inside.x == [0.0, 0.2, 0.2, 0.0]
    assert sorted({*inside.y}) == [1.0, 2.0]
    assert between.y == [0.0, 0.0, 1.5, 1.5]
    assert [text for _, text in chart.y.labels(3)] == ["order", "tile_K", "tile_C"]
    assert "between agents" in figure(chart, "tree")


def test_a_single_knob_has_no_tree():
    lone = {"knobs": ["order"], "idle": [], "correlation": [[1.0]], "tree": []}
    assert correlation_map(lone).names == ["order"]
    assert dendrogram(lone, {"agent 1": ["order"]}).series == []


def test_a_trajectory_keeps_its_last_value_to_the_end_of_the_budget():
    def mapping(tile, clusters):
        level = {"tile": {"K": tile, "C": 1}, "order": "KC", "parallel": "K"}
        return {"outer": level, "inner": level, "clusters": clusters, "cluster_size": 2}

    moves = dict(trajectories([1, 40], [mapping(8, 4), mapping(2, 16)], 100))
    assert list(moves) == ["cluster tiles", "PE tiles", "clusters and PEs"]
    first = moves["cluster tiles"].series[0]
    assert (first.name, first.x, first.y) == ("K", [1, 40, 100], [8.0, 2.0, 2.0])
    assert moves["clusters and PEs"].series[0].y == [4.0, 16.0, 16.0]
