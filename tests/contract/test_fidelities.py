# SPDX-License-Identifier: Apache-2.0
"""`dpi` and `timing` against the full RTL: equal counters and errors, `dpi` with equal memory.

Both take the sizes of a configuration when a simulation starts. What they share with the RTL is
its control; what can differ is the sizes that they are given and the data path in C++.
"""

import shutil
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from e2e.test_random_programs import damage
from support.programs.drawing import any_built
from support.programs.rtl import any_memory
from support.randomness import generator, sample, where

from tilewright.host.common.errors import DeviceTimeoutError
from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.fidelity import Fidelity
from tilewright.host.machine.geometry import geometry_of
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.program import Program
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.runtime.device import Bytes
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.twin.device import Twin
from tilewright.sim.verify.randconfig import any_hwconfig
from tilewright.sim.verilator import device as verilator_device
from tilewright.sim.verilator import elaboration
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.sim.verilator.elaboration import GENERAL, SIMULATED
from tilewright.sim.verilator.library import Simulation, SimulationError
from tilewright.testing import device_contract

TINY = load_hwconfig("tiny-4x4")
IDEAL = load_memory("ideal")
MAX_CYCLES = 200_000
WATCHDOG = 20_000

Outcome = Mapping[str, object]


def outcome(device: VerilatorDevice, program: Program, image: Bytes) -> tuple[Outcome, Bytes]:
    """Counters, or what the error registers say; and the memory image if there is one."""
    try:
        run = device.run(program, image, max_cycles=MAX_CYCLES)
    except DeviceStatusError as error:
        waits = tuple(state.name for state in error.wait_states)
        return {
            "code": error.code.name,
            "unit": error.unit.name,
            "instruction": error.instruction,
            "waits": waits,
        }, image
    except DeviceTimeoutError:
        return {"limit": MAX_CYCLES}, image
    return run.counters.values, run.memory


def devices(hw: HwConfig, memory: MemoryModel) -> dict[Fidelity, VerilatorDevice]:
    return {
        fidelity: VerilatorDevice(hw, memory, fidelity=fidelity, watchdog_cycles=WATCHDOG)
        for fidelity in SIMULATED
    }


def differences(
    group: Mapping[Fidelity, VerilatorDevice], program: Program, image: Bytes
) -> list[str]:
    """What of the fast fidelities differs from the full RTL."""
    wanted, memory = outcome(group[Fidelity.RTL], program, image)
    found = []
    for fidelity in group.keys() - {Fidelity.RTL}:
        got, result = outcome(group[fidelity], program, image)
        names = sorted(name for name in wanted.keys() | got.keys())
        found += [
            f"{fidelity}: {name} is {got.get(name)}, not {wanted.get(name)}"
            for name in names
            if got.get(name) != wanted.get(name)
        ]
        expected = memory if fidelity.computes else image
        if not np.array_equal(result, expected):
            found.append(f"{fidelity}: {np.count_nonzero(result != expected)} bytes of memory")
    return found


def check(hw: HwConfig, rng: np.random.Generator, memories: int, programs: int) -> None:
    """Legal and damaged random programs on random memories."""
    for _ in range(memories):
        group = devices(hw, any_memory(rng, stalls=True))
        for number in range(programs):
            program, image = random_program(hw, rng, instructions=int(rng.integers(3, 60)))
            facts = where(hw=hw.parameters(), memory=group[Fidelity.RTL].memory, program=number)
            found = differences(group, program, image)
            assert not found, f"{found[:5]}: {facts}"
            # A race may leave other data, but it takes no other time.
            program, image = damage(program, image, rng)
            found = [text for text in differences(group, program, image) if "bytes" not in text]
            assert not found, f"{found[:5]}, damaged: {facts}"
        for device in group.values():
            device.close()


class TestDpiDevice(device_contract.DeviceContract):
    def make_device(self, hw: HwConfig) -> VerilatorDevice:
        return VerilatorDevice(hw, IDEAL, fidelity=Fidelity.DPI, watchdog_cycles=WATCHDOG)


