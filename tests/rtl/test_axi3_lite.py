# SPDX-License-Identifier: Apache-2.0
"""`tw_axi3_lite`: bursts of a Zynq's processors become accesses of AXI4-Lite, once each."""

from __future__ import annotations

from axi3 import Processors
from builds import open_unit
from support.randomness import fresh_rng, where


class Bridge(Processors):
    """The bridge between a master that stalls at random and registers that do."""

    def __init__(self, rng) -> None:
        self.sim = open_unit("tw_axi3_lite", reset=2)
        self.rng = rng
        self.words = dict.fromkeys(range(0, 4096, 4), 0)
        self.accesses = []
        self.refused = frozenset()
        """Addresses whose accesses are answered with an error."""
        self.asked = {"aw": None, "w": None, "ar": None}

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
            response = 2 * bool(bridge.refused & set(places))
            assert bridge.write(address, words, master) == response, where()
            for place, (data, strobes) in zip(places, words, strict=True):
                mask = sum(0xFF << 8 * i for i in range(4) if strobes >> i & 1)
                expected[place] = expected[place] & ~mask | data & mask
            assert bridge.accesses[before:] == [("w", place) for place in places], where()
        else:
            answers = [2 * (place in bridge.refused) for place in places]
            found = bridge.read(address, count, master)
            assert found == ([expected[p] for p in places], answers), where()
            assert bridge.accesses[before:] == [("r", place) for place in places], where()
    assert bridge.words == expected, where()
