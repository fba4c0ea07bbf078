# SPDX-License-Identifier: Apache-2.0
"""Described accelerators: what ships, where its figures come from, and what is refused."""

import math
import re
from dataclasses import MISSING, fields, replace

import pytest
from hypothesis import given
from support.search.mappings import cases

from tilewright.bench.mapping.models import mapping_of_schedule
from tilewright.host.common.errors import ConfigError
from tilewright.host.common.yaml_files import read_yaml_mapping
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import LoopOrder, Schedule
from tilewright.host.network.workload import conv2d
from tilewright.tuner.mapping import architecture
from tilewright.tuner.mapping.cost import CostModel
from tilewright.tuner.mapping.exchange import loop_lines
from tilewright.tuner.mapping.mapping import Level, Mapping
from tilewright.tuner.mapping.nest import LoopNest, Tensor, nest_of

FILES = sorted(path.stem for path in architecture.ARCHITECTURE_DIR.glob("*.yaml"))


@pytest.mark.parametrize("name", architecture.named_architectures())
def test_a_shipped_architecture_runs_a_layer(name):
    arch = architecture.load_architecture(name)
    outer, inner = arch.outer_parallel[0], arch.inner_parallel[0]
    nest = LoopNest(name="conv", sizes=(8, 8, 8, 8, 3, 3))
    level = Level(tile=(1, 1, 1, 1, 1, 1), order="KCYXRS", parallel=outer)
    mapping = Mapping(outer=level, inner=replace(level, parallel=inner), clusters=1, cluster_size=1)
    assert CostModel(nest, arch).cost(mapping)["cycles"] >= nest.macs


@pytest.mark.parametrize("name", FILES)
def test_every_figure_of_a_shipped_architecture_has_a_source(name):
    data = read_yaml_mapping(architecture.ARCHITECTURE_DIR / f"{name}.yaml", "an architecture")
    told = [field.strip() for key in data["sources"] for field in key.split(",")]
    assert len(told) == len(set(told))
    assert set(told) <= {f.name for f in fields(architecture.Architecture)}
    assert set(data) - {"sources"} <= set(told)
    unsaid = {f.name for f in fields(architecture.Architecture) if f.default is MISSING} - {
        "name",
        "sources",
    }
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
    arch = replace(architecture.load_architecture("flexible-256"), **limits)
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
        replace(architecture.load_architecture("flexible-256"), **change)


# -- tilewright's accelerator as an architecture, and its schedules as mappings -------------------

HW = load_hwconfig("pynq-16x16")
NEST = nest_of(conv2d("c", 28, 128, 128, 3, 1, 1))


def cost(**changes: object) -> dict[str, float]:
    values = {"tile_h": 7, "tile_w": 7, "tile_ci": 2, "tile_co": 2} | changes
    mapping = mapping_of_schedule(HW, NEST, Schedule(**values))
    arch = replace(architecture.load_architecture("tilewright-pynq-16x16"), l2_bytes=0)
    return CostModel(NEST, arch).cost(mapping)


def test_the_array_and_its_scratchpads_are_those_of_the_configuration():
    arch = architecture.load_architecture("tilewright-pynq-16x16")
    assert (arch.pes, arch.max_clusters, arch.max_cluster_size) == (256, 16, 16)
    assert arch.l2_bytes == HW.inp_bytes + HW.wgt_bytes + HW.acc_bytes
    assert arch.dram_bytes_per_cycle == 8


@pytest.mark.parametrize(
    ("changes", "weights", "spatial"),
    [
        (
            {},
            16,
            4,
        ),  # weights again for each of 16 output tiles, inputs for each of 4 channel tiles
        ({"tile_ci": 8}, 16, 1),  # the whole reduction in one tile: inputs stay
        ({"tile_ci": 4}, 16, 4),  # one slot: two tiles that take turns are loaded again
        ({"tile_ci": 4, "oc_threading": 2}, 16, 1),  # two slots: they stay
        ({"oc_threading": 2}, 16, 2),  # a pair of channel tiles shares inputs
        ({"h_threading": 2}, 8, 4),  # a pair of row tiles shares weights
        ({"tile_co": 8, "tile_ci": 4, "h_threading": 2}, 1, 1),  # all weights in two slots
        ({"loop_order": LoopOrder.WEIGHT_STATIONARY}, 1, 4),
        ({"loop_order": LoopOrder.INPUT_STATIONARY}, 16, 1),
    ],
)
def test_dram_traffic_follows_what_stays_in_a_scratchpad(changes, weights, spatial):
    found = cost(**changes)
    assert found["dram_weight_bytes"] == weights * NEST.elements(Tensor.WEIGHTS)
    rows = 14 if "h_threading" in changes else 7
    halo = (28 // rows) * (rows + 2) * 4 * 9 * 128
    assert found["dram_input_bytes"] == spatial * halo
    assert found["dram_output_bytes"] == NEST.elements(Tensor.OUTPUTS)


def test_several_images_at_once_are_refused():
    with pytest.raises(ConfigError, match="no loop over images"):
        architecture.accelerator_architecture(load_hwconfig("batch2-8x16"), load_memory("ideal"))


# -- the printed loops are those of the mapping ---------------------------------------------------


@given(cases(even=True))
def test_trips_tiles_and_the_pe_tile_multiply_to_all_iterations(
    case: tuple[LoopNest, Mapping],
) -> None:
    nest, mapping = case
    notes = [line.rsplit("# ", 1)[1] for line in loop_lines(nest, mapping)]
    counts = [int(note.split()[0].replace(",", "")) for note in notes]
    assert math.prod(counts) == nest.macs


@given(cases())
def test_each_line_nests_in_the_one_before(case: tuple[LoopNest, Mapping]) -> None:
    lines = loop_lines(*case)
    for depth, line in enumerate(lines):
        assert re.match(rf" {{{2 * depth}}}\S", line)
    assert lines[-1].lstrip().startswith("multiply and add a tile of ")
    assert len({line.index("#") for line in lines}) == 1