def test_equal_to_the_rtl_on_the_smallest_array() -> None:
    check(TINY, generator("fidelities tiny"), 2, 15)


@pytest.mark.parametrize(
    "hw",
    [
        TINY.with_(int4_weights=1),
        TINY.with_(int4_weights=2, block_out=16, acc_bank_count=2),
    ],
    ids=["plain", "with scales"],
)
def test_equal_to_the_rtl_where_weights_of_4_bits_are_unpacked(hw: HwConfig) -> None:
    check(hw, generator(f"fidelities int4 {hw.int4_weights}"), 2, 10)


@pytest.mark.parametrize("number", sample(1, 12))
def test_equal_to_the_rtl_on_any_configuration(number: int) -> None:
    rng = generator(f"fidelities {number}")
    check(any_built(number, rng), rng, *((2, 10) if number == 0 else (3, 60)))


@pytest.mark.parametrize(
    "bus", [64, *(pytest.param(bus, marks=pytest.mark.slow) for bus in (32, 128, 256, 512))]
)
def test_one_build_serves_every_configuration_of_a_bus(bus: int) -> None:
    """Against the reference and the twin: no configuration is built, data and sizes agree."""
    rng = generator(f"one build {bus}")
    libraries = {
        fidelity: build_model(_of_bus(rng, bus), fidelity=fidelity) for fidelity in GENERAL
    }
    for number in range(25):
        hw = _of_bus(rng, bus)
        memory = any_memory(rng, stalls=number % 3 == 0)
        group = {
            fidelity: VerilatorDevice(hw, memory, fidelity=fidelity, library=library)
            for fidelity, library in libraries.items()
        }
        program, image = random_program(hw, rng, instructions=40)
        expected = ReferenceDevice(hw).run(program, image)
        run = group[Fidelity.DPI].run(program, image, max_cycles=2_000_000)
        facts = where(hw=hw.parameters(), memory=memory, program=number)
        assert np.array_equal(run.memory, expected.memory), facts
        for name in ("macs_tiles", "vector_tiles", "bytes_written"):
            assert run.counters[name] == expected.counters[name], f"{name}: {facts}"
        timing = group[Fidelity.TIMING].run(program, image, max_cycles=2_000_000)
        assert timing.counters == run.counters, facts
        # Both come from one build: the twin says whether its cycles are those of the configuration.
        if not memory.stall_percent:
            with closing(Twin(hw, memory)) as twin:
                assert twin.counters(program) == run.counters, facts
        for device in group.values():
            device.close()


def _of_bus(rng: np.random.Generator, bus: int) -> HwConfig:
    while True:
        hw = any_hwconfig(rng)
        if hw.axi_data_bits == bus:
            return hw


@pytest.fixture(scope="module")
def tiny_group():
    group = devices(TINY, IDEAL)
    yield group
    for device in group.values():
        device.close()


@pytest.mark.parametrize("case", sorted(device_contract.ERRORS))
def test_an_illegal_instruction_ends_in_the_same_error(tiny_group, case: str) -> None:
    name, change, code = device_contract.ERRORS[case]
    steps = device_contract.legal_steps(TINY)
    opcode, values = steps[name]
    steps[name] = (opcode, {**values, **change(TINY)})
    program = device_contract.build(TINY, *steps.values())
    image = device_contract.data_image(program)
    assert outcome(tiny_group[Fidelity.RTL], program, image)[0]["code"] == code.name
    assert not differences(tiny_group, program, image)


def test_every_legal_step_takes_the_same_time(tiny_group) -> None:
    program = device_contract.build(TINY, *device_contract.legal_steps(TINY).values())
    assert not differences(tiny_group, program, device_contract.data_image(program))


