# SPDX-License-Identifier: Apache-2.0
"""Surroundings of an execution unit: instruction queue, tokens, ACC locks, programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np
from bench import Knob
from cocotb.triggers import RisingEdge

from tilewright.host.machine.isa import Field, Instruction, Unit, pack_fields, unpack_fields
from tilewright.host.machine.registers import ErrorCode
from tilewright.host.machine.wires import ENTRY, ERROR, NEEDS, QUEUE, UNIT

FIRST_INDEX = 0xA5C3_96F0
"""Index of a bench's first instruction: every bit of it has to reach the error registers."""


class World(Protocol):
    """The memories behind a unit's other ports."""

    def step(self) -> None:
        """One clock edge."""


class Surroundings:
    """Feeds instructions and tokens and keeps the books.

    With the knob idle there are gaps between instructions; with back-pressure tokens come late and
    banks are busy. ``wrong`` is what tw_predecode says of an instruction, by its place.
    """

    def __init__(
        self,
        dut: Any,
        world: World,
        instructions: list[Instruction],
        rng: np.random.Generator,
        knob: str = "none",
        *,
        wrong: Mapping[int, ErrorCode] = MappingProxyType({}),
    ) -> None:
        self._dut = dut
        self._edge = RisingEdge(dut.clk_i)
        self._world = world
        self._unit = Unit[instructions[0].opcode.name]
        self._instructions = instructions
        self._rng = rng
        self._knob = Knob(knob, rng)
        self._banks = self._unit != Unit.STORE
        self._wrong = wrong
        self._next = 0
        self._offered = False
        self._head: dict[str, int] = {"entry": 0, "needs": 0}
        self._busy = 0
        self.tokens = [0, 0, 0, 0]
        self._missing = [
            sum(i.values.get("pop", 0) >> source & 1 for i in instructions) for source in range(4)
        ]
        self.taken: list[int] = []
        self.retired = 0
        self.pushed: Counter[int] = Counter()
        self.errors: list[tuple[int, int]] = []
        dut.halt_i.value = 0
        dut.queue_i.value = 0
        if self._banks:
            dut.acc_busy_i.value = 0

    @property
    def done(self) -> bool:
        """Every instruction has retired."""
        return self.retired == len(self._instructions)

    async def cycles(self, count: int = 1) -> None:
        """Clock edges of the unit and of its world."""
        for _ in range(count):
            await self._edge
            self.step()
            self._world.step()

    async def run(self, limit: int = 4000) -> None:
        """Until every instruction has retired, within a limit of cycles for each."""
        for _ in range(limit * len(self._instructions)):
            await self.cycles()
            if self.done:
                break
        assert self.done, f"{self.retired} of {len(self._instructions)} instructions retired"
        assert not self.errors, self.errors

    async def reports(self, code: ErrorCode, place: int, limit: int = 2000) -> None:
        """Until the unit reports that error of that instruction, or fail; NONE: until the limit."""
        for _ in range(limit):
            await self._edge
            if (error := answer(self._dut)["error"])["valid"]:
                assert (error["code"], error["index"]) == (code, FIRST_INDEX + place)
                return
            self.step()
            self._world.step()
        assert code == ErrorCode.NONE, "no error"

    def step(self) -> None:
        """Sample the unit's outputs of the past cycle, check them, drive the next cycle."""
        dut = self._dut
        if self._banks and self._unit != Unit.VECTOR:
            self._check_locks()
        unit = answer(dut)
        popped = unit["token_pop"]
        if unit["take"]:
            assert self._offered, "popped without an instruction"
            head = self._instructions[self._next]
            if self._wrong.get(self._next) != ErrorCode.ILLEGAL_FIELD:
                assert popped == head.values.get("pop", 0), f"pops {popped:#x} for {head}"
            if self._banks:
                assert not self._busy & self._wanted(head), f"took busy banks: {head}"
            if self._unit == Unit.LOAD:
                open_banks = self._wanted(head) & ~int(dut.acc_lock_o.value)
                assert not open_banks, f"took banks {open_banks:#x} that it had not locked before"
            self.taken.append(self._next)
            self._next += 1
            self._offered = False
        else:
            assert not popped, "token popped without an instruction"
        for source in range(4):
            if popped >> source & 1:
                assert self.tokens[source], f"popped a token that {source} has not pushed"
                self.tokens[source] -= 1
        pushed = unit["token_push"]
        if unit["retire"]:
            expected = self._instructions[self.retired].values.get("push", 0)
            assert pushed == expected, f"instruction {self.retired} pushes {pushed:#x}"
            index = unit["retire_index"] - FIRST_INDEX
            assert index == self.retired, f"instruction {self.retired} retires as {index}"
            self.retired += 1
        else:
            assert not pushed, "token pushed without retirement"
        if (error := unit["error"])["valid"]:
            self.errors.append((error["code"], error["index"]))
        self._drive()

    def _check_locks(self) -> None:
        """LOAD and GEMM lock the banks of an instruction without a gap until it retires.

        VECTOR gives banks back when it has read or written them for the last time.
        """
        locked = int(self._dut.acc_lock_o.value)
        for number in self.taken[self.retired :]:
            open_banks = self._wanted(self._instructions[number]) & ~locked
            assert not open_banks, f"instruction {number} works on unlocked banks {open_banks:#x}"

    def _needs(self) -> int:
        head = self._instructions[self._next]
        wrong = self._wrong.get(self._next, ErrorCode.NONE)
        illegal = wrong == ErrorCode.ILLEGAL_FIELD
        return pack_fields(
            NEEDS,
            {
                "pop": 0 if illegal else head.values.get("pop", 0),
                "banks": self._wanted(head),
                "illegal": int(illegal),
                "unaligned": int(wrong == ErrorCode.DRAM_ALIGNMENT),
            },
        )

    def _wanted(self, instruction: Instruction) -> int:
        if self._unit == Unit.LOAD and instruction.values["memory"] != 2:
            return 0
        return instruction.values.get("acc_banks", 0)

    def _drive(self) -> None:
        dut = self._dut
        for source in range(4):
            late = self._knob.name == "back-pressure" and self._rng.random() < 0.9
            if self._missing[source] and not late:
                self._missing[source] -= 1
                self.tokens[source] += 1
        if self._banks:
            if self._knob.name == "back-pressure" and self._rng.random() < 0.2:
                self._busy = int(self._rng.integers(16))
            held = int(dut.acc_lock_o.value)
            if self.taken:
                held |= self._wanted(self._instructions[self.taken[-1]])
            self._busy &= ~held
            dut.acc_busy_i.value = self._busy
        more = self._next < len(self._instructions)
        if not self._offered and more and not self._knob.source_pauses():
            self._offered = True
            insn = int.from_bytes(self._instructions[self._next].encode(), "little")
            entry = {"insn": insn, "index": FIRST_INDEX + self._next}
            self._head = {"entry": pack_fields(ENTRY, entry), "needs": self._needs()}
        tokens = sum((count > 0) << s for s, count in enumerate(self.tokens))
        queue = {**self._head, "valid": int(self._offered), "tokens": tokens}
        dut.queue_i.value = pack_fields(QUEUE, queue)


