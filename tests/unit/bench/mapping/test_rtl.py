# SPDX-License-Identifier: Apache-2.0
"""Predicted against measured: a whole schedule space of a small layer."""

from __future__ import annotations

import numpy as np

from tilewright.bench.mapping.rtl import figures, layer_rows
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d


def test_ranks_of_a_whole_space_agree_and_no_measurement_is_below_the_array():
    layer = conv2d("small", 8, 16, 16, 3, 1, 1)
    rows = list(layer_rows(load_hwconfig("tiny-4x4"), load_memory("ideal"), [layer], "vta"))
    found = {row["assumption"]: row for row in rows}
    assert all(row["schedules"] > 50 and row["compute_above_measured"] == 0 for row in rows)
    threads, always = found["overlapped with threads alone"], found["always overlapped"]
    assert threads["spearman"] > 0.6  # tiles are small: latency of DRAM, which no model here has
    assert threads["spearman"] >= always["spearman"]


def test_figures_tell_what_the_choice_costs():
    predicted, measured = np.array([1.0, 1.0, 2.0, 4.0]), np.array([2.0, 4.0, 2.0, 4.0])
    assert figures(predicted, measured) == {
        "spearman": 0.2357,
        "least_ratio": 0.25,
        "median_ratio": 0.75,
        "largest_ratio": 1.0,
        "regret_pct": 50.0,
    }
