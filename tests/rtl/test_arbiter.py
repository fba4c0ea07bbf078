# SPDX-License-Identifier: Apache-2.0
"""`tw_arbiter`: bursts in flight, and whom addresses, data and answers belong to.

The order of write data on memories of all kinds has a bench of its own (cocotb_arbiter).
"""

from __future__ import annotations

import pytest
from builds import open_unit, packed
from support.randomness import fresh_rng, where

CORES = (5, 2, 7)
"""Numbers in the system of the three cores on the port."""
SIDES = ("read", "write")


@pytest.fixture
def sim():
    numbers = f"9'd{packed(CORES, 3)}"
    made = open_unit("tw_arbiter", reset=2, Masters=len(CORES), DataBits=32, Cores=numbers)
    io = made.io
    io.weight_i = packed([1] * len(CORES), 4)
    io.read_limit_i = io.write_limit_i = 32
    yield made
    made.close()


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("limit", [0, 1, 2, 9, 32, 33, 255])
def test_so_many_bursts_are_in_flight_and_no_more(sim, side, limit):
    io, channel = sim.io, {"read": "ar", "write": "aw"}[side]
    setattr(io, f"{side}_limit_i", limit)
    setattr(io, f"{channel}valid_i", 0b111)
    setattr(io, f"port_{channel}ready_i", 1)
    io.wvalid_i = io.wlast_i = 0b111
    io.port_wready_i = 1
    taken = 0

    def cycles(count: int) -> None:
        nonlocal taken
        for _ in range(count):
            sim.settle()
            taken += getattr(io, f"port_{channel}valid_o")
            sim.clock.tick()

    cycles(100)
    most = min(max(limit, 1), 32)
    assert taken == most
    for number in range(5):
        io.port_rvalid_i = io.port_rlast_i = int(side == "read")
        io.port_bvalid_i = int(side == "write")
        cycles(1)
        io.port_rvalid_i = io.port_bvalid_i = 0
        cycles(3)
        assert taken == most + number + 1


def test_addresses_data_and_answers_go_with_their_core(sim):
    rng = fresh_rng()
    io = sim.io
    for _ in range(300):
        attributes = [int(v) for v in rng.integers(0, 1 << 11, len(CORES))]
        io.attributes_i = packed(attributes, 11)
        offers = {}
        for channel in ("ar", "aw"):
            addresses = [int(v) for v in rng.integers(0, 1 << 40, len(CORES))]
            lengths = [int(v) for v in rng.integers(0, 16, len(CORES))]
            wants = int(rng.integers(1, 8))
            offers[channel] = (addresses, lengths, wants)
            setattr(io, f"{channel}addr_i", packed(addresses, 40))
            setattr(io, f"{channel}len_i", packed(lengths, 8))
            setattr(io, f"{channel}valid_i", wants)
            setattr(io, f"port_{channel}ready_i", 1)
        whose = int(rng.integers(8))
        io.port_rid_i = io.port_bid_i = whose << 1
        io.port_rvalid_i, io.port_rlast_i, io.port_bvalid_i = 1, 1, 1
        sim.settle()
        answered = 1 << CORES.index(whose) if whose in CORES else 0
        assert (io.rvalid_o, io.bvalid_o) == (answered, answered), where()
        for channel, (addresses, lengths, wants) in offers.items():
            assert getattr(io, f"port_{channel}valid_o")
            number = getattr(io, f"port_{channel}id_o")
            assert number & 1 == 0
            core = CORES.index(number >> 1)
            assert wants >> core & 1
            assert getattr(io, f"{channel}ready_o") == 1 << core
            assert getattr(io, f"port_{channel}addr_o") == addresses[core]
            assert getattr(io, f"port_{channel}len_o") == lengths[core]
            assert getattr(io, f"port_{channel}attributes_o") == attributes[core]
        # The data of the write that is offered: one beat, in the next cycle.
        writer = CORES.index(io.port_awid_o >> 1)
        sim.clock.tick()
        io.arvalid_i = io.awvalid_i = 0
        words = [int(v) for v in rng.integers(0, 1 << 32, len(CORES))]
        strobes = [int(v) for v in rng.integers(0, 16, len(CORES))]
        io.wdata_i, io.wstrb_i = packed(words, 32), packed(strobes, 4)
        io.wvalid_i, io.wlast_i, io.port_wready_i = 0b111, 0b111, 1
        io.port_rvalid_i = io.port_bvalid_i = 0
        sim.settle()
        assert (io.port_wvalid_o, io.wready_o) == (1, 1 << writer), where()
        assert (io.port_wdata_o, io.port_wstrb_o) == (words[writer], strobes[writer]), where()
        sim.clock.tick()
        io.wvalid_i = 0
