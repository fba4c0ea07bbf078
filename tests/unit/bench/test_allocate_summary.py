# SPDX-License-Identifier: Apache-2.0
"""Figures of `bench.allocate` from hand-made rows."""

import json

import numpy as np
from support.command_line import call

from tilewright.bench.allocate import summary

NEAR = 1.01


def test_networks_that_share_layers_are_one_finding():
    found = summary.over_families({"vgg13": 4.0, "vgg16": 4.0, "vgg19": 4.0, "alexnet": 1.0})
    assert found["families"] == 2
    assert found["mean"] == 2.0
    assert found["low"] < 0.01  # two findings say next to nothing


def test_a_verdict_is_that_of_the_interval_and_needs_families():
    def verdict(*ratios):
        return summary.over_families({"abcdef"[n]: r for n, r in enumerate(ratios)})["verdict"]

    assert verdict(1.2, 1.3, 1.2, 1.4, 1.3) == "ahead"
    assert verdict(0.7, 0.9, 0.8, 0.9, 0.8) == "behind"
    assert verdict(0.7, 1.4, 0.8, 1.3, 1.1) == "tie"
    assert verdict(1.2, 1.3, 1.2, 1.4) == "untold"


def test_an_interval_covers_the_truth_as_often_as_it_says():
    """A percentile bootstrap over six families covers 86 %."""
    rng, covered = np.random.default_rng(0), 0
    for _ in range(2000):
        ratios = np.exp(rng.normal(size=6))
        found = summary.over_families({"abcdef"[n]: r for n, r in enumerate(ratios)})
        covered += found["low"] <= 1 <= found["high"]
    assert 0.93 < covered / 2000 < 0.97


def rows():
    common = {"price": "rtl", "seed": 0}
    for network in ("alexnet", "resnet18"):
        here = common | {"network": network}
        for name, final in (("dynatune", 90), ("sequential", 95)):
            yield here | {
                "what": "run", "allocator": name, "deciding_seconds": 1.0, "budget_seconds": 99.0,
                "warm_up_seconds": 1.0, "slot_seconds": 9.0, "final_cycles": final,
                "start_cycles": 100, "mean_excess": 0.1, "seconds_to_final": 60.0,
                "least_seconds_to_final": 20.0,
            }  # fmt: skip
        yield here | {
            "what": "oracle", "final_cycles": 89, "start_cycles": 100, "mean_excess": 0.02,
        }  # fmt: skip
        yield here | {
            "what": "forecast", "expected": 0.1, "came": 0.2, "rank_correlation": 0.3,
        }  # fmt: skip
        for near in (1.0, NEAR):
            yield here | {
                "what": "pair", "challenger": "dynatune", "baseline": "sequential", "within": near,
                "speedup": 2.0, "censored": 0,
            }  # fmt: skip


def test_the_tables_tell_ratios_limits_and_the_oracle(tmp_path):
    records = list(rows())
    figures = summary.summarise(records)
    assert figures["speedup_over_networks"]["dynatune"]["sequential"]["mean"] == 2.0
    assert figures["limit_of_any_allocator"]["alexnet"]["sequential"]["median"] == 3.0
    assert figures["mean_excess"]["resnet18"]["oracle"] == 0.02
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"rows": records, "summary": figures}))
    result = call("bench", "allocate-tables", str(path))
    assert result.exit_code == 0
    out = result.stdout
    assert "| sequential | 2.00 (2.00 to 2.00), untold |" in out
    assert "| dynatune against | alexnet (1) | resnet18 (1) |" in out
    assert "| sequential | 3.00 (3.00 to 3.00) | 3.00 (3.00 to 3.00) |" in out
    assert "| oracle | 2.0 %, 0.890 | 2.0 %, 0.890 |" in out
