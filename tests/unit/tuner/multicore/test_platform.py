# SPDX-License-Identifier: Apache-2.0
"""Platforms: those that ship, and one clear message for each bad field."""

from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from support.randomness import fresh_rng, where

from tilewright.host.common.errors import ConfigError, WorkloadError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.system_config import SystemConfig, SystemCore
from tilewright.tuner.mapping.architecture import Architecture
from tilewright.tuner.multicore.pipeline import best_cut
from tilewright.tuner.multicore.platform import (
    load_platform,
    named_platforms,
    regulation_of,
)

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


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("clock_mhz: 100", "clock_mhz: 0", "clock_mhz: must be a number from 1e-100 .*, not 0"),
        ("clock_mhz: 100", "clock_mhz: fast", "clock_mhz: must be a number from 1e-100"),
        ("clock_mhz: 100", f"clock_mhz: 1{'0' * 400}", "integers must be below 2"),
        ("clock_mhz: 100\n", "", "mine.yaml: clock_mhz: must be stated"),
        ("clock_mhz: 100", "clock_mhz: 100\nclok: 1", "clok: unknown key; did you mean clock_mhz"),
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


# -- systems of our hardware, as platforms of the model -------------------------------------------

HW = load_hwconfig("tiny-4x4")


def test_budgets_become_bytes_and_weights_shares():
    system = SystemConfig(
        window=64,
        cores=(
            SystemCore(hw=HW, weight=3, read_budget=10, write_budget=6),
            SystemCore(hw=HW, read_budget=10),
            SystemCore(hw=HW),
        ),
    )
    rules = regulation_of(system)
    assert rules.window == 64
    assert rules.budgets == (16 * HW.axi_bytes, np.inf, np.inf)
    of_reads = regulation_of(system, reads=True)
    assert of_reads.budgets == (10 * HW.axi_bytes, 10 * HW.axi_bytes, np.inf)
    assert rules.weights[0] == 3 * rules.weights[1] == 3 * rules.weights[2]


# -- the cut into stages --------------------------------------------------------------------------


def slowest(costs, places, cores):
    edges = [0, *places, costs.shape[1]]
    return max(costs[core, edges[n] : edges[n + 1]].sum() for n, core in enumerate(cores))


def every_cut(costs, moved, fixed):
    """(slowest stage, bytes) of every legal cut."""
    count, operators = costs.shape
    orders = [tuple(fixed)] if fixed else [
        order for n in range(1, count + 1) for order in permutations(range(count), n)
    ]  # fmt: skip
    for cores in orders:
        for places in combinations(range(1, operators), len(cores) - 1):
            yield slowest(costs, places, cores), sum(moved[p] for p in places)


@pytest.mark.parametrize("fixed", [None, (2, 0)])
def test_no_cut_is_better(fixed):
    rng = fresh_rng()
    for _ in range(20):
        operators = int(rng.integers(3, 7))
        costs = rng.integers(0, 9, (3, operators)).astype(float)
        if rng.random() < 0.5:
            costs[1] = costs[0]
        moved = rng.integers(0, 100, operators).tolist()
        found = best_cut(costs, moved, fixed)
        best = min(every_cut(costs, moved, fixed))
        assert (found.cycles, found.moved) == pytest.approx(best), where(costs=costs, moved=moved)
        assert slowest(costs, found.places, found.cores) == found.cycles
        assert sum(moved[p] for p in found.places) == found.moved


def test_more_fixed_cores_than_operators_are_refused():
    with pytest.raises(WorkloadError, match="no more stages than that"):
        best_cut(np.ones((2, 1)), [0], (0, 1))
