# SPDX-License-Identifier: Apache-2.0
"""`CxxrtlDevice`: a second simulator of the RTL agrees with the first in every byte and counter.

A model takes about 40 s of compiler time, so that all of it is slow. The contract's configurations
are the small one only: the compiler needs many minutes for the large arrays.
"""

import numpy as np
import pytest
from support.programs.drawing import any_layer
from support.randomness import generator, where

from tilewright.host.common.errors import DeviceError
from tilewright.host.lowering import default_schedule, lower
from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.workload import conv2d
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verilator.cxxrtl import CxxrtlDevice, build_cxxrtl
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.sim.verilator.library import AxiResponseCode
from tilewright.testing import device_contract

pytestmark = pytest.mark.slow

TINY = load_hwconfig("tiny-4x4")
ODD = HwConfig(
    name="odd", batch=2, block_in=4, block_out=8, axi_data_bits=128, axi_burst_beats=8,
    read_outstanding=3, write_outstanding=2, vector_lanes=4, mac_pipeline=3, inp_bytes=2048,
    wgt_bytes=4096, acc_bytes=8192, out_bytes=2048, uop_bytes=2048, res_bytes=2048,
    param_bytes=2048,
)  # fmt: skip
CONFIGS = {"tiny": TINY, "odd": ODD}
IDEAL = load_memory("ideal")
STALLING = MemoryModel(
    name="stalling", read_latency=19, write_latency=7, read_bytes_per_cycle=7,
    write_bytes_per_cycle=5, shared_bytes_per_cycle=9, max_reads=4, max_writes=3,
    stall_percent=25, stall_seed=11,
)  # fmt: skip
PROGRAMS = 100
"""Random programs for each configuration and memory."""

WATCHDOG = 3000


class TestCxxrtlDevice(device_contract.DeviceContract):
    def make_device(self, hw: HwConfig) -> CxxrtlDevice:
        return CxxrtlDevice(hw, IDEAL, watchdog_cycles=WATCHDOG)

    @pytest.mark.parametrize("name", ["tiny-4x4"])
    def test_random_programs_equal_the_reference(self, name: str) -> None:
        super().test_random_programs_equal_the_reference(name)


class Pair:
    """Both simulators of one configuration, and the reference for results and errors."""

    def __init__(self, hw: HwConfig, memory: MemoryModel) -> None:
        self.cxxrtl = CxxrtlDevice(hw, memory, watchdog_cycles=WATCHDOG)
        self.verilator = VerilatorDevice(hw, memory, watchdog_cycles=WATCHDOG)
        self.reference = ReferenceDevice(hw)

    def close(self) -> None:
        self.cxxrtl.close()
        self.verilator.close()

    def check(self, program, image, facts):
        """Run and compare; returns the memory."""
        mine, other = self.cxxrtl.run(program, image), self.verilator.run(program, image)
        expected = self.reference.run(program, image)
        assert np.array_equal(mine.memory, expected.memory), facts
        assert np.array_equal(other.memory, expected.memory), facts
        assert mine.counters.values == other.counters.values, facts
        for name in device_contract.COUNTED:
            assert mine.counters[name] == expected.counters[name], f"{name}: {facts}"
        assert mine.counters.cycles > 0, facts
        return mine.memory


@pytest.fixture(scope="module", params=CONFIGS)
def hw(request):
    return CONFIGS[request.param]


@pytest.fixture(params=[IDEAL, STALLING], ids=lambda memory: memory.name)
def pair(request, hw):
    both = Pair(hw, request.param)
    yield both
    both.close()


def test_random_programs_agree_in_memory_and_every_counter(pair):
    name = f"cxxrtl {pair.cxxrtl.hw.name} {pair.cxxrtl.memory.name}"
    rng = generator(name)
    for number in range(PROGRAMS):
        program, image = random_program(pair.cxxrtl.hw, rng, instructions=20)
        pair.check(program, image, where(test=name, number=number))


def test_a_lowered_layer_agrees(pair):
    rng, hw = generator("cxxrtl layer"), pair.cxxrtl.hw
    small = conv2d("small", 6, 5, 9, 3, 1, 1)
    for workload, schedule in ((small, default_schedule(hw, small)), any_layer(rng, hw)):
        low, tensors = lower(hw, workload, schedule), random_tensors(workload, rng)
        memory = pair.check(low.program, low.image(tensors), where(workload=workload))
        assert np.array_equal(low.output(memory), conv2d_int8(workload, tensors)), workload


def outcome(device, program, image):
    """Every part of the error status that a program ends with."""
    with pytest.raises(DeviceStatusError) as caught:
        device.run(program, image)
    error = caught.value
    return error.code, error.unit, error.instruction, error.wait_states


@pytest.mark.parametrize("case", sorted(device_contract.ERRORS))
def test_every_part_of_an_error_status_agrees(case):
    both = Pair(TINY, IDEAL)
    name, change, code = device_contract.ERRORS[case]
    steps = device_contract.legal_steps(TINY)
    steps[name] = (steps[name][0], {**steps[name][1], **change(TINY)})
    program = device_contract.build(TINY, *steps.values())
    mine = outcome(both.cxxrtl, program, device_contract.data_image(program))
    assert mine == outcome(both.verilator, program, device_contract.data_image(program))
    assert mine[0] is code
    both.close()


def test_a_watchdog_agrees_on_what_every_unit_waits_for():
    both = Pair(TINY, IDEAL)
    opcode, values = device_contract.legal_steps(TINY)["inp"]
    program = device_contract.build(TINY, (opcode, {**values, "pop": 0b0010}))
    image = device_contract.data_image(program)
    assert outcome(both.cxxrtl, program, image) == outcome(both.verilator, program, image)
    both.close()


@pytest.mark.parametrize("response", list(AxiResponseCode))
def test_a_bus_error_agrees(response):
    both = Pair(TINY, IDEAL)
    program = device_contract.build(TINY, *device_contract.legal_steps(TINY).values())
    image = device_contract.data_image(program)
    for device in (both.cxxrtl, both.verilator):
        device.inject_fault(program.regions["data"].offset, 64, response=response)
    assert outcome(both.cxxrtl, program, image) == outcome(both.verilator, program, image)
    both.close()


def test_refuses_a_library_of_another_configuration():
    other = TINY.with_(read_outstanding=TINY.read_outstanding + 1)
    with pytest.raises(DeviceError, match="CONFIG_HASH"):
        CxxrtlDevice(other, IDEAL, library=build_cxxrtl(TINY))
