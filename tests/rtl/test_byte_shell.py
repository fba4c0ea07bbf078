# SPDX-License-Identifier: Apache-2.0
"""What stands on a board without a processor, from its pins to a stub of the accelerator."""

from __future__ import annotations

import binascii

import pytest
from builds import open_unit
from support.boards.shells import CLOCKS_PER_BIT, BitByBit, Streams
from support.randomness import fresh_rng, where

from tilewright.host.common.errors import DeviceError
from tilewright.host.runtime.shell_link import MEMORY, REGISTERS, ShellLink

SIZE, CLOCK = 8192, 25_000_000
STUB = "tilewright.sv"
BEAT = 8
BUSY = 1 << 4


class Shell(Streams):
    source = ("rx_valid", "rx_ready", "rx_data")
    sink = ("tx_valid", "tx_ready", "tx_data")
    quiet = 2000

    def __init__(self) -> None:
        super().__init__()
        self.sim = open_unit("tw_byte_shell", STUB, clock="aclk", MemoryBytes=SIZE, ClockHz=CLOCK)
        self.sim.clock.tick(4)
        self.sim.io.aresetn = 1


@pytest.fixture
def shell():
    made = Shell()
    yield made
    made.close()


@pytest.fixture
def link(shell):
    return ShellLink(shell)


def word(value: int) -> bytes:
    return value.to_bytes(4, "little")


