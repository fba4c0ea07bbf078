# SPDX-License-Identifier: Apache-2.0
"""What every `Device` must do: inherit `DeviceContract` and say how a device is made."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tilewright.host.common.errors import DeviceError, ProgramError
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig, named_configs
from tilewright.host.machine.isa import Instruction, Memory, Unit
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import COUNTERS, ErrorCode
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.runtime.device import Bytes, Device
from tilewright.host.runtime.scrub import scrub
from tilewright.sim.programs.directed import FAULTS as ERRORS
from tilewright.sim.programs.directed import Step, build, changed, legal_steps, of_stream
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.reference.footprint import scratchpads
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.testing.residue import dirt, residue

__all__ = [
    "COUNTED", "ERRORS", "LONG", "LONG_CYCLES", "PADS_ALONE", "DeviceContract", "RtlContract",
    "Step", "build", "data_image", "legal_steps", "tokens_that_nobody_takes",
]  # fmt: skip

TINY: Final = "tiny-4x4"
COUNTED: Final = (
    "load_instructions",
    "gemm_instructions",
    "vector_instructions",
    "store_instructions",
    "macs_tiles",
    "vector_tiles",
    "bytes_written",
)
"""Counters that mean the same on every device (``bytes_read`` may include whole bus beats)."""

Change = dict[str, int]


def tokens_that_nobody_takes(hw: HwConfig, count: int) -> Program:
    """``count`` VECTOR instructions that push a token to STORE; 65,536 are one too many."""
    push = changed(legal_steps(hw)["alu"], pop=0, push=1 << Unit.STORE)
    return of_stream(hw, Instruction(*push).encode() * count)


PADS_ALONE: Final[tuple[Change, ...]] = tuple(
    {"dram_offset": 4097, "pad_left": 1, "pad_top": 1, **size}
    for size in ({"x_size": 0}, {"y_size": 0}, {"x_size": 0, "y_size": 0})
)
"""Changes of step ``inp`` of `legal_steps`: padding without data, whose offset means nothing."""


def data_image(program: Program) -> Bytes:
    """The program's image; data random but for its last 4 KiB, which are zero."""
    memory = program.image()
    data = program.read(memory, "data")
    data[:-4096] = np.random.default_rng(1).integers(0, 256, data.size - 4096, dtype=np.uint8)
    return memory


LONG: Final[dict[str, Change]] = {
    "gemm": {"iter_outer": 500},
    "alu": {"iter_outer": 500},
    "requant": {"iter_outer": 500},
    "inp": {"x_size": 0, "y_size": 0, "pad_top": 8, "pad_left": 15},
}
"""Step of `legal_steps` -> what keeps it busy for `LONG_CYCLES` and more without any traffic."""
LONG_CYCLES: Final = 120


