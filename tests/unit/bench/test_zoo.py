# SPDX-License-Identifier: Apache-2.0
"""The zoo's members, its figures on record, and what is made of the rows."""

import importlib
import subprocess
from pathlib import Path

import numpy as np
import pytest

from tilewright.bench.commands import DecodeSettings, FirstCountSettings, NetworksSettings
from tilewright.bench.framework.study import run_study
from tilewright.bench.hardware import roofline
from tilewright.bench.networks.zoo import (
    BEFORE_FILE,
    CONTROLS,
    MEMBERS,
    QUICK,
    TRAINED,
    Zoo,
    before_milliseconds,
    summary,
)
from tilewright.bench.speed import waits
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.network.zoo.transformer import decoder_block

PUBLISHED = {
    "resnet18": 11_689_512,
    "mobilenet-v2": 3_504_872,
    "squeezenet": 1_235_496,
    "efficientnet-b0": 5_288_548,
    "mobilenet-v3-small": 2_542_856,
    "yolov5n-like": 1_872_157,
    "densenet121": 7_978_856,
    "shufflenet-v2": 2_278_604,
    "vit-tiny": 5_717_416,
    "convnext-t": 28_589_128,
    "swin-t": 28_288_354,
}
"""Parameters of torchvision's, timm's and Ultralytics' networks of these names."""


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_definition_has_as_many_parameters_as_the_published_network(name) -> None:
    assert sum(p.numel() for p in MEMBERS[name].load().parameters()) == PUBLISHED[name]


def test_members_are_the_zoo_and_its_controls() -> None:
    assert [name for name, member in MEMBERS.items() if member.kind == "control"] == list(CONTROLS)
    assert set(TRAINED) | set(QUICK) <= {n for n, member in MEMBERS.items() if member.kind == "zoo"}


def test_an_input_is_always_the_same_and_bytes_where_the_network_takes_them() -> None:
    data = MEMBERS["file-classifier"].sample()
    assert data.dtype == np.int32
    assert (data.min(), data.max()) == (0, 255)
    image = MEMBERS["text-detector"].sample()
    assert image.dtype == np.float32
    np.testing.assert_array_equal(image, MEMBERS["text-detector"].sample())


def test_figures_on_record_are_of_the_zoo_and_hold_for_their_configuration_and_its_options():
    recorded = read_yaml_mapping(BEFORE_FILE, "figures")
    conditions = recorded["conditions"]
    before = before_milliseconds(conditions["hw"], conditions["board"])
    assert set(before) == set(recorded["milliseconds"]) == set(MEMBERS)
    assert before["bert-tiny"] == pytest.approx(sum(recorded["milliseconds"]["bert-tiny"].values()))
    assert before_milliseconds("pynq-16x32", conditions["board"]) == {}
    assert before_milliseconds("pynq-16x16-act", conditions["board"]) == before


def test_a_network_whose_package_is_missing_is_left_out_and_fails_nothing(monkeypatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "magika" else found(name)
    )
    settings = NetworksSettings(zoo=True, networks=("file-classifier",), search=0)
    result = run_study(Zoo(settings))
    assert result.passed
    assert not result.rows
    assert "magika==1.0.2" in result.summary["left_out"]["file-classifier"]
    assert result.summary["failures"] == {}


def row(name: str, milliseconds: float, share: float, host: float, **more) -> dict[str, object]:
    return {
        "network": name,
        "kind": "zoo",
        "regions": 1,
        "mac_share": share,
        "cpu_and_crossings_share": 1 - share,
        "milliseconds": milliseconds,
        "host_milliseconds": host,
        "host_milliseconds_here": 2.0,
        **more,
    }


def test_the_summary_tells_the_worst_network_and_the_mean_speed_up() -> None:
    rows = [row("a", 10, 0.9, 8.0), row("b", 10, 0.5, 0.5, regions=3), row("new", 10, 1.0, 4.0)]
    found = summary(rows, {"a": 20.0, "b": 80.0, "gone": 1.0})
    assert found["zoo"] == {
        "most_regions": 3,
        "worst_mac_share": 0.5,
        "worst_cpu_and_crossings_share": 0.5,
        "geomean_speedup": pytest.approx(4),
        "geomean_speedup_with_controls": pytest.approx(4),
        "controls_worst_ratio": None,
        "networks": 3,
        "networks_with_before": 2,
        "controls": 0,
        "before_hw": "pynq-16x16",
    }
    # the CPU part of b is too small to be compared with this machine
    assert found["host_factor"] == {"median": 4.0, "least": 2.0, "most": 4.0}
    assert summary([], {})["zoo"]["geomean_speedup"] is None


# -- tokens per second ----------------------------------------------------------------------------


def test_a_token_needs_every_weight_of_a_block_once() -> None:
    block = decoder_block(width=128, context=32, weight_bits=4)
    weighted = [layer for layer in block if layer.weight_bits == 4]
    assert sum(layer.macs for layer in weighted) == 12 * 128**2
    cached = [layer for layer in block if layer.weight_bits == 8]
    assert sum(layer.macs * layer.count for layer in cached) == 2 * 128 * 32


def test_tokens_per_second_are_those_of_all_layers_in_turn() -> None:
    rows = [{"cycles": 100, "of_token": 3}, {"cycles": 50, "of_token": 4}]
    assert roofline.tokens_per_second(rows, 100.0) == 100e6 / 500


def test_weights_of_4_bits_are_faster(capsys) -> None:
    settings = DecodeSettings(
        hw="tiny-4x4", width=64, context=8, blocks=2, words=0, search_cycles=1
    )
    result = run_study(roofline.Decode(settings))
    assert {row["weight_bits"] for row in result.rows} == {4, 8}
    assert all(row["cycles"] >= row["bound"] for row in result.rows)
    assert result.summary["int4_over_int8"] > 1.2
    assert "per token" in capsys.readouterr().out


# -- time to the first cycle count ----------------------------------------------------------------

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


@pytest.mark.slow
def test_what_a_user_sees_is_timed() -> None:
    settings = FirstCountSettings(networks=(str(DIGITS),), hw="tiny-4x4", repeat=2)
    study = waits.FirstCount(settings)
    result = run_study(study)
    (row,) = result.rows
    assert 0 < row["progress_seconds"] <= row["count_seconds"] <= row["whole_seconds"]
    for what in ("progress", "count", "whole", "cpu"):
        least, most = (row[f"{what}_seconds_{end}"] for end in ("least", "most"))
        assert 0 < least <= row[f"{what}_seconds"] <= most
    assert f"| {DIGITS} | " in study.text(result.document)


def test_a_command_that_fails_is_no_time(tmp_path) -> None:
    (tmp_path / "no.onnx").write_bytes(b"no model")
    with pytest.raises(subprocess.CalledProcessError):
        waits.measure(tmp_path / "no.onnx", "tiny-4x4", tmp_path)