def answer(dut: Any) -> dict[str, Any]:
    """What a unit says of itself in this cycle."""
    values: dict[str, Any] = unpacked(dut.unit_o, UNIT)
    return {**values, "error": unpack_fields(ERROR, values["error"])}


def unpacked(port: Any, layout: tuple[Field, ...]) -> dict[str, int]:
    """The fields of a structure at a port."""
    return unpack_fields(layout, int(port.value))


def random_tokens(rng: np.random.Generator, unit: int) -> dict[str, int]:
    """Pop and push masks of a unit, often empty, never its own bit."""
    others = 0xF & ~(1 << unit)
    return {
        "pop": int(rng.integers(16)) & others if rng.random() < 0.4 else 0,
        "push": int(rng.integers(16)) & others if rng.random() < 0.4 else 0,
    }


def pack(values: np.ndarray, bits: int) -> int:
    """Concatenate elements, first one lowest."""
    flat = np.asarray(values).ravel()
    return int.from_bytes(flat.astype({8: "<i1", 32: "<i4"}[bits]).tobytes(), "little")


def unpack(value: int, bits: int, shape: tuple[int, ...]) -> np.ndarray:
    """Inverse of `pack`."""
    count = int(np.prod(shape))
    data = value.to_bytes(count * bits // 8, "little")
    return np.frombuffer(data, dtype={8: "<i1", 32: "<i4"}[bits]).reshape(shape).copy()