class DeviceContract:
    """Inherit as ``TestMyDevice(DeviceContract)`` and implement `make_device`."""

    programs: int = 3  # random programs for each configuration

    def make_device(self, hw: HwConfig) -> Device:
        """A fresh device for a configuration."""
        raise NotImplementedError

    @pytest.fixture
    def tiny(self) -> Iterator[Device]:
        """A device of the tiny configuration."""
        device = self.make_device(load_hwconfig(TINY))
        yield device
        device.close()

    def assert_works(self, device: Device, seed: int) -> None:
        """A random program gives the reference's memory and functional counters."""
        program, memory = random_program(device.hw, np.random.default_rng(seed), instructions=20)
        expected = ReferenceDevice(device.hw).run(program, memory)
        result = device.run(program, memory)
        differs = np.flatnonzero(result.memory != expected.memory)
        assert not differs.size, f"seed {seed}: {differs.size} bytes, first {differs[0]:#x}"
        for name in COUNTED:
            assert result.counters[name] == expected.counters[name], name

    @pytest.mark.parametrize("name", named_configs())
    def test_random_programs_equal_the_reference(self, name: str) -> None:
        device = self.make_device(load_hwconfig(name))
        for seed in range(self.programs):
            self.assert_works(device, seed)
        device.close()

    def test_says_which_configuration_it_implements(self, tiny: Device) -> None:
        assert tiny.hw == load_hwconfig(TINY)

    def test_has_every_counter(self, tiny: Device) -> None:
        program, memory = random_program(tiny.hw, np.random.default_rng(0), instructions=5)
        result = tiny.run(program, memory)
        assert set(result.counters.values) == {name for name, _ in COUNTERS}
        assert result.host_seconds >= 0

    def test_legal_steps_run(self, tiny: Device) -> None:
        """The base of every error case is itself legal."""
        program = build(tiny.hw, *legal_steps(tiny.hw).values())
        memory = data_image(program)
        expected = ReferenceDevice(tiny.hw).run(program, memory).memory
        assert np.array_equal(tiny.run(program, memory).memory, expected)

    def test_does_not_modify_its_input(self, tiny: Device) -> None:
        program, memory = random_program(tiny.hw, np.random.default_rng(1), instructions=10)
        before = memory.copy()
        result = tiny.run(program, memory)
        assert np.array_equal(memory, before)
        assert not np.array_equal(result.memory, before)

    def test_two_runs_give_equal_results(self, tiny: Device) -> None:
        program, memory = random_program(tiny.hw, np.random.default_rng(2), instructions=20)
        first, second = tiny.run(program, memory), tiny.run(program, memory)
        assert np.array_equal(first.memory, second.memory)
        assert first.counters == second.counters

    def test_an_earlier_result_survives_a_later_run(self, tiny: Device) -> None:
        program, memory = random_program(tiny.hw, np.random.default_rng(3), instructions=10)
        first = tiny.run(program, memory)
        kept = first.memory.copy()
        self.assert_works(tiny, 4)
        assert np.array_equal(first.memory, kept)

    def test_refuses_a_program_for_another_configuration(self, tiny: Device) -> None:
        other = tiny.hw.with_(inp_bytes=2 * tiny.hw.inp_bytes)
        program, memory = random_program(other, np.random.default_rng(0), instructions=5)
        with pytest.raises(ProgramError, match="configuration"):
            tiny.run(program, memory)
        self.assert_works(tiny, 5)

    @pytest.mark.parametrize("change", ["short", "long", "dtype", "shape"])
    def test_refuses_memory_of_another_size_or_type(self, tiny: Device, change: str) -> None:
        program, memory = random_program(tiny.hw, np.random.default_rng(0), instructions=5)
        wrong = {
            "short": memory[:-1],
            "long": np.append(memory, np.uint8(0)),
            "dtype": memory.astype(np.int16),
            "shape": memory.reshape(1, -1),
        }[change]
        with pytest.raises(ProgramError):
            tiny.run(program, wrong)  # type: ignore[arg-type]  # wrong on purpose
        self.assert_works(tiny, 6)

    @pytest.mark.parametrize("case", sorted(ERRORS))
    def test_reports_an_illegal_instruction_and_stays_usable(self, tiny: Device, case: str) -> None:
        name, change, code = ERRORS[case]
        steps = legal_steps(tiny.hw)
        steps[name] = changed(steps[name], **change(tiny.hw))
        program = build(tiny.hw, *steps.values())
        with pytest.raises(DeviceStatusError) as caught:
            tiny.run(program, data_image(program))
        assert caught.value.code == code
        assert caught.value.instruction == list(steps).index(name)
        self.assert_works(tiny, 7)

    @pytest.mark.parametrize("opcode", [0, 6, 15])
    def test_reports_an_illegal_opcode(self, tiny: Device, opcode: int) -> None:
        program = build(tiny.hw, legal_steps(tiny.hw)["inp"], legal_steps(tiny.hw)["wgt"])
        memory = data_image(program)
        memory[program.regions["insn"].offset + 32] = opcode
        with pytest.raises(DeviceStatusError) as caught:
            tiny.run(program, memory)
        assert caught.value.code == ErrorCode.ILLEGAL_OPCODE
        assert caught.value.instruction == 1
        self.assert_works(tiny, 8)

    def test_reports_a_missing_finish(self, tiny: Device) -> None:
        program = build(tiny.hw, legal_steps(tiny.hw)["inp"], finish=False)
        with pytest.raises(DeviceStatusError) as caught:
            tiny.run(program, data_image(program))
        assert (caught.value.code, caught.value.instruction) == (ErrorCode.NO_FINISH, 1)
        self.assert_works(tiny, 9)

    def test_a_token_that_never_comes_is_an_error(self, tiny: Device) -> None:
        opcode, values = legal_steps(tiny.hw)["inp"]
        program = build(tiny.hw, (opcode, {**values, "pop": 0b0010}))
        with pytest.raises(DeviceError):
            tiny.run(program, data_image(program))
        self.assert_works(tiny, 10)

    def test_last_byte_of_memory_can_be_loaded_and_no_more(self, tiny: Device) -> None:
        """The walk ends exactly at the end of memory, then one bus beat beyond."""
        opcode, values = legal_steps(tiny.hw)["wgt"]
        size = build(tiny.hw, (opcode, values)).memory_bytes
        fits = {**values, "dram_offset": size - tiny.hw.wgt_tile_bytes}
        program = build(tiny.hw, (opcode, fits))
        tiny.run(program, data_image(program))
        program = build(
            tiny.hw, (opcode, {**fits, "dram_offset": fits["dram_offset"] + tiny.hw.axi_bytes})
        )
        with pytest.raises(DeviceStatusError) as caught:
            tiny.run(program, data_image(program))
        assert (caught.value.code, caught.value.instruction) == (ErrorCode.DRAM_RANGE, 0)

    def test_runs_a_program_of_finish_alone(self, tiny: Device) -> None:
        program = build(tiny.hw)
        memory = data_image(program)
        assert np.array_equal(tiny.run(program, memory).memory, memory)

    @pytest.mark.parametrize("memory", list(scratchpads(load_hwconfig(TINY))))
    def test_a_scrub_leaves_nothing_to_read(self, tiny: Device, memory: Memory) -> None:
        """A device that refuses to read what a program did not write shows nothing either."""
        dirty = dirt(tiny.hw)
        tiny.run(dirty, dirty.image())
        scrub(tiny)
        try:
            left = residue(tiny, memory)
        except ProgramError:
            left = 0
        assert left == 0

    def test_refuses_to_run_after_close(self) -> None:
        device = self.make_device(load_hwconfig(TINY))
        program = build(device.hw)
        device.close()
        with pytest.raises(DeviceError):
            device.run(program, data_image(program))


class RtlContract(DeviceContract):
    """Inherit for a variant of the RTL: every configuration is built from it and simulated."""

    manifest: Path  # the variant's sources, as for ``tilewright sim --rtl``

    def make_device(self, hw: HwConfig) -> Device:
        library = build_model(hw, manifest=self.manifest)
        return VerilatorDevice(hw, load_memory("ideal"), library=library)
