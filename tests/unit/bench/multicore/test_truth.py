# SPDX-License-Identifier: Apache-2.0
"""Predicted makespans and measured ones: what is counted, and that the hardware really runs."""

from dataclasses import replace

import pytest

from tilewright.bench.commands import TruthSettings
from tilewright.bench.framework.study import run_study
from tilewright.bench.multicore.truth import MODELS, Truth, small_networks, summarise
from tilewright.cli.multicore_options import SystemDeviceName
from tilewright.host.common.errors import WorkloadError


def row(method: str, model: str, predicted: tuple[int, ...], measured: int) -> dict:
    return {
        "system": "s", "task": "t", "seed": 0, "bytes_per_cycle": 2.0, "method": method,
        "searched_with": model, "predicted": dict(zip(MODELS, predicted, strict=True)),
        "measured": measured, "exact": True,
    }  # fmt: skip


ROWS = [
    row("random", "fluid", (50, 80, 110, 110), 100),
    row("tilewright", "fluid", (40, 90, 121, 121), 120),
    row("tilewright", "arbitrated", (60, 70, 99, 99), 100),
]


def test_errors_regrets_and_gain_follow_from_the_rows():
    found = summarise(ROWS)
    assert (found["rtl_groups"], found["rtl_runs"], found["exact"]) == (1, 3, True)
    assert found["rtl_prediction_error_pct"] == 1.0
    assert found["error_pct"]["fluid"] == {"median": 50.0, "largest": 66.667}
    assert found["choice_regret_pct"]["fluid"] == {"mean": 20.0, "largest": 20.0}
    assert found["choice_regret_pct"]["arbitrated"]["mean"] == 0.0
    assert found["mended_search_gain"] == 1.2
    assert summarise(ROWS[:2])["mended_search_gain"] is None
    line = Truth(TruthSettings()).line
    assert "fluid -50.0 %, directions -20.0 %, alone +10.0 %, arbitrated +10.0 %" in line(ROWS[0])


def test_a_task_without_small_layers_is_refused():
    with pytest.raises(WorkloadError, match="no layer of at most 10 multiply-accumulates"):
        small_networks("vision", 10)


SMALL = TruthSettings(
    systems=("dual-tiny",), tasks=("recommendation",), bandwidths=(2.0,), seeds=1, size=4,
    methods=("fcfs-greedy",),
)  # fmt: skip


def test_a_group_takes_the_same_cycles_on_the_twin_and_the_mended_model_is_nearest():
    wanted = run_study(Truth(SMALL))
    result = run_study(Truth(replace(SMALL, device=SystemDeviceName.TWIN)))
    assert wanted.passed
    assert len(wanted.rows) == 1
    assert result.rows == wanted.rows
    assert result.conditions["fidelity"] == "twin"
    errors = wanted.summary["error_pct"]
    assert errors["arbitrated"]["largest"] < 5 < errors["fluid"]["median"]
