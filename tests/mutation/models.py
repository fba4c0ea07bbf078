# SPDX-License-Identifier: Apache-2.0
"""What a regression runs on: configurations, memories, built models, and cases with their ends."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np
from support.programs.rtl import IDEAL, MAX_CYCLES, ROUGH, Host

from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import (
    UNIT_COUNTER_STATES,
    UNIT_NAMES,
    ErrorCode,
)
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.runtime.device import Bytes, RunResult
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.testing import device_contract

PINNED: Final = Path(__file__).resolve().parent / "pinned_cycles.json"

MEMORIES: Final = (IDEAL, ROUGH)

NEAR: Final = MemoryModel(
    name="near",
    read_latency=1,
    write_latency=1,
    read_bytes_per_cycle=8,
    write_bytes_per_cycle=8,
    max_reads=4,
    max_writes=4,
)
DISTANT_WRITES: Final = replace(NEAR, name="distant writes", write_latency=200, max_writes=1)
SLOW_WRITES: Final = replace(NEAR, name="slow writes", write_bytes_per_cycle=0.1, max_writes=1)
RELUCTANT: Final = tuple(
    replace(NEAR, name=f"reluctant {seed}", stall_percent=90, stall_seed=seed) for seed in (55, 80)
)
"""Every handshake withheld for long, in an order in which the longest silence of a small program
ends with an instruction that enters a queue, or with an accepted write address."""

WATCHDOG_CYCLES: Final = 3_000
SHORT_WATCHDOG: Final = device_contract.LONG_CYCLES // 2
"""Less than any instruction of `LONG` takes, more than the memory of `IDEAL` keeps one waiting."""

TINY: Final = load_hwconfig("tiny-4x4")
ODD: Final = TINY.with_(
    name="odd",
    batch=2,
    block_in=8,
    block_out=8,
    axi_data_bits=128,
    axi_burst_beats=4,
    read_outstanding=3,
    write_outstanding=1,
    vector_lanes=4,
    mac_pipeline=3,
    mac_packed=1,
    mac_lut_columns=4,
)
WIDE: Final = TINY.with_(
    name="wide-bus",
    block_out=16,
    axi_data_bits=512,
    axi_burst_beats=1,
    vector_lanes=1,
    mac_pipeline=6,
)
HALVES: Final = TINY.with_(name="halves", block_out=8, vector_lanes=4)
"""Two parts a tile: the other configurations have one, four or more."""
TABLED: Final = TINY.with_(name="table", activation_table=1)
"""The others have no activation table."""
ROWED: Final = HALVES.with_(name="rows", batch=2, row_unit=1)
"""The others have no row unit."""
PACKED: Final = TINY.with_(name="int4", int4_weights=1)
"""The others do not unpack weights."""
SCALED: Final = TINY.with_(
    name="int4-scales", block_in=8, block_out=16, axi_data_bits=32, int4_weights=2
)
"""A tile has two beats of scales, each before eight of weights: the others have no scales."""
CONFIGS: Final = {hw.name: hw for hw in (TINY, ODD, WIDE, HALVES, TABLED, ROWED, PACKED, SCALED)}

FIXED_SEEDS: Final = {
    "tiny-4x4": range(6),
    "odd": range(3),
    "wide-bus": range(3),
    "halves": range(3),
    "table": range(3),
    "rows": range(3),
    "int4": range(3),
    "int4-scales": range(3),
}
COUNTED: Final = (
    "macs_tiles",
    "vector_tiles",
    "bytes_written",
    *(f"{unit}_instructions" for unit in UNIT_NAMES),
)
"""Counters that the reference knows."""


@dataclass(frozen=True, kw_only=True)
class Model:
    """A built configuration: its library, and the seed of fresh programs."""

    hw: HwConfig
    library: Path
    seed: int

    def device(
        self, memory: MemoryModel, watchdog_cycles: int = WATCHDOG_CYCLES
    ) -> VerilatorDevice:
        """A new device with this library."""
        return VerilatorDevice(
            self.hw,
            memory,
            library=self.library,
            watchdog_cycles=watchdog_cycles,
            initial_seed=self.initial_seed,
        )

    def host(self, memory: MemoryModel) -> Host:
        """A new host at register level with this library."""
        return Host(
            self.library,
            self.hw,
            memory,
            watchdog_cycles=WATCHDOG_CYCLES,
            initial_seed=self.initial_seed,
        )

    @property
    def initial_seed(self) -> int:
        """Of what registers and memories hold before the reset: never zeros, no reset may miss."""
        return self.seed % 2**31 or 1


@dataclass(frozen=True, kw_only=True)
class Case:
    """A program, its memory image and what the reference makes of them."""

    name: str
    program: Program
    image: Bytes
    result: RunResult | None = None
    error: DeviceStatusError | None = None
    loose: bool = False
    """The instruction may break two rules at once."""

    def check(self, device: VerilatorDevice) -> None:
        """Run on a device; results or error must be those of the reference."""
        if self.error is not None:
            self._check_error(device, self.error)
            return
        assert self.result is not None
        actual = device.run(self.program, self.image, max_cycles=MAX_CYCLES)
        wrong = np.flatnonzero(actual.memory != self.result.memory)
        assert not wrong.size, f"{self.name}: {wrong.size} bytes, first {wrong[0]:#x}"
        counters = actual.counters
        for name in COUNTED:
            expected = self.result.counters[name]
            assert counters[name] == expected, f"{self.name}: {name} {counters[name]}"
        for unit in UNIT_NAMES:
            states = [s for s, _ in UNIT_COUNTER_STATES if s != f"token_{unit}"]
            total = sum(counters[f"{unit}_{state}"] for state in states)
            assert total == counters.cycles, f"{self.name}: states of {unit} sum to {total}"

    def _check_error(self, device: VerilatorDevice, error: DeviceStatusError) -> None:
        actual: DeviceStatusError | None = None
        try:
            device.run(self.program, self.image, max_cycles=MAX_CYCLES)
        except DeviceStatusError as raised:
            actual = raised
        assert actual is not None, f"{self.name}: ran, although {error}"
        place = (actual.unit, actual.instruction)
        assert place == (error.unit, error.instruction), f"{self.name}: {actual}"
        # Of two checks that one instruction fails, the earlier pipeline stage reports.
        either = {actual.code, error.code} == {ErrorCode.SRAM_RANGE, ErrorCode.ACC_BANK}
        same = actual.code == error.code or (self.loose and either)
        assert same, f"{self.name}: {actual}, not {error.code.name}"


def judged(name: str, hw: HwConfig, program: Program, image: Bytes) -> Case:
    """A case with the reference's judgement."""
    case = Case(name=name, program=program, image=image)
    try:
        return replace(case, result=ReferenceDevice(hw).run(program, image))
    except DeviceStatusError as error:
        return replace(case, error=error)