def test_memory_and_registers_hold_what_the_host_writes(link):
    rng = fresh_rng()
    assert (link.memory_bytes, link.clock_hz) == (SIZE, CLOCK)
    memory = bytearray(rng.bytes(SIZE))
    link.write(MEMORY, bytes(memory))
    registers = bytearray(rng.bytes(56))
    link.write(REGISTERS + 4, bytes(registers[4:]))
    for _ in range(60):
        space, base, first = (memory, MEMORY, 0) if rng.integers(2) else (registers, REGISTERS, 4)
        start = int(rng.integers(first // 4, len(space) // 4)) * 4
        size = min(4 * int(rng.integers(1, 300)), len(space) - start)
        if rng.integers(2):
            space[start : start + size] = rng.bytes(size)
            link.write(base + start, bytes(space[start : start + size]))
        assert link.read(base + start, size) == space[start : start + size], where()


def test_bursts_of_the_accelerator_move_whole_beats_and_strobed_bytes(link):
    rng = fresh_rng()
    memory = bytearray(rng.bytes(SIZE))
    link.write(MEMORY, bytes(memory))
    for _ in range(40):
        beats, strobes = int(rng.integers(1, 17)), int(rng.integers(256))
        here, there = (BEAT * int(p) for p in rng.integers(0, SIZE // BEAT - beats + 1, 2))
        beyond = int(rng.choice([0, 0, 1, 128]))  # bits 39:32 of both addresses
        words = [beats - 1, here, there, strobes, beyond]
        link.write(REGISTERS + 4, b"".join(map(word, words)))
        link.write(REGISTERS, word(1))
        place = 4 * int(rng.integers(SIZE // 4))
        if not there <= place < there + BEAT * beats:  # the host reads while the burst moves
            assert link.read(MEMORY + place, 4) == memory[place : place + 4], where()
        states = (int.from_bytes(link.read(REGISTERS + 0x3C, 4), "little") for _ in range(50))
        state = next((state for state in states if not state & BUSY), BUSY)
        assert state == (0b1111 if beyond else 0), "DECERR outside of the memory, and only there"
        if not beyond:
            moved = memory[here : here + BEAT * beats]
            for index, value in enumerate(moved):
                if strobes >> index % BEAT & 1:
                    memory[there + index] = value
        assert link.read(MEMORY, SIZE) == memory, where(beats=beats, here=here, there=there)


def test_a_reset_in_any_cycle_leaves_nothing_of_what_was_under_way(shell, link):
    rng = fresh_rng()
    memory = rng.bytes(SIZE)
    link.write(MEMORY, memory)
    io, clock = shell.sim.io, shell.sim.clock
    for cycles in range(90):
        link.write(REGISTERS + 4, b"".join(map(word, [15, 0x800, 0x800, 255, 0])))
        link.write(REGISTERS, word(1))  # a copy of a place to itself, and a long access
        request = (b"R" + word(0), b"R" + word(REGISTERS), b"W" + word(REGISTERS + 24))[cycles % 3]
        request += bytes([8]) + bytes(36) * (request[:1] == b"W")
        shell.send(request + binascii.crc_hqx(request, 0xFFFF).to_bytes(2, "little"))
        clock.tick(cycles)
        io.aresetn = 0
        clock.tick()
        io.aresetn = 1
        for _ in range(700):
            clock.tick()
            assert not io.tx_valid, where(cycles=cycles)
        shell.receive(1 << 12)
        link.write(REGISTERS + 4, b"".join(map(word, [3, 0x40, 0x1000, 255, 0])))
        link.write(REGISTERS, word(1))
        assert link.read(MEMORY + 0x1000, 32) == memory[0x40:0x60], where(cycles=cycles)
        link.write(MEMORY + 0x1000, memory[0x1000:0x1020])
    assert link.read(MEMORY, SIZE) == memory, where()


@pytest.mark.parametrize("address", [SIZE, 2, REGISTERS + 0x40, REGISTERS + 4096, 0xC000_0000])
def test_what_is_nowhere_is_refused(link, address):
    for access in (lambda: link.read(address, 4), lambda: link.write(address, bytes(4))):
        with pytest.raises(DeviceError, match="refuses an access"):
            access()
    with pytest.raises(DeviceError, match="refuses an access"):
        link.write(0x8000_0000, bytes(4))  # what the shell is can be read alone
    assert link.read(REGISTERS + 4, 4) == link.read(REGISTERS + 4, 4)


def test_a_damaged_request_changes_nothing(shell, link):
    """Any byte of a frame wrong, or lost: the words before it are not written either."""
    rng = fresh_rng()
    memory = rng.bytes(64)
    link.write(MEMORY, memory)
    send = shell.send
    for index in range(6 + 16 + 2):
        for lost in (False, True):

            def wrong(data, index=index, lost=lost):
                shell.send = send
                flip = bytes([data[index] ^ 1 << int(rng.integers(8))])
                send(data[:index] + (b"" if lost else flip) + data[index + 1 :])

            shell.send = wrong
            with pytest.raises(DeviceError):
                link.write(MEMORY + 16, rng.bytes(16))
            assert link.read(MEMORY, 64) == memory, where(index=index, lost=lost)


def test_a_ulx3s_is_heard_and_answers_at_its_pins():
    """Bits are driven and sampled in Python; frames come without a pause between them."""
    sim = open_unit("ulx3s_top", STUB, clock="clk_25mhz", MemoryBytes=SIZE,
                    Baud=CLOCK // CLOCKS_PER_BIT)  # fmt: skip
    sim.io.ftdi_txd = 1
    sim.clock.tick(4)
    sim.io.btn = 1
    sim.clock.tick(20)
    assert sim.io.led & 0b1101 == 0, "nothing was heard, and both lines rest"
    assert sim.io.led & 0b0010, "no program runs"
    sim.io.ftdi_txd = 0
    sim.settle()
    assert sim.io.led & 0b1100 == 0b1000
    sim.io.ftdi_txd = 1
    link = ShellLink(BitByBit(sim, "ftdi_txd", "ftdi_rxd"))
    assert sim.io.led & 1
    assert (link.memory_bytes, link.clock_hz) == (SIZE, CLOCK)
    data = fresh_rng().bytes(2048 + 8)
    link.write(MEMORY + 100, data)
    assert link.read(MEMORY + 100 + 2048, 8) == data[2048:], where()
    assert link.read(MEMORY + 100, 40) == data[:40], where()
    sim.io.btn = 0
    sim.clock.tick(20)
    assert not sim.io.led & 1
    sim.close()


@pytest.mark.parametrize("fault", ["stop bit", "glitch"])
def test_a_bad_byte_of_the_line_is_dropped(fault):
    clocks = 25
    sim = open_unit("tw_uart_rx", ClocksPerBit=clocks)
    io = sim.io
    io.rst_i = io.line_i = 1
    sim.clock.tick(3)
    io.rst_i = 0
    heard = []

    def line(level: int, clocks: int) -> None:
        io.line_i = level
        for _ in range(clocks):
            sim.clock.tick()
            if io.valid_o:
                heard.append(io.data_o)

    def byte(value: int, stop: int = 1) -> None:
        for bit in (0, *(value >> i & 1 for i in range(8)), stop):
            line(bit, clocks)

    byte(0x5A)
    if fault == "stop bit":
        byte(0xA5, stop=0)
        line(0, 12 * clocks)
        line(1, 2 * clocks)
    else:  # shorter than half a bit
        line(0, clocks // 2 - 3)
        line(1, 12 * clocks)
    byte(0xC3)
    line(1, clocks)
    assert heard == [0x5A, 0xC3]
    sim.close()
