# SPDX-License-Identifier: Apache-2.0
"""`tw_pages`: accesses of AXI4-Lite reach one page once, in order; there is no other page."""

from __future__ import annotations

from builds import open_unit, packed
from support.randomness import fresh_rng, where

PAGES, CYCLES = 3, 6000


def test_an_access_reaches_its_page_once_and_is_answered():
    rng = fresh_rng()
    sim = open_unit("tw_pages", reset=2, Pages=PAGES)
    for cycles in (CYCLES, *(int(some) for some in rng.integers(1, 10, 20)), 200):
        _accesses(sim, rng, cycles)
        # Whatever a reset of one cycle finds under way, the next accesses know nothing of it.
        for name in ("awvalid_i", "wvalid_i", "arvalid_i", "bready_i", "rready_i"):
            setattr(sim.io, name, 0)
        sim.io.rst_i = 1
        sim.clock.tick()
        sim.io.rst_i = 0
    sim.close()


def _accesses(sim, rng, cycles):  # noqa: PLR0912 - one cycle
    io = sim.io
    written, given, taken, answers = [], [], [], []
    reads: list[int] = []
    due: int | None = None  # page whose data are due in this cycle
    waiting = {"aw": None, "w": None, "ar": None}
    halves = {"aw": [], "w": []}
    done = 0
    for _ in range(cycles):
        chance = rng.random(5) < 0.5
        for number, name in enumerate(waiting):
            if waiting[name] is None and chance[number]:
                waiting[name] = {
                    "aw": int(rng.integers(1 << 16)) & ~3 & 0x4FFF,
                    "w": (int(rng.integers(1 << 32)), int(rng.integers(16))),
                    "ar": int(rng.integers(1 << 16)) & 0x4FFF,
                }[name]
        io.awvalid_i, io.awaddr_i = int(waiting["aw"] is not None), waiting["aw"] or 0
        io.wvalid_i = int(waiting["w"] is not None)
        io.wdata_i, io.wstrb_i = waiting["w"] or (0, 0)
        io.arvalid_i, io.araddr_i = int(waiting["ar"] is not None), waiting["ar"] or 0
        io.bready_i, io.rready_i = int(chance[3]), int(chance[4])
        data = [int(v) for v in rng.integers(0, 1 << 32, PAGES)]
        io.read_data_i = packed(data, 32)
        sim.settle()
        if due is not None:
            answers.append((0, data[due]) if due < PAGES else (3, 0))
        due = None
        if io.write_o:
            written.append((io.write_o, io.write_addr_o, io.write_data_o, io.write_strb_o))
        if io.read_o:
            due = io.read_o.bit_length() - 1
            assert io.read_o == 1 << due
            assert (due, io.read_addr_o) == (reads[-1] >> 12, reads[-1] & 0xFFC), where()
        elif reads and reads[-1] >> 12 >= PAGES and len(reads) == len(answers) + 1:
            due = reads[-1] >> 12
        for name in ("aw", "w"):
            if waiting[name] is not None and getattr(io, f"{name}ready_o"):
                halves[name].append(waiting[name])
                waiting[name] = None
        if waiting["ar"] is not None and io.arready_o:
            assert len(reads) == len(taken), "one read at a time"
            reads.append(waiting["ar"])
            waiting["ar"] = None
        if io.bvalid_o and io.bready_i:
            page = halves["aw"][done] >> 12
            assert io.bresp_o == (0 if page < PAGES else 3), where()
            done += 1
            assert done <= min(len(halves["aw"]), len(halves["w"])), "an answer before its request"
        if io.rvalid_o and io.rready_i:
            taken.append((io.rresp_o, io.rdata_o))
            assert taken[-1] == answers[-1], where()
        sim.clock.tick()
    for address, (value, strobes) in zip(halves["aw"][:done], halves["w"], strict=False):
        if address >> 12 < PAGES:
            given.append((1 << (address >> 12), address & 0xFFC, value, strobes))
    assert written[: len(given)] == given, where()
    assert len(written) <= len(given) + 1
    assert min(done, len(taken)) >= cycles // 20