@functools.cache
def random_cases(hw: HwConfig, seeds: tuple[int, ...], *, tail: bool = True) -> tuple[Case, ...]:
    """Random programs by seed."""
    return tuple(
        judged(f"seed {seed}", hw, *random_program(hw, np.random.default_rng(seed), tail=tail))
        for seed in seeds
    )


def fixed_cases(hw: HwConfig) -> tuple[Case, ...]:
    """The programs whose counters are pinned."""
    return random_cases(hw, tuple(FIXED_SEEDS[hw.name]), tail=False)


@functools.cache
def contract_case(hw: HwConfig, name: str) -> Case:
    """The legal steps of the device contract, one of them spoiled (none for an empty name)."""
    steps = device_contract.legal_steps(hw)
    if name:
        step, change, _ = device_contract.ERRORS[name]
        opcode, values = steps[step]
        steps[step] = (opcode, {**values, **change(hw)})
    program = device_contract.build(hw, *steps.values())
    return judged(name or "legal steps", hw, program, device_contract.data_image(program))


class expect:  # noqa: N801 - reads as a statement, like pytest.raises
    """The block must end with a `DeviceStatusError` of a code."""

    value: DeviceStatusError

    def __init__(self, code: ErrorCode) -> None:
        self._code = code

    def __enter__(self) -> expect:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if error is None:
            raise AssertionError(f"no error, although {self._code.name} was due")
        if isinstance(error, DeviceStatusError):
            assert error.code is self._code, f"{error}, not {self._code.name}"
            self.value = error
            return True
        return False
