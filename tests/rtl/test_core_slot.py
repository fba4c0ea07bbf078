# SPDX-License-Identifier: Apache-2.0
"""`tw_core_slot` with its core: who has it, what a partial word does, and where a scrub reads."""

from __future__ import annotations

import pytest
from builds import config_literal, open_unit, packed
from support.randomness import fresh_rng, where

from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES, load_hwconfig
from tilewright.host.machine.isa import Instruction, Opcode
from tilewright.host.machine.registers import (
    DEVICE_ID,
    QUEUE_REGISTERS,
    REGISTERS,
    Completion,
    ErrorCode,
    QueueStatus,
    Status,
)
from tilewright.host.runtime.scrub import scrub_program

HW = load_hwconfig("tiny-4x4")
AT = {register.name: register.offset for register in (*REGISTERS, *QUEUE_REGISTERS)}
MEMORY = 0x12_3456_7000
"""Of the window's program; that of a descriptor is 64 KiB behind it."""
BEHIND = MEMORY + 0x1_0000
SIZE = 0x4000
LIMIT = 4000


def scrub_parameters():
    program = scrub_program(HW)
    count = len(program.instructions) // INSTRUCTION_BYTES
    room = 8 * INSTRUCTION_BYTES << (count - 1).bit_length()
    encoded = int.from_bytes(program.instructions, "little")
    return {
        "ScrubInsnBase": f"40'd{program.regions['insn'].offset}",
        "ScrubMemSize": f"39'd{program.memory_bytes}",
        "ScrubInsnCount": count,
        "ScrubProgram": f"{room}'h{encoded:x}",
    }


class Slot:
    """The slot, a host at its window, and a memory that holds FINISH everywhere."""

    def __init__(self) -> None:
        config = config_literal(HW, data_path=0)
        self.sim = open_unit("tw_core_slot", Config=config, **scrub_parameters(), QueueDepth=2)
        self.io = self.sim.io
        self.finish = Instruction(Opcode.FINISH, {}).encode()
        self.reads: list[int] = []
        self.attributes: set[int] = set()
        self.burst: list[int] = []
        self.io.rst_i = 1
        self.tick(3)
        self.io.rst_i = 0
        self.io.arready_i = 1

    def tick(self, cycles: int = 1) -> None:
        """Cycles of the memory: one burst after another, a beat a cycle."""
        io, size = self.io, HW.axi_bytes
        for _ in range(cycles):
            io.arready_i = int(not self.burst)
            io.rvalid_i = int(bool(self.burst))
            if self.burst:
                place = self.burst.pop(0) % INSTRUCTION_BYTES
                io.rdata_i = int.from_bytes(self.finish[place : place + size], "little")
                io.rlast_i = int(not self.burst)
            self.sim.settle()
            if io.arvalid_o and io.arready_i:
                self.reads.append(io.araddr_o)
                self.attributes.add(io.attributes_o)
                self.burst = [io.araddr_o + size * beat for beat in range(io.arlen_o + 1)]
            self.sim.clock.tick()

    def write(self, name: str | int, value: int, strobes: int = 0xF) -> None:
        io = self.io
        io.write_i, io.write_addr_i = 1, AT.get(name, name)
        io.write_data_i, io.write_strb_i = value & 0xFFFF_FFFF, strobes
        self.tick()
        io.write_i = 0
        self.tick(2)  # as tw_pages: nothing is asked before the answer

    def read(self, name: str | int) -> int:
        self.io.read_i, self.io.read_addr_i = 1, AT.get(name, name)
        self.tick()
        self.io.read_i = 0
        value = self.io.read_data_o
        self.tick()
        return value

    def settings(self, prefix: str, base: int) -> None:
        """A program of one instruction in the window (no prefix) or the next descriptor."""
        values = {"INSN_BASE": 0x1000, "MEM_BASE": base, "MEM_SIZE": SIZE}
        for name, value in values.items():
            self.write(f"{prefix}{name}_LO", value)
            self.write(f"{prefix}{name}_HI", value >> 32)
        self.write(f"{prefix}INSN_COUNT", 1)
        self.write(f"{prefix}WATCHDOG", 500)

    def until(self, name: str, mask: int) -> int:
        for _ in range(LIMIT):
            if (value := self.read(name)) & mask:
                return value
        pytest.fail(f"{name} shows none of {mask:#x}; {where()}")


@pytest.fixture
def slot():
    made = Slot()
    yield made
    made.sim.close()


