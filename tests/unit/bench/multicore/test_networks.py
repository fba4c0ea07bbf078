# SPDX-License-Identifier: Apache-2.0
"""A stream and a small network: what the rows say, and that both kinds of hardware really run."""

import pytest

from tilewright.bench.commands import PipelineSettings, SideBySideSettings
from tilewright.bench.framework.study import run_study
from tilewright.bench.multicore.networks import Pipelines, SideBySide, imported, summarise
from tilewright.host.common.errors import ConfigError


def row(how, network, worst, per_second):
    return {
        "stream": "big", "small": "tiny", "how": how, "network": network, "frames": 2,
        "programs": 1, "alone_cycles": 100, "together_cycles": 110.0, "slow_down": 1.1,
        "latency_first": 100, "latency_median": 105.0, "latency_worst": worst,
        "latency_worst_ms": worst / 1e5, "frames_per_s": per_second, "jain": 1.0,
        "wrong_bytes": 0,
    }  # fmt: skip


def test_gain_and_cost_compare_turns_with_cores_of_their_own():
    rows = [
        row("side by side", "big", 900, 10.0), row("side by side", "tiny", 50, 400.0),
        row("turns, one each", "big", 700, 14.0), row("turns, one each", "tiny", 750, 14.0),
        row("turns, as often", "big", 700, 12.0), row("turns, as often", "tiny", 650, 480.0),
    ]  # fmt: skip
    assert summarise(rows) == {"worst_latency_gain": {"tiny": 15.0}, "stream_cost": {"tiny": 1.2}}
    line = SideBySide(SideBySideSettings()).line
    assert "bit-exact" in line(rows[0])
    assert "3 WRONG BYTES" in line({**rows[0], "wrong_bytes": 3})
    assert "exact" not in line({**rows[0], "wrong_bytes": None})


def test_a_network_that_there_is_not_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean keyword"):
        imported("keywort")


@pytest.mark.slow
def test_a_pair_runs_on_two_cores_and_in_turns_on_one():
    settings = SideBySideSettings(
        system="dual-tiny", one="tiny-4x4", stream="keyword", small=("digits",), frames=1, search=0
    )
    result = run_study(SideBySide(settings))
    told = result.rows
    assert result.passed
    assert result.summary["wrong_bytes"] == 0
    assert [each["how"] for each in told[::2]] == [
        "side by side", "side by side, small first", "turns, one each", "turns, as often"
    ]  # fmt: skip
    side, first, turn = told[1], told[3], told[5]
    assert first["latency_worst"] <= side["latency_worst"]
    assert turn["latency_worst"] > told[4]["alone_cycles"] > side["latency_worst"]
    assert told[7]["frames"] == side["frames"] > turn["frames"]


@pytest.mark.slow
def test_a_network_in_stages_is_compared_with_one_core():
    study = Pipelines(PipelineSettings(quick=True, network="digits", search=0))
    result = run_study(study)
    (found,) = result.rows
    assert result.passed
    assert (found["wrong_bytes"], found["wrong_elements"]) == (0, 0)
    assert found["tick_cycles"] < found["whole"]["tiny-4x4"]["cycles"]
    assert "whole on edge-8x8" in study.line(found)
    gain = found["frames_per_s"] / found["whole"]["edge-8x8"]["frames_per_s"]
    assert result.summary["pipeline_over_one"]["dual-tiny"] == pytest.approx(gain, abs=1e-3)
