# SPDX-License-Identifier: Apache-2.0
"""Mappings in the formats of Timeloop and ZigZag cut every loop as the mapping does."""

import math
import re

import pytest
import yaml
from hypothesis import given
from support.search.mappings import cases

from tilewright.tuner.mapping.exchange import TIMELOOP_NAMES, factors_of, timeloop_yaml, zigzag_yaml
from tilewright.tuner.mapping.mapping import Level, Mapping
from tilewright.tuner.mapping.nest import DIMENSIONS, LoopNest, NestKind

NEST = LoopNest(name="fc", sizes=(10, 256, 1, 1, 1, 1))
MAPPING = Mapping(
    outer=Level(tile=(3, 256, 1, 1, 1, 1), order="CKYXRS", parallel="K"),
    inner=Level(tile=(3, 8, 1, 1, 1, 1), order="KCYXRS", parallel="C"),
    clusters=2,
    cluster_size=16,
)


@given(cases())
def test_the_last_iterations_of_all_factors_meet_the_size(case: tuple[LoopNest, Mapping]) -> None:
    nest, mapping = case
    for (loop, cut), size in zip(factors_of(nest, mapping).items(), nest.sizes, strict=True):
        last = 0  # as Timeloop checks it: digits of the last index
        for factor, residual in zip(cut.all, cut.residuals(size), strict=True):
            assert 1 <= residual <= factor
            last = last * factor + residual - 1
        assert last + 1 == size, loop
        assert math.prod(cut.all) >= size


@given(cases(even=True))
def test_nothing_is_rounded_where_tiles_divide(case: tuple[LoopNest, Mapping]) -> None:
    nest, mapping = case
    for (loop, cut), size in zip(factors_of(nest, mapping).items(), nest.sizes, strict=True):
        d = DIMENSIONS.index(loop)
        assert not cut.rounded_from
        assert cut.tile == mapping.inner.tile[d]
        assert cut.tile * cut.pes * cut.trips1 == mapping.outer.tile[d]
        assert math.prod(cut.all) == size


def test_timeloop_has_levels_factors_residuals_and_orders() -> None:
    text = timeloop_yaml(NEST, MAPPING)
    levels = {(d["target"], d["type"]): d for d in yaml.safe_load(text)["mapping"]}
    outer = levels["DRAM", "temporal"]
    assert outer["factors"] == "K=2 C=1 Q=1 P=1 S=1 R=1 N=1"
    assert outer["permutation"] == "NRSPQKC"  # innermost first
    assert levels["L2", "spatial"]["factors"].startswith("K=2 C=1")
    assert levels["Cluster", "temporal"]["factors"].startswith("K=1 C=2")
    assert levels["Cluster", "spatial"]["factors"].startswith("K=1 C=16")
    assert levels["L1", "temporal"]["factors"].startswith("K=3,1 C=8")
    assert levels["Cluster", "bypass"]["bypass"] == ["Weights", "Inputs", "Outputs"]
    assert sorted(TIMELOOP_NAMES.values()) == sorted("RSPQCK")
    assert "rounded" not in text


def test_zigzag_has_the_array_and_its_loops_innermost_first() -> None:
    text = zigzag_yaml(NEST, MAPPING)
    (entry,) = yaml.safe_load(text)
    assert entry["name"] == "default"
    assert entry["spatial_mapping"] == {"D1": ["K, 2"], "D2": ["C, 16"]}
    assert entry["temporal_ordering"] == [["C", 8], ["K", 3], ["C", 2], ["K", 2]]
    assert entry["memory_operand_links"] == {"O": "O", "W": "I2", "I": "I1"}
    assert "# K: 10 is padded to 12; pad the layer's, too" in text


def test_zigzag_takes_no_empty_order() -> None:
    one = LoopNest(name="one", sizes=(1, 1, 1, 1, 1, 1))
    level = Level(tile=one.sizes, order="KCYXRS", parallel="K")
    (entry,) = yaml.safe_load(
        zigzag_yaml(one, Mapping(outer=level, inner=level, clusters=1, cluster_size=1))
    )
    assert "temporal_ordering" not in entry


@pytest.mark.parametrize("write", [timeloop_yaml, zigzag_yaml])
def test_a_tile_that_is_rounded_is_told(write) -> None:
    mapping = Mapping(
        outer=Level(tile=(5, 256, 1, 1, 1, 1), order="CKYXRS", parallel="K"),
        inner=MAPPING.inner,
        clusters=1,
        cluster_size=16,
    )
    text = write(NEST, mapping)
    assert "# K: a cluster's tile of 5 is rounded up to 6" in text
    assert re.search(r"mapping of 'fc': K 10, C 256", text)
    yaml.safe_load(text)


def test_groups_of_a_depthwise_nest_are_told() -> None:
    nest = LoopNest(name="dw", kind=NestKind.DEPTHWISE, sizes=NEST.sizes)
    assert "add [C] to the Outputs" in timeloop_yaml(nest, MAPPING)
    assert yaml.safe_load(zigzag_yaml(nest, MAPPING))[0]["spatial_mapping"]["D2"] == ["G, 16"]
