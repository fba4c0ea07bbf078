# SPDX-License-Identifier: Apache-2.0
"""VTA's ResNet-18 benchmark layers on the full RTL of `pynq-16x16`, untuned: bit-exact."""

import numpy as np
import pytest
from support.randomness import generator, where

from tilewright.host.lowering import default_schedule, lower
from tilewright.host.lowering.cycle_bound import bound
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.zoo import load_network
from tilewright.sim.verilator.device import VerilatorDevice

HW = load_hwconfig("pynq-16x16")
IDEAL = load_memory("ideal")
NETWORK = load_network("vta-resnet18")
OFFLOADED = [workload.name for workload in NETWORK.workloads if workload.name != "C1"]


def check(name):
    workload = NETWORK[name]
    rng = generator(name)
    low = lower(HW, workload, default_schedule(HW, workload))
    tensors = random_tensors(workload, rng)
    device = VerilatorDevice(HW, IDEAL)
    try:
        result = device.run(low.program, low.image(tensors))
    finally:
        device.close()
    wrong = np.count_nonzero(low.output(result.memory) != conv2d_int8(workload, tensors))
    assert not wrong, where(layer=name, wrong=wrong)
    assert result.counters["macs_tiles"] == low.macs_tiles == workload.macs // HW.macs_per_cycle
    assert result.counters["bytes_written"] == int(np.prod(workload.output_shape))
    assert result.counters.cycles >= bound(HW, workload, IDEAL).cycles
    assert result.counters.cycles >= low.macs_tiles


def test_the_table_holds_ten_offloaded_layers():
    assert len(OFFLOADED) == 10
    assert set(OFFLOADED) == {f"C{number}" for number in range(2, 12)}


@pytest.mark.slow
@pytest.mark.parametrize("name", OFFLOADED)
def test_every_layer_is_bit_exact(name):
    check(name)


def test_c4_and_a_random_layer_are_bit_exact():
    rng = generator("which layer")
    check("C4")
    check(str(rng.choice([name for name in OFFLOADED if name != "C4"])))
