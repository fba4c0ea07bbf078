# SPDX-License-Identifier: Apache-2.0
"""`VerilatorDevice` on the real RTL, against the functional reference and its own contract."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from support.programs.drawing import any_built
from support.programs.rtl import IDEAL, ROUGH
from support.programs.systems import program_of
from support.randomness import generator, sample, where

from tilewright.host.common.errors import ConfigError, DeviceError, DeviceTimeoutError, ProgramError
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.isa import Instruction, Memory, Opcode
from tilewright.host.machine.registers import COUNTERS, UNIT_COUNTER_STATES, UNIT_NAMES, ErrorCode
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.runtime.scrub import scrub
from tilewright.sim.executor.devices import run_on_device
from tilewright.sim.executor.job import OutcomeStatus
from tilewright.sim.executor.worker import WorkerPool
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.reference.footprint import scratchpads
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import MEMORY_BASE, VerilatorDevice
from tilewright.sim.verilator.library import AxiResponseCode, Simulation, SimulationError
from tilewright.testing.device_contract import DeviceContract
from tilewright.testing.residue import dirt, residue

TINY = load_hwconfig("tiny-4x4")


class TestVerilatorDevice(DeviceContract):
    def make_device(self, hw: HwConfig) -> VerilatorDevice:
        # A short watchdog: the contract's program that hangs need not run for a million cycles.
        return VerilatorDevice(hw, IDEAL, watchdog_cycles=20_000)


@pytest.fixture(scope="module")
def device():
    with_ideal = VerilatorDevice(TINY, IDEAL)
    yield with_ideal
    with_ideal.close()


def load(offset: int, tiles: int, **values: int) -> Instruction:
    shape = {"x_size": tiles, "y_size": 1, "z_size": 1, "y_stride": tiles, "z_stride": tiles}
    return Instruction(
        Opcode.LOAD, {"memory": Memory.INP, "dram_offset": offset, **shape, **values}
    )


LOADS = program_of(TINY, load(4096, 256), load(8192, 256, sram_base=256))
STUCK = program_of(TINY, load(4096, 1, pop=2))


@pytest.mark.parametrize("memory", [IDEAL, ROUGH], ids=lambda m: m.name)
def test_random_programs_equal_the_reference(memory):
    device, reference = VerilatorDevice(TINY, memory), ReferenceDevice(TINY)
    timed = {"macs_tiles", "vector_tiles", "bytes_written"}
    for seed in range(8):
        program, image = random_program(TINY, np.random.default_rng(seed))
        before = image.copy()
        measured, expected = device.run(program, image), reference.run(program, image)
        assert np.array_equal(measured.memory, expected.memory), f"seed {seed}"
        assert np.array_equal(image, before), "the caller's image must not change"
        for name in timed:
            assert measured.counters[name] == expected.counters[name], f"seed {seed}: {name}"
    device.close()


def test_equal_runs_count_equal_whatever_ran_before():
    program, image = random_program(TINY, np.random.default_rng(3))
    other, other_image = random_program(TINY, np.random.default_rng(4))
    first, second = VerilatorDevice(TINY, ROUGH), VerilatorDevice(TINY, ROUGH)
    wanted = first.run(program, image).counters
    second.run(other, other_image)
    assert second.run(program, image).counters == wanted
    assert first.run(program, image).counters == wanted


def test_a_run_does_not_wait_for_the_last_beat_of_a_failed_one():
    """A beat occupies this memory for 128 cycles: longer than a host needs to start again."""
    slow = replace(IDEAL, name="slow", read_bytes_per_cycle=TINY.axi_bytes / 128)
    device = VerilatorDevice(TINY, slow)
    wanted = device.run(LOADS, LOADS.image()).counters
    bad = program_of(TINY, load(4096, 1, z_size=0))
    with pytest.raises(DeviceStatusError):
        device.run(bad, bad.image())
    assert device.run(LOADS, LOADS.image()).counters == wanted
    device.close()


def test_every_counter_is_read_and_unit_states_sum_to_the_cycles(device):
    counters = device.run(*random_program(TINY, np.random.default_rng(5))).counters
    assert list(counters.values) == [name for name, _ in COUNTERS]
    assert counters.cycles > 0
    for unit in UNIT_NAMES:
        names = [f"{unit}_{s}" for s, _ in UNIT_COUNTER_STATES if s != f"token_{unit}"]
        assert sum(counters[name] for name in names) == counters.cycles, unit


def test_a_slower_memory_takes_more_cycles(device):
    slow = VerilatorDevice(TINY, replace(IDEAL, read_latency=200))
    image = LOADS.image()
    quick_run, slow_run = device.run(LOADS, image), slow.run(LOADS, image)
    assert slow_run.counters.cycles >= quick_run.counters.cycles + 184
    assert slow_run.counters["bytes_read"] == quick_run.counters["bytes_read"]


def test_an_error_status_names_its_parts_and_the_next_run_works(device):
    wanted = device.run(LOADS, LOADS.image()).counters
    depth = TINY.inp_depth
    bad = program_of(TINY, load(4096, 4), load(4096, 4, sram_base=depth - 3))
    with pytest.raises(DeviceStatusError) as error:
        device.run(bad, bad.image())
    assert (error.value.code, error.value.instruction) == (ErrorCode.SRAM_RANGE, 1)
    assert len(error.value.wait_states) == len(UNIT_NAMES)
    assert device.run(LOADS, LOADS.image()).counters == wanted


@pytest.mark.parametrize("response", list(AxiResponseCode))
def test_a_bus_error_is_reported_and_recovered_from(device, response):
    wanted = device.run(LOADS, LOADS.image()).counters
    device.inject_fault(8192, 64, response=response)
    with pytest.raises(DeviceStatusError) as error:
        device.run(LOADS, LOADS.image())
    assert (error.value.code, error.value.instruction) == (ErrorCode.AXI_READ, 1)
    device.inject_fault(0, 0)
    assert device.run(LOADS, LOADS.image()).counters == wanted


def test_the_watchdog_names_what_waits():
    device = VerilatorDevice(TINY, IDEAL, watchdog_cycles=500)
    with pytest.raises(DeviceStatusError, match="load waits for a token from gemm") as error:
        device.run(STUCK, STUCK.image())
    assert (error.value.code, error.value.instruction) == (ErrorCode.WATCHDOG, 0)
    device.run(LOADS, LOADS.image())


def test_the_cycle_limit_ends_a_run_and_the_next_one_works(device):
    wanted = device.run(LOADS, LOADS.image()).counters
    before = device.total_cycles
    with pytest.raises(DeviceTimeoutError, match="3000 cycles"):
        device.run(STUCK, STUCK.image(), max_cycles=3000)
    assert device.total_cycles - before < 3000 + 500
    assert device.run(LOADS, LOADS.image()).counters == wanted


def test_refuses_a_program_for_another_configuration(device):
    other = replace(LOADS, config_hash=LOADS.config_hash ^ 1)
    with pytest.raises(ProgramError, match="was built for configuration"):
        device.run(other, other.image())


@pytest.mark.parametrize("bad", [np.zeros(5, np.uint8), np.zeros(LOADS.memory_bytes, np.int8)])
def test_refuses_an_image_of_another_size_or_type(device, bad):
    with pytest.raises(ProgramError, match="memory must be a uint8 array"):
        device.run(LOADS, bad)


@pytest.mark.parametrize("watchdog", [-1, 2**32])
def test_refuses_a_watchdog_that_does_not_fit_the_register(watchdog):
    with pytest.raises(ConfigError, match="watchdog_cycles"):
        VerilatorDevice(TINY, IDEAL, watchdog_cycles=watchdog)


def test_refuses_a_library_of_another_configuration():
    other = TINY.with_(read_outstanding=TINY.read_outstanding + 1)
    with pytest.raises(DeviceError, match="CONFIG_HASH"):
        VerilatorDevice(other, IDEAL, library=build_model(TINY))


def test_a_closed_device_refuses_to_run():
    device = VerilatorDevice(TINY, IDEAL)
    device.close()
    device.close()
    with pytest.raises(DeviceError, match="closed"):
        device.run(LOADS, LOADS.image())


@pytest.mark.slow
def test_waves_are_a_readable_fst_file(tmp_path):
    path = tmp_path / "deep" / "run.fst"
    device = VerilatorDevice(TINY, IDEAL, waves=path)
    plain = VerilatorDevice(TINY, IDEAL).run(LOADS, LOADS.image())
    assert device.run(LOADS, LOADS.image()).counters == plain.counters
    device.close()
    header = path.read_bytes()[:330]
    assert header[0] == 0, "the first block of an FST file is its header"
    start, end = (int.from_bytes(header[9 + 8 * i : 17 + 8 * i], "big") for i in range(2))
    assert end - start >= 10 * plain.counters.cycles, "ten time units a cycle"


def test_a_build_without_waves_says_so(tmp_path):
    with pytest.raises(SimulationError, match="built without waves"):
        VerilatorDevice(TINY, IDEAL, waves=tmp_path / "x.fst", library=build_model(TINY))


def test_simulations_of_different_models_live_in_one_process(device):
    other_hw = TINY.with_(axi_data_bits=32)
    other = VerilatorDevice(other_hw, IDEAL)
    for seed in range(2):
        for each, hw in ((device, TINY), (other, other_hw)):
            program, image = random_program(hw, np.random.default_rng(seed))
            result = each.run(program, image)
            assert np.array_equal(result.memory, ReferenceDevice(hw).run(program, image).memory)


def test_a_run_can_also_end_by_polling_a_register():
    simulation = Simulation(build_model(TINY), max_burst_beats=16, memory=IDEAL)
    image = LOADS.image()
    simulation.attach(image, MEMORY_BASE)
    for address, value in ((0x30, 3), (0x34, MEMORY_BASE), (0x3C, image.nbytes), (0x0C, 1)):
        simulation.write(address, value)
    outcome = simulation.run(100_000, poll_interval=64, poll_address=0x10, poll_mask=0b110)
    assert outcome.reason.name == "STATUS"
    assert simulation.read(0x10) == 0b010
    with pytest.raises(SimulationError, match="max_cycles"):
        simulation.run(0)
    with pytest.raises(SimulationError, match="multiple of 4"):
        simulation.read(0x11)
    simulation.close()
    with pytest.raises(SimulationError, match="closed"):
        simulation.read(0x10)


def test_workers_run_jobs_on_kept_devices_and_report_device_errors():
    with WorkerPool(1, wall_limit_s=120) as pool:
        for job in range(3):
            program = STUCK if job == 1 else LOADS
            pool.submit(
                job,
                run_on_device,
                TINY,
                IDEAL,
                VerilatorDevice.run,
                program,
                program.image(),
                max_cycles=5000,
            )
        outcomes = {outcome.job_id: outcome for outcome in pool.results()}
    assert outcomes[0].value.counters == outcomes[2].value.counters
    assert outcomes[1].status is OutcomeStatus.ERROR
    assert isinstance(outcomes[1].error, DeviceTimeoutError)


def test_leaves_no_text_on_the_terminal():
    code = (
        "from tilewright.sim.verilator.device import VerilatorDevice as V\n"
        "from tilewright.host.machine.board import load_memory\n"
        "from tilewright.host.machine.hwconfig import load_hwconfig\n"
        "V(load_hwconfig('tiny-4x4'), load_memory('ideal')).close()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"", b"")


# -- what a run leaves behind ---------------------------------------------------------------


def any_device(hw: HwConfig) -> VerilatorDevice:
    return VerilatorDevice(hw, IDEAL)


def test_without_a_scrub_every_scratchpad_shows_what_was_there() -> None:
    """What the contract's scrub test reads is really there to be read."""
    hw = TINY.with_(activation_table=1)
    device, dirty = any_device(hw), dirt(hw)
    for memory in Memory:
        device.run(dirty, dirty.image())
        assert residue(device, memory), memory.name
    device.close()


@pytest.mark.parametrize("number", sample(1, 6))
def test_a_scrub_clears_every_scratchpad_of_any_configuration(number: int) -> None:
    hw = any_built(number, generator(f"scrub {number}"))
    device, dirty = any_device(hw), dirt(hw)
    for memory in scratchpads(hw):
        device.run(dirty, dirty.image())
        assert residue(device, memory), f"{memory.name}, {where(hw=hw.parameters())}"
        device.run(dirty, dirty.image())
        scrub(device)
        assert not residue(device, memory), f"{memory.name}, {where(hw=hw.parameters())}"
    device.close()
