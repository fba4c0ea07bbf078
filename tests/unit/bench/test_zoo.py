# SPDX-License-Identifier: Apache-2.0
"""The zoo's definitions, its figures on record, and what is made of the rows."""

from __future__ import annotations

import pytest

from tilewright.bench.zoo import BEFORE_FILE, QUICK, ZOO, before_milliseconds, summary
from tilewright.host.common.yaml_files import read_yaml_mapping

PUBLISHED = {
    "resnet18": 11_689_512,
    "mobilenet-v2": 3_504_872,
    "squeezenet": 1_235_496,
    "efficientnet-b0": 5_288_548,
    "mobilenet-v3-small": 2_542_856,
    "densenet121": 7_978_856,
    "shufflenet-v2": 2_278_604,
    "vit-tiny": 5_717_416,
    "convnext-t": 28_589_128,
    "swin-t": 28_288_354,
}
"""Parameters of torchvision's and timm's networks of these names."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_definition_has_as_many_parameters_as_the_published_network(name) -> None:
    assert sum(p.numel() for p in ZOO[name].build().parameters()) == PUBLISHED[name]


def test_figures_on_record_are_of_the_zoo_and_hold_for_their_configuration_and_its_options():
    recorded = read_yaml_mapping(BEFORE_FILE, "figures")
    conditions = recorded["conditions"]
    before = before_milliseconds(conditions["hw"], conditions["board"])
    assert set(before) == set(recorded["milliseconds"]) <= set(ZOO)
    assert before["bert-tiny"] == pytest.approx(sum(recorded["milliseconds"]["bert-tiny"].values()))
    assert before_milliseconds("pynq-16x32", conditions["board"]) == {}
    assert before_milliseconds("pynq-16x16-act", conditions["board"]) == before
    assert set(QUICK) <= set(ZOO)


def row(name: str, milliseconds: float, share: float, host: float) -> dict[str, object]:
    return {
        "network": name,
        "mac_share": share,
        "cpu_and_crossings_share": 1 - share,
        "milliseconds": milliseconds,
        "host_milliseconds": host,
        "host_milliseconds_here": 2.0,
    }


def test_the_summary_tells_the_worst_network_and_the_mean_speed_up() -> None:
    rows = [row("a", 10, 0.9, 8.0), row("b", 10, 0.5, 0.5), row("new", 10, 1.0, 4.0)]
    found = summary(rows, {"a": 20.0, "b": 80.0, "gone": 1.0})
    assert found["zoo"] == {
        "worst_mac_share": 0.5,
        "worst_cpu_and_crossings_share": 0.5,
        "geomean_speedup": pytest.approx(4),
        "networks": 3,
        "networks_with_before": 2,
        "before_hw": "pynq-16x16",
    }
    # the CPU part of b is too small to be compared with this machine
    assert found["host_factor"] == {"median": 4.0, "least": 2.0, "most": 4.0}
    assert summary([], {})["zoo"]["geomean_speedup"] is None