def test_a_word_of_the_queue_is_written_whole_or_not_at_all(slot):
    rng = fresh_rng()
    words = [r.name for r in QUEUE_REGISTERS if r.access == "rw"]
    for name in words:
        assert slot.read(name) == 0, name
        slot.write(name, 0xFFFF_FFFF)
        before = slot.read(name)
        assert before, name
        for strobes in range(15):
            slot.write(name, int(rng.integers(1 << 32)) & ~before, strobes)
            assert slot.read(name) == before, f"{name}, strobes {strobes:04b}"
        slot.write(name, 0)
        assert slot.read(name) == 0
    for name in words:  # and the window does not take it for its own
        slot.write(name, 0)
        slot.write("INSN_COUNT", AT[name])
        assert slot.read("INSN_COUNT") == AT[name], name
    for offset in range(max(AT.values()) + 4, 4096, 4):
        slot.write(offset, 0xFFFF_FFFF)
        assert slot.read(offset) == 0, "there is no such register"
    for strobes in range(15):
        slot.write("QUEUE_PUSH", 0, strobes)
    assert slot.read("QUEUE_STATUS") == 0
    slot.settings("DESC_", BEHIND)
    slot.write("QUEUE_PUSH", 0)
    slot.io.enable_i = 1
    completed = slot.until("QUEUE_STATUS", 0xFF00)
    for strobes in range(15):
        slot.write("COMPLETION_POP", 0, strobes)
    assert slot.read("QUEUE_STATUS") == completed
    slot.write("COMPLETION_POP", 0)
    assert slot.read("QUEUE_STATUS") == 0


def test_a_scrub_reads_its_program_and_zeros():
    program = [int(word) for word in fresh_rng().integers(0, 1 << 63, 8)]
    sim = open_unit(
        "tw_scrub",
        reset=2,
        BeatBytes=8,
        Instructions=2,
        InsnBase="40'd4096",
        Program=f"512'h{packed(program, 64):x}",
    )
    io = sim.io
    for address, beats, expected in (
        (4096, 8, program), (0, 16, [0] * 16), (4096 + 32, 4, program[4:]), (64, 1, [0]),
    ):  # fmt: skip
        io.araddr_i, io.arlen_i, io.arvalid_i = address, beats - 1, 1
        sim.settle()
        assert io.arready_o
        sim.clock.tick()
        io.arvalid_i = 0
        found = []
        for beat in range(beats):
            sim.settle()
            assert (io.rvalid_o, io.rlast_o) == (1, int(beat == beats - 1))
            found.append(io.rdata_o)
            sim.clock.tick()
        assert found == expected
    assert not io.rvalid_o
    sim.close()


def test_the_window_takes_bytes_and_is_that_of_a_core_alone(slot):
    assert slot.read("ID") == DEVICE_ID
    for lane in range(4):
        slot.write("WATCHDOG", 0x0403_0201, 1 << lane)
    assert slot.read("WATCHDOG") == 0x0403_0201
    for start in ("CTRL", "START"):
        slot.settings("", MEMORY)
        slot.reads.clear()
        slot.write("IRQ_ENABLE", 1)
        if start == "CTRL":
            slot.write("CTRL", 1)
        else:  # of the shared page
            slot.io.start_i = 1
            slot.tick()
            slot.io.start_i = 0
        assert slot.until("STATUS", Status.DONE | Status.ERROR) == Status.DONE
        assert slot.io.irq_o
        assert slot.read("IRQ_STATUS") == 1
        slot.write("IRQ_STATUS", 3)
        slot.tick(2)
        assert not slot.io.irq_o
        assert slot.reads == [MEMORY + 0x1000]


@pytest.mark.parametrize("scrub", [0, 1])
def test_a_descriptor_has_the_core_and_the_window_its_attributes(slot, scrub):
    attributes = 0x5A3
    slot.settings("", MEMORY)
    slot.write("AXI_ATTRIBUTES", (attributes >> 7) << 8 | attributes & 0x7F)
    slot.settings("DESC_", BEHIND)
    slot.write("DESC_TAG", 77)
    slot.write("IRQ_ENABLE", 3)
    slot.write("QUEUE_IRQ_ENABLE", 1)
    slot.write("QUEUE_PUSH", scrub)
    slot.reads.clear()
    slot.attributes.clear()
    slot.io.enable_i = 1
    slot.tick(3)
    slot.write("CTRL", 1)  # without effect: the core is the queue's
    assert slot.until("QUEUE_STATUS", 0xFF00) & ~QueueStatus.RUNNING == 1 << 8
    assert slot.io.irq_o
    assert (slot.read("COMPLETION_TAG"), slot.read("COMPLETION_STATUS")) == (77, Completion.DONE)
    assert slot.reads == [BEHIND + 0x1000], "what a scrub reads stays in the slot"
    assert slot.attributes == {attributes}
    assert slot.read("IRQ_STATUS") == 0, "the ends of descriptors are not the window's"
    slot.write("COMPLETION_POP", 0)
    slot.tick(3)
    assert not slot.io.irq_o


def test_an_error_of_a_descriptor_is_in_its_completion_alone(slot):
    slot.settings("DESC_", BEHIND)
    slot.write("DESC_INSN_COUNT", SIZE)  # more than the memory holds
    slot.write("IRQ_ENABLE", 3)
    slot.write("QUEUE_PUSH", 0)
    slot.io.enable_i = 1
    slot.until("QUEUE_STATUS", 0xFF00)
    status = slot.read("COMPLETION_STATUS")
    assert (status & Completion.ERROR, status & 0xFF) == (Completion.ERROR, ErrorCode.SETTINGS)
    assert slot.read("STATUS") == 0
    assert slot.read("IRQ_STATUS") == 0
    assert slot.reads == []