def test_timing_returns_the_image_that_it_was_given(tiny_group) -> None:
    program, image = random_program(TINY, generator("timing image"))
    before = image.copy()
    run = tiny_group[Fidelity.TIMING].run(program, image)
    assert np.array_equal(run.memory, before)
    assert np.array_equal(image, before)
    assert run.counters["bytes_written"] > 0


# -- seeded faults: the comparison must see them ----------------------------------------------

SIZES = (
    "mac_pipeline", "vector_parts", "par_rows", "burst_beats", "read_outstanding",
    "write_outstanding", "out_shift", "inp_shift", "wgt_shift", "acc_shift", "par_shift",
    "diag_shift", "acc_bank_shift", "inp_depth", "wgt_depth", "acc_depth", "out_depth", "uop_depth",
    "res_depth", "par_depth",
)  # fmt: skip
"""Every size that shapes control but CONFIG_HASH, which the device itself checks."""

CHANGES = {"par_rows": 2, "burst_beats": 0.5}
"""Factors; other sizes grow by 1, or a depth shrinks to a quarter of its tiles."""


def _changed(sizes: Mapping[str, int], name: str) -> dict[str, int]:
    value = sizes[name]
    if name in CHANGES:
        wrong = int(value * CHANGES[name])
    else:
        wrong = value // 4 if name.endswith("_depth") else value + 1
    return {**sizes, name: wrong}


@pytest.mark.parametrize("name", SIZES)
def test_a_wrong_size_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = generator(f"wrong {name}")
    memory = MemoryModel(
        name="long",
        read_latency=60,
        write_latency=60,
        read_bytes_per_cycle=64,
        write_bytes_per_cycle=64,
        max_reads=16,
        max_writes=16,
    )
    right = VerilatorDevice(TINY, memory, watchdog_cycles=WATCHDOG)
    monkeypatch.setattr(verilator_device, "geometry_of", lambda hw: _changed(geometry_of(hw), name))
    wrong = VerilatorDevice(TINY, memory, fidelity=Fidelity.TIMING, watchdog_cycles=WATCHDOG)
    group = {Fidelity.RTL: right, Fidelity.TIMING: wrong}
    for _ in range(40):
        if differences(group, *random_program(TINY, rng, instructions=60)):
            return
    pytest.fail(f"40 programs do not depend on {name}")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(".gemm_fresh_i     (u_gemm.fresh2_q)", ".gemm_fresh_i     (1'b0)", id="fresh"),
        pytest.param("32'(vector_imm_i)", "32'(vector_imm_i) & 32'hFF", id="immediate",
                     marks=pytest.mark.slow),
        pytest.param("load_at_i.pad,", "load_at_i.pad & ~load_at_i.pad,", id="padding",
                     marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_wrong_data_path_is_caught(
    old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = shutil.copytree(elaboration.RUNTIME, tmp_path / "runtime")
    source = runtime / "tw_data.sv"
    text = source.read_text()
    assert text.count(old) == 1
    source.write_text(text.replace(old, new))
    monkeypatch.setattr(elaboration, "RUNTIME", runtime)
    wrong = VerilatorDevice(TINY, IDEAL, fidelity=Fidelity.DPI)
    rng = generator(f"wrong data {old}")
    for _ in range(20):
        program, image = random_program(TINY, rng, instructions=60)
        if not np.array_equal(
            wrong.run(program, image).memory, ReferenceDevice(TINY).run(program, image).memory
        ):
            return
    pytest.fail("20 programs do not see it")


def test_a_general_library_needs_sizes() -> None:
    library = build_model(TINY, fidelity=Fidelity.TIMING)
    with pytest.raises(SimulationError, match="needs a geometry"):
        Simulation(library, max_burst_beats=16, memory=IDEAL)


def test_a_new_configuration_is_not_built() -> None:
    other = TINY.with_(block_in=8, inp_bytes=8192, mac_pipeline=4, read_outstanding=9)
    assert other.config_hash != TINY.config_hash
    for fidelity in GENERAL:
        assert build_model(TINY, fidelity=fidelity) == build_model(other, fidelity=fidelity)
