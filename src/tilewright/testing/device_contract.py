# SPDX-License-Identifier: Apache-2.0
"""What every `Device` must do: inherit `DeviceContract` and say how a device is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from tilewright.host.common.errors import DeviceError, ProgramError
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig, named_configs
from tilewright.host.machine.isa import Instruction, Memory, Opcode, Unit, VectorOp, encode_uop
from tilewright.host.machine.program import Program, layout_regions
from tilewright.host.machine.registers import COUNTERS, ErrorCode
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.runtime.device import Bytes, Device
from tilewright.host.runtime.scrub import scrub
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.reference.footprint import scratchpads
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.testing.residue import dirt, residue

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

Step = tuple[Opcode, dict[str, int]]
Change = dict[str, int]


def build(hw: HwConfig, *steps: Step, finish: bool = True) -> Program:
    """A program over regions ``uop`` (one micro-op, all zero), ``data`` and ``insn``, in order."""
    stream = b"".join(Instruction(opcode, values).encode() for opcode, values in steps)
    if finish:
        stream += Instruction(Opcode.FINISH, {}).encode()
    regions, total = layout_regions({"uop": 64, "data": 65536, "insn": len(stream)})
    uop = encode_uop(inp=0, wgt=0, acc=0, first=True).to_bytes(8, "little")
    return Program(
        config_hash=hw.config_hash,
        instructions=stream,
        regions=regions,
        constants={"uop": uop * 8},
        memory_bytes=total,
    )


def legal_steps(hw: HwConfig) -> dict[str, Step]:
    """One legal instruction of each kind; in this order they are a sequential program."""
    load_gemm, gemm_vector, vector_store = 0b0010, 0b0100, 0b1000
    one = {"x_size": 1, "y_size": 1, "z_size": 1}
    base = {**one, "dram_offset": 4096}
    steps: dict[str, Step] = {
        "uop": (Opcode.LOAD, {**one, "memory": Memory.UOP}),
        "inp": (Opcode.LOAD, {**base, "memory": Memory.INP}),
        "wgt": (Opcode.LOAD, {**base, "memory": Memory.WGT}),
        "acc": (Opcode.LOAD, {**base, "memory": Memory.ACC, "acc_banks": 1, "sram_base": 1}),
        "param": (
            Opcode.LOAD,
            # Zeros, from the last bytes of the region: a legal shift.
            {**one, "memory": Memory.PARAM, "dram_offset": 4096 + 65536 - hw.param_tile_bytes},
        ),
        "res": (Opcode.LOAD, {**base, "memory": Memory.RES, "push": load_gemm}),
        "gemm": (
            Opcode.GEMM,
            {
                "overwrite": 1,
                "uop_count": 1,
                "iter_outer": 1,
                "iter_inner": 1,
                "acc_banks": 1,
                "pop": 0b0001,
                "push": gemm_vector,
            },
        ),
        "alu": (
            Opcode.VECTOR,
            {
                "op": VectorOp.ADD,
                "imm": 3,
                "iter_outer": 1,
                "iter_inner": 1,
                "acc_banks": 1,
                "pop": 0b0010,
            },
        ),
        "requant": (
            Opcode.VECTOR,
            {
                "op": VectorOp.REQUANT,
                "imm": 0x7F80,
                "iter_outer": 1,
                "iter_inner": 1,
                "acc_banks": 1,
                "push": vector_store,
            },
        ),
        "store": (Opcode.STORE, {**base, "pop": 0b0100}),
    }
    return steps


def tokens_that_nobody_takes(hw: HwConfig, count: int) -> Program:
    """``count`` VECTOR instructions that push a token to STORE; 65,536 are one too many."""
    opcode, values = legal_steps(hw)["alu"]
    push = Instruction(opcode, {**values, "pop": 0, "push": 1 << Unit.STORE}).encode()
    stream = push * count + Instruction(Opcode.FINISH, {}).encode()
    regions, total = layout_regions({"uop": 64, "data": 65536, "insn": len(stream)})
    none = build(hw)
    return replace(none, instructions=stream, regions=regions, memory_bytes=total)


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


_REFUSED: Final[dict[ErrorCode, dict[str, tuple[str, Callable[[HwConfig], Change]]]]] = {
    ErrorCode.ILLEGAL_FIELD: {
        "load-into-out": ("inp", lambda _: {"memory": Memory.OUT}),
        "load-into-none": ("inp", lambda _: {"memory": 7}),
        "load-no-plane": ("inp", lambda _: {"z_size": 0}),
        "load-pad-param": ("param", lambda _: {"pad_left": 1}),
        "load-diagonal-inp": ("inp", lambda _: {"diagonal": 1}),
        "load-diagonal-acc": ("acc", lambda _: {"diagonal": 1}),
        "load-int4-inp": ("inp", lambda _: {"int4": 1}),
        "load-int4-diagonal": ("wgt", lambda _: {"int4": 1, "diagonal": 1}),
        "load-int4-none": ("wgt", lambda _: {"int4": 1}),
        "load-push-self": ("inp", lambda _: {"push": 1}),
        "store-empty": ("store", lambda _: {"x_size": 0}),
        "store-push-self": ("store", lambda _: {"push": 8}),
        "gemm-no-uop": ("gemm", lambda _: {"uop_count": 0}),
        "gemm-no-outer": ("gemm", lambda _: {"iter_outer": 0}),
        "gemm-no-inner": ("gemm", lambda _: {"iter_inner": 0}),
        "gemm-push-self": ("gemm", lambda _: {"push": 6}),
        "vector-op": ("alu", lambda _: {"op": 7}),
        "vector-no-outer": ("alu", lambda _: {"iter_outer": 0}),
        "vector-no-inner": ("requant", lambda _: {"iter_inner": 0}),
        "vector-push-self": ("alu", lambda _: {"push": 4}),
        "vector-lookup-alu": ("alu", lambda _: {"lookup": 1}),
        "vector-lookup-none": ("requant", lambda _: {"lookup": 1}),
    },
    ErrorCode.SRAM_RANGE: {
        "inp-range": ("inp", lambda hw: {"sram_base": hw.inp_depth}),
        "inp-range-row": ("inp", lambda hw: {"sram_base": hw.inp_depth - 1, "x_size": 2}),
        "wgt-range": ("wgt", lambda hw: {"sram_base": hw.wgt_depth}),
        "diagonal-range": (
            "wgt",
            lambda hw: {"diagonal": 1, "sram_base": hw.wgt_depth - 1, "x_size": 2},
        ),
        "uop-range": ("uop", lambda hw: {"sram_base": hw.uop_depth}),
        "param-range": ("param", lambda hw: {"sram_base": hw.param_depth}),
        "res-range": ("res", lambda hw: {"sram_base": hw.res_depth}),
        "acc-range": ("acc", lambda hw: {"sram_base": hw.acc_depth, "acc_banks": 15}),
        "pad-range": ("inp", lambda hw: {"sram_base": hw.inp_depth - 1, "pad_right": 1}),
        "store-range": ("store", lambda hw: {"sram_base": hw.out_depth}),
        "gemm-uop-range": ("gemm", lambda hw: {"uop_begin": hw.uop_depth}),
        "gemm-inp-range": ("gemm", lambda hw: {"inp_base": hw.inp_depth}),
        "gemm-wgt-range": ("gemm", lambda hw: {"wgt_base": hw.wgt_depth}),
        "gemm-acc-range": ("gemm", lambda hw: {"acc_base": hw.acc_depth, "acc_banks": 15}),
        "vector-src-range": ("alu", lambda hw: {"src_base": hw.acc_depth, "acc_banks": 15}),
        "vector-dst-range": ("alu", lambda hw: {"dst_base": hw.acc_depth, "acc_banks": 15}),
        "requant-dst-range": ("requant", lambda hw: {"dst_base": hw.out_depth}),
        "requant-res-range": ("requant", lambda hw: {"operand": 1, "opd_base": hw.res_depth}),
        "requant-param-range": ("requant", lambda hw: {"param_base": hw.param_depth}),
    },
    ErrorCode.DRAM_RANGE: {
        "load-dram-range": ("inp", lambda _: {"dram_offset": 1 << 30}),
        "load-dram-stride": ("inp", lambda _: {"y_size": 2, "y_stride": (1 << 24) - 1}),
        "store-dram-range": ("store", lambda _: {"dram_offset": 1 << 30}),
    },
    ErrorCode.DRAM_ALIGNMENT: {
        "load-alignment": ("inp", lambda _: {"dram_offset": 4097}),
        "store-alignment": ("store", lambda _: {"dram_offset": 4098}),
    },
    ErrorCode.ACC_BANK: {
        "load-bank": ("acc", lambda _: {"acc_banks": 14}),
        "gemm-bank": ("gemm", lambda _: {"acc_banks": 14}),
        "vector-src-bank": ("alu", lambda hw: {"src_base": hw.acc_depth - 1}),
        "vector-dst-bank": ("alu", lambda hw: {"dst_base": hw.acc_depth - 1}),
        "requant-bank": ("requant", lambda _: {"acc_banks": 2}),
    },
}

ERRORS: Final[dict[str, tuple[str, Callable[[HwConfig], Change], ErrorCode]]] = {
    name: (*case, code) for code, cases in _REFUSED.items() for name, case in cases.items()
}
"""Name -> (step of `legal_steps`, what to change in it, code to be reported)."""

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
        opcode, values = steps[name]
        steps[name] = (opcode, {**values, **change(tiny.hw)})
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
