# SPDX-License-Identifier: Apache-2.0
"""Platforms: those that ship, and one clear message for each bad field."""

from collections import Counter

import pytest

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.multicore.platform import load_platform, named_platforms

PAPER = {
    "S1": {"hb-32x64": 4},
    "S2": {"hb-32x64": 3, "lb-32x64": 1},
    "S3": {"hb-128x64": 8},
    "S4": {"hb-128x64": 7, "lb-128x64": 1},
    "S5": {"hb-128x64": 3, "lb-128x64": 1, "hb-64x64": 3, "lb-64x64": 1},
    "S6": {"hb-128x64": 7, "lb-128x64": 1, "hb-64x64": 7, "lb-64x64": 1},
}


@pytest.mark.parametrize("name", PAPER)
def test_a_platform_of_the_paper_has_its_cores(name):
    platform = load_platform(name)
    assert Counter(core.name for core in platform.cores) == PAPER[name]
    for core in platform.cores:
        arch = core.hardware
        assert isinstance(arch, Architecture)
        rows = int(core.name.split("-")[1].split("x")[0])
        assert arch.pes == rows * 64 == arch.max_clusters * arch.max_cluster_size
        assert (arch.weight_bytes, arch.input_bytes, arch.buffers) == (1, 1, 2)
    assert platform.bytes_per_cycle(16) == 16


@pytest.mark.parametrize("name", named_platforms())
def test_every_figure_of_a_platform_has_a_source(name):
    platform = load_platform(name)
    told = " ".join(platform.sources)
    assert "clock_mhz" in told
    assert "bandwidths" in told
    assert platform.bandwidths


def test_cores_may_be_configurations_of_the_accelerator():
    platform = load_platform("pynq-2x16x16")
    assert [core.hardware for core in platform.cores] == [load_hwconfig("pynq-16x16")] * 2
    assert platform.bytes_per_cycle(0.8) == 8


def test_a_flexible_platform_differs_in_that_alone():
    fixed = load_platform("S2")
    flexible = fixed.flexible()
    assert flexible.name == "S2-flexible"
    assert all(core.flexible for core in flexible.cores)
    assert [(c.name, c.hardware) for c in flexible.cores] == [
        (c.name, c.hardware) for c in fixed.cores
    ]
    assert flexible.bandwidths == fixed.bandwidths


def test_a_flexible_platform_has_a_name():
    assert load_platform("S2-flexible") == load_platform("S2").flexible()
    with pytest.raises(ConfigError, match="no platform of that name"):
        load_platform("S9-flexible")


def test_a_loaded_platform_stays_as_it_is():
    platform = load_platform("S1")
    assert load_platform(platform) is platform


GOOD = (
    "clock_mhz: 100\nbandwidths: [1]\ncores: [{hwconfig: tiny-4x4, name: small, flexible: true}]\n"
)


def test_reads_a_file(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(GOOD)
    platform = load_platform(path)
    assert platform.name == "mine"
    (core,) = platform.cores
    assert (core.name, core.flexible) == ("small", True)
    assert isinstance(core.hardware, HwConfig)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("clock_mhz: 100", "clock_mhz: 0", "clock_mhz: must be a number from 1e-100 .*, not 0"),
        ("clock_mhz: 100", "clock_mhz: fast", "clock_mhz: must be a number from 1e-100"),
        ("clock_mhz: 100", f"clock_mhz: 1{'0' * 400}", "integers must be below 2"),
        ("clock_mhz: 100\n", "", "mine.yaml: a key is missing; add clock_mhz"),
        (
            "clock_mhz: 100",
            "clock_mhz: 100\nclok: 1",
            "clok: unknown key; did you mean clock_mhz",
        ),
        ("[1]", "[]", "bandwidths: must be a list of bandwidths in GB/s, not .*; write, for"),
        ("[1]", "1", "bandwidths: must be a list of bandwidths in GB/s, not 1"),
        ("[1]", "[4, 1]", r"bandwidths: must be ascending, not \[4, 1\]"),
        ("[1]", "[-1]", r"bandwidths\[0\]: must be a number from 1e-100 .*, not -1"),
        ("[{", "{", "cores: must be a list of cores"),
        (
            "[{hwconfig: tiny-4x4, name: small, flexible: true}]",
            "[]",
            "cores: must be from 1 to 64",
        ),
        (
            "[{hwconfig: tiny-4x4, name: small, flexible: true}]",
            "[7]",
            r"cores\[0\]: must be a mapp",
        ),
        ("hwconfig: tiny-4x4, ", "", r"cores\[0\]: must have either an architecture or a hwconfig"),
        ("flexible: true", "architecture: nvdla-like", "must have either an architecture or a hw"),
        ("flexible: true", "flexible: 1", r"cores\[0\]: flexible: must be true or false, not 1"),
        (
            "flexible: true",
            "count: 0",
            r"cores\[0\]: count: must be an integer from 1 to 64, not 0",
        ),
        ("flexible: true", "count: 65", "count: must be an integer from 1 to 64, not 65"),
        ("flexible: true", "pes: 4", r"cores\[0\]: pes: unknown key; known keys: architecture"),
        ("name: small", "name: 3", r"cores\[0\]: name: must be a name .*, not 3"),
        ("tiny-4x4", "tiny-4x5", r"cores\[0\]: .*tiny-4x5"),
        ("hwconfig: tiny-4x4", "architecture: eyeris", r"cores\[0\]: .*no architecture.*eyeris"),
        (
            "hwconfig: tiny-4x4",
            "architecture: nvdla-like, pes: 0",
            r"cores\[0\]: pes: must be an int",
        ),
    ],
)
def test_names_what_is_wrong_in_a_file(tmp_path, old, new, message):
    path = tmp_path / "mine.yaml"
    text = GOOD.replace(old, new)
    if new.startswith("{"):
        text = text.replace("}]", "}")
    path.write_text(text)
    with pytest.raises(ConfigError, match=message) as caught:
        load_platform(path)
    assert str(path) in caught.value.field


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"no platform of that name: 'S7'.*S1, S2"):
        load_platform("S7")
