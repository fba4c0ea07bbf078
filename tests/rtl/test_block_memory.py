# SPDX-License-Identifier: Apache-2.0
"""`tw_block_memory`: bursts that follow each other, and words of the host between them."""

from __future__ import annotations

import pytest
from builds import open_unit
from support.randomness import fresh_rng, where

SIZE, CYCLES = 4096, 6000


@pytest.mark.parametrize("bits", [32, 128])
def test_bursts_and_words_are_served_in_order(bits):
    rng = fresh_rng()
    sim = open_unit("tw_block_memory", MemoryBytes=SIZE, DataBits=bits)
    io, beat = sim.io, bits // 8
    io.rst_i = io.rready_i = 1
    sim.clock.tick(3)
    assert not io.rvalid_o
    assert not io.bvalid_o
    io.rst_i = 0
    memory = bytearray(SIZE)
    host: tuple[int, int, int] | None = None  # write, address, data
    asked: list[tuple[int, int]] = []  # beats of the bursts that were taken: place, last
    reads = words = 0
    first = 0
    for cycle in range(CYCLES):
        fill = cycle < CYCLES // 4  # at first the host writes everything
        if host is None and (fill or rng.random() < 0.3):
            address = cycle % (SIZE // 4) * 4 if fill else 4 * int(rng.integers(SIZE // 4))
            # Nobody reads what is being written: the two write to halves of their own.
            write = fill or (rng.random() < 0.5 and address >= SIZE // 2)
            host = (int(write), address, int(rng.integers(1 << 32)))
        if host is not None:
            io.host_write_i, io.host_addr_i, io.host_wdata_i = host
        io.host_valid_i = int(host is not None)
        if not io.arvalid_i and not fill and rng.random() < 0.7:
            io.arlen_i = int(rng.integers(16))
            first = beat * int(rng.integers(0, SIZE // 2 // beat - io.arlen_i))
            io.araddr_i, io.arvalid_i = first, 1
        io.rready_i = int(rng.random() < 0.8)
        sim.settle()
        if io.rvalid_o and io.rready_i:
            place, last = asked.pop(0)
            data = int.from_bytes(memory[place : place + beat], "little")
            assert (io.rdata_o, io.rlast_o, io.rresp_o) == (data, last, 0), where(cycle=cycle)
            reads += 1
        if io.arvalid_i and io.arready_o:
            count = io.arlen_i + 1
            asked += [(first + beat * n, int(n == count - 1)) for n in range(count)]
        taken = io.arvalid_i and io.arready_o
        if host is not None and io.host_done_o:
            write, address, value = host
            if write:
                memory[address : address + 4] = value.to_bytes(4, "little")
            else:
                found = int.from_bytes(memory[address : address + 4], "little")
                assert io.host_rdata_o == found, where(cycle=cycle)
            words += 1
            host = None
        sim.clock.tick()
        if taken:
            io.arvalid_i = 0
    assert min(reads, words) > CYCLES // 10
    sim.close()
