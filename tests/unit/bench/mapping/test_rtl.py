# SPDX-License-Identifier: Apache-2.0
"""Predicted against measured: a whole schedule space of a small layer."""

from pathlib import Path

import numpy as np
import pytest

from tilewright.bench.commands import ModelsSettings
from tilewright.bench.framework.study import run_study
from tilewright.bench.mapping.models import Models, figures, layer_rows, layers_of
from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.workload import conv2d
from tilewright.host.network.zoo import load_network


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


def test_folded_layers_are_left_out_unless_they_are_named():
    hw, network = load_hwconfig("pynq-16x16"), load_network("vta-resnet18")
    found = [layer.name for layer in layers_of(hw, network, [])]
    assert "C2" in found
    assert "C1" not in found
    assert [layer.name for layer in layers_of(hw, network, ["C1"])] == ["C1"]


def test_the_benchmark_sums_up_all_three(capsys):
    here = Path(__file__).parent
    settings = ModelsSettings(
        maestro=here / "maestro", zigzag=here / "zigzag-3.9.1.csv", layers=("C11",)
    )
    result = run_study(Models(settings))
    assert result.passed
    assert result.summary["maestro_spearman"] > 0.97
    assert result.summary["zigzag_spearman"] > 0.99
    assert result.summary["rtl_spearman"]["overlapped with threads alone"]["C11"] > 0.99
    assert capsys.readouterr().out.count("against") == len(result.rows)


@pytest.mark.parametrize("which", ["maestro", "zigzag"])
@pytest.mark.parametrize("place", ["empty.csv", "none.csv", "."])
def test_what_holds_no_recorded_rows_is_refused(tmp_path, which, place):
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "dataflows.csv").write_text("layer,type\nC1,CONV\n")
    with pytest.raises(ConfigError, match="recorded rows"):
        run_study(Models(ModelsSettings(**{which: tmp_path / place}, layers=("C11",))))
