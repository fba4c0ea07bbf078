# SPDX-License-Identifier: Apache-2.0
"""Tilewright's accelerator as an architecture, and its schedules as mappings."""

from dataclasses import replace

import pytest

from tilewright.bench.mapping.rtl import mapping_of_schedule
from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import LoopOrder, Schedule
from tilewright.host.network.workload import conv2d
from tilewright.tuner.mapping.architecture import accelerator_architecture, load_architecture
from tilewright.tuner.mapping.cost import CostModel
from tilewright.tuner.mapping.nest import Tensor, nest_of

HW = load_hwconfig("pynq-16x16")
NEST = nest_of(conv2d("c", 28, 128, 128, 3, 1, 1))


def cost(**changes: object) -> dict[str, float]:
    values = {"tile_h": 7, "tile_w": 7, "tile_ci": 2, "tile_co": 2} | changes
    mapping = mapping_of_schedule(HW, NEST, Schedule(**values))
    arch = replace(load_architecture("tilewright-pynq-16x16"), l2_bytes=0)
    return CostModel(NEST, arch).cost(mapping)


def test_the_array_and_its_scratchpads_are_those_of_the_configuration():
    arch = load_architecture("tilewright-pynq-16x16")
    assert (arch.pes, arch.max_clusters, arch.max_cluster_size) == (256, 16, 16)
    assert arch.l2_bytes == HW.inp_bytes + HW.wgt_bytes + HW.acc_bytes
    assert arch.dram_bytes_per_cycle == 8


def test_scratchpads_feed_the_array_in_every_cycle():
    found, arch = cost(), load_architecture("tilewright-pynq-16x16")
    assert found["compute_cycles"] == NEST.macs / 256
    assert found["noc_in_bytes"] / arch.noc_bytes_per_cycle <= found["compute_cycles"]
    assert found["noc_out_bytes"] / arch.noc_bytes_per_cycle <= found["compute_cycles"]


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
        accelerator_architecture(load_hwconfig("batch2-8x16"), load_memory("ideal"))
