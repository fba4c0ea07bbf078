# SPDX-License-Identifier: Apache-2.0
"""Described accelerators: what ships, where its figures come from, and what is refused."""

import math
from dataclasses import MISSING, fields, replace

import pytest

from tilewright.host.common.errors import ConfigError
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.tuner.mapping.architecture import (
    ARCHITECTURE_DIR,
    Architecture,
    load_architecture,
    named_architectures,
)
from tilewright.tuner.mapping.cost import CostModel
from tilewright.tuner.mapping.mapping import Level, Mapping
from tilewright.tuner.mapping.nest import LoopNest

FILES = sorted(path.stem for path in ARCHITECTURE_DIR.glob("*.yaml"))


@pytest.mark.parametrize("name", named_architectures())
def test_a_shipped_architecture_runs_a_layer(name):
    arch = load_architecture(name)
    outer, inner = arch.outer_parallel[0], arch.inner_parallel[0]
    nest = LoopNest(name="conv", sizes=(8, 8, 8, 8, 3, 3))
    level = Level(tile=(1, 1, 1, 1, 1, 1), order="KCYXRS", parallel=outer)
    mapping = Mapping(outer=level, inner=replace(level, parallel=inner), clusters=1, cluster_size=1)
    cost = CostModel(nest, arch).cost(mapping)
    assert cost["cycles"] >= nest.macs


@pytest.mark.parametrize("name", FILES)
def test_every_figure_of_a_shipped_architecture_has_a_source(name):
    data = read_yaml_mapping(ARCHITECTURE_DIR / f"{name}.yaml", "an architecture")
    told = [field.strip() for key in data["sources"] for field in key.split(",")]
    assert len(told) == len(set(told))
    assert set(told) <= {f.name for f in fields(Architecture)}
    assert set(data) - {"sources"} <= set(told)
    unsaid = {f.name for f in fields(Architecture) if f.default is MISSING} - {"name", "sources"}
    assert unsaid <= set(data)


@pytest.mark.parametrize(
    ("limits", "clusters", "cluster_size", "legal"),
    [
        ({}, 256, 1, True),
        ({}, 128, 3, False),
        ({"max_clusters": 16}, 16, 16, True),
        ({"max_clusters": 16}, 17, 1, False),
        ({"max_cluster_size": 16}, 16, 16, True),
        ({"max_cluster_size": 16}, 1, 17, False),
    ],
)
def test_an_array_of_fixed_shape_refuses_other_shapes(limits, clusters, cluster_size, legal):
    arch = replace(load_architecture("flexible-256"), **limits)
    level = Level(tile=(1, 1, 1, 1, 1, 1), order="KCYXRS", parallel="K")
    mapping = Mapping(outer=level, inner=level, clusters=clusters, cluster_size=cluster_size)
    model = CostModel(LoopNest(name="fc", sizes=(512, 512, 1, 1, 1, 1)), arch)
    if legal:
        assert model.cost(mapping)["pes"] == clusters * cluster_size
    else:
        with pytest.raises(ConfigError, match=r"must be at most .*256 PEs of flexible-256"):
            model.cost(mapping)


@pytest.mark.parametrize(
    "change",
    [
        {"pes": 0},
        {"max_clusters": -1},
        {"max_cluster_size": 1.5},
        {"buffers": 3},
        {"noc_bytes_per_cycle": 0},
        {"dram_energy": -1},
        {"partial_bytes": 0.5},
        {"outer_parallel": ""},
        {"inner_parallel": "KK"},
        {"inner_parallel": "N"},
        {"l1_energy": 10**400},
        {"dram_energy": 1e300},
        {"noc_bytes_per_cycle": 1e-300},
        {"noc_bytes_per_cycle": math.nan},
        {"dram_bytes_per_cycle": math.inf},
        {"name": 5},
        {"name": "two\nlines"},
        {"sources": 5},
    ],
)
def test_refuses_what_no_accelerator_has(change):
    with pytest.raises(ConfigError):
        replace(load_architecture("flexible-256"), **change)
