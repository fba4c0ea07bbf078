# SPDX-License-Identifier: Apache-2.0
"""`tw_axi3_lite`: bursts of a Zynq's processors become accesses of AXI4-Lite, once each."""

from __future__ import annotations

import pytest
from builds import open_unit
from support.randomness import fresh_rng, where

LIMIT = 400


class Bridge:
    """The bridge between a master that stalls at random and registers that do."""

    def __init__(self, rng) -> None:
        self.sim = open_unit("tw_axi3_lite")
        self.rng = rng
        self.words = dict.fromkeys(range(0, 4096, 4), 0)
        self.accesses = []
        self.refused = frozenset()
        """Addresses whose accesses are answered with an error."""
        self.asked = {"aw": None, "w": None, "ar": None}
        self.sim.io.rst_i = 1
        self.sim.clock.tick(2)
        self.sim.io.rst_i = 0

    def _chance(self) -> int:
        return int(self.rng.integers(2))

    def cycle(self) -> None:
        """One cycle of the register side: takes requests at random, answers one at a time."""
        io = self.sim.io
        io.awready_i, io.wready_i, io.arready_i = (self._chance() for _ in range(3))
        self.sim.settle()
        if io.awready_i and io.awvalid_o:
            self.asked["aw"] = io.awaddr_o
        if io.wready_i and io.wvalid_o:
            self.asked["w"] = (io.wdata_o, io.wstrb_o)
        if io.arready_i and io.arvalid_o:
            self.asked["ar"] = io.araddr_o
        b_done, r_done = io.bvalid_i and io.bready_o, io.rvalid_i and io.rready_o
        self.sim.clock.tick()
        if b_done:
            io.bvalid_i = 0
        elif self.asked["aw"] is not None and self.asked["w"] and self._chance():
            address, (data, strobes) = self.asked["aw"], self.asked["w"]
            mask = sum(0xFF << 8 * i for i in range(4) if strobes >> i & 1)
            self.words[address] = self.words[address] & ~mask | data & mask
            self.accesses.append(("w", address))
            self.asked |= {"aw": None, "w": None}
            io.bresp_i, io.bvalid_i = 2 * (address in self.refused), 1
        if r_done:
            io.rvalid_i = 0
        elif self.asked["ar"] is not None and self._chance():
            io.rdata_i = self.words[self.asked["ar"]]
            io.rresp_i = 2 * (self.asked["ar"] in self.refused)
            self.accesses.append(("r", self.asked["ar"]))
            self.asked["ar"] = None
            io.rvalid_i = 1

    def step(self, ready: str, valid: str) -> None:
        """Cycles until a channel of the master's side moves."""
        io = self.sim.io
        for _ in range(LIMIT):
            self.sim.settle()
            moves = getattr(io, ready) and getattr(io, valid)
            self.cycle()
            if moves:
                return
        pytest.fail(f"{ready} and {valid} never meet; {where()}")

    def write(self, address: int, words: list[tuple[int, int]], master: int) -> None:
        io = self.sim.io
        io.s_awid_i, io.s_awaddr_i, io.s_awvalid_i = master, address, 1
        self.step("s_awready_o", "s_awvalid_i")
        io.s_awvalid_i = 0
        for index, (data, strobes) in enumerate(words):
            io.s_wdata_i, io.s_wstrb_i = data, strobes
            io.s_wlast_i, io.s_wvalid_i = int(index == len(words) - 1), 1
            self.step("s_wready_o", "s_wvalid_i")
            io.s_wvalid_i = 0
        for _ in range(LIMIT):
            if io.s_bvalid_o:
                break
            self.cycle()
        for _ in range(int(self.rng.integers(3))):  # it stands until it is taken
            self.cycle()
        io.s_bready_i = 1
        places = {address + 4 * i for i in range(len(words))}
        response = 2 * bool(places & self.refused)
        assert (io.s_bvalid_o, io.s_bid_o, io.s_bresp_o) == (1, master, response), where()
        self.step("s_bready_i", "s_bvalid_o")
        io.s_bready_i = 0
        self.sim.settle()
        assert not io.s_bvalid_o, where()

    def read(self, address: int, count: int, master: int) -> list[int]:
        io = self.sim.io
        io.s_arid_i, io.s_araddr_i, io.s_arlen_i, io.s_arvalid_i = master, address, count - 1, 1
        self.step("s_arready_o", "s_arvalid_i")
        io.s_arvalid_i = 0
        found = []
        for index in range(count):
            for _ in range(LIMIT):
                if io.s_rvalid_o:
                    break
                self.cycle()
            last = int(index == count - 1)
            assert (io.s_rvalid_o, io.s_rid_o, io.s_rlast_o) == (1, master, last), where()
            assert io.s_rresp_o == 2 * (address + 4 * index in self.refused), where()
            found.append(io.s_rdata_o)
            io.s_rready_i = 1
            self.step("s_rready_i", "s_rvalid_o")
            io.s_rready_i = 0
        return found


def test_bursts_become_accesses_in_order_once_each():
    rng = fresh_rng()
    bridge, expected = Bridge(rng), dict.fromkeys(range(0, 4096, 4), 0)
    for _ in range(20):
        bridge.cycle()
    assert not bridge.accesses, "nobody asked"
    for _ in range(40):
        count, master = int(rng.integers(1, 17)), int(rng.integers(4096))
        address = 4 * int(rng.integers(0, 1024 - count))
        # One beat of the burst, whichever it is, or none.
        refused = address + 4 * int(rng.integers(count))
        bridge.refused = frozenset({refused} if rng.integers(2) else ())
        places = [address + 4 * i for i in range(count)]
        before = len(bridge.accesses)
        if rng.integers(2):
            words = [(int(rng.integers(1 << 32)), int(rng.integers(16))) for _ in range(count)]
            bridge.write(address, words, master)
            for place, (data, strobes) in zip(places, words, strict=True):
                mask = sum(0xFF << 8 * i for i in range(4) if strobes >> i & 1)
                expected[place] = expected[place] & ~mask | data & mask
            assert bridge.accesses[before:] == [("w", place) for place in places], where()
        else:
            assert bridge.read(address, count, master) == [expected[p] for p in places], where()
            assert bridge.accesses[before:] == [("r", place) for place in places], where()
    assert bridge.words == expected, where()
