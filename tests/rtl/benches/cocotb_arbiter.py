# SPDX-License-Identifier: Apache-2.0
"""The write side of tw_arbiter on memories that take addresses and data in any order AXI4 allows.

A memory may wait for WVALID before it gives AWREADY, and may take data before their address. So the
arbiter must offer both without waiting for either to be taken.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import cocotb
import numpy as np
from bench import generator, reset, start_clock
from cocotb.triggers import RisingEdge

CORES = 2
BURSTS = 40
"""Of each core."""

MEMORIES = ("address first", "waits for data", "data first", "any order")


class Core:
    """Announces bursts and brings their data, as tw_store does: never before it announced them."""

    def __init__(self, number: int, rng: np.random.Generator) -> None:
        self.number = number
        self._rng = rng
        self.bursts: list[list[int]] = []
        self._beats: deque[tuple[int, int]] = deque()
        self._left = BURSTS
        self.address: tuple[int, int] | None = None
        self.beat: tuple[int, int] | None = None
        self.answers = 0

    def step(self, *, taken: bool, moved: bool, answered: bool) -> None:
        """What happened in the past cycle; chooses what is driven in the next."""
        if taken:
            self.address = None
        if moved:
            self.beat = None
        self.answers += answered
        if self.beat is None and self._beats and self._rng.random() < 0.8:
            self.beat = self._beats.popleft()
        if self.address is None and self._left and self._rng.random() < 0.6:
            self._left -= 1
            data = [int(x) for x in self._rng.integers(0, 2**32, int(self._rng.integers(1, 6)))]
            self.address = (len(self.bursts) * 4096 + self.number * 2**32, len(data) - 1)
            self.bursts.append(data)
            self._beats.extend((word, 0) for word in data[:-1])
            self._beats.append((data[-1], 1))

    @property
    def done(self) -> bool:
        """All its bursts are answered."""
        return self.answers == BURSTS


class Memory:
    """Takes addresses and data by its rule, one decision a cycle, and answers whole bursts."""

    def __init__(self, rule: str, rng: np.random.Generator) -> None:
        self._rule = rule
        self._rng = rng
        self.addresses: list[tuple[int, int, int]] = []  # core, address, length
        self.data: list[list[int]] = [[]]  # the last one is not complete
        self._answered = 0
        self.answer: int | None = None

    def step(self, address: tuple[int, int, int] | None, beat: tuple[int, int] | None) -> None:
        """What it took in the past cycle."""
        if address is not None:
            self.addresses.append(address)
        if beat is not None:
            self.data[-1].append(beat[0])
            if beat[1]:
                self.data.append([])
        self.answer = None
        whole = min(len(self.addresses), len(self.data) - 1)  # bursts with address and data
        if self._answered < whole and self._rng.random() < 0.5:
            self.answer = self.addresses[self._answered][0]
            self._answered += 1

    def ready(self, *, data_offered: bool) -> tuple[bool, bool]:
        """AWREADY and WREADY of the next cycle."""
        ahead = len(self.data) - 1 - len(self.addresses)  # bursts with data and no address
        if self._rule == "address first":
            return bool(self._rng.random() < 0.4), ahead < 0
        if self._rule == "waits for data":
            return data_offered and ahead == 0, ahead < 0
        if self._rule == "data first":
            return ahead > 0, ahead <= 0
        return bool(self._rng.random() < 0.3), bool(self._rng.random() < 0.5)


@cocotb.test()
@cocotb.parametrize(rule=MEMORIES)
async def writes_reach_a_memory_that_orders_addresses_and_data_its_way(dut: Any, rule: str) -> None:
    rng = generator("arbiter" + rule)
    cores = [Core(number, rng) for number in range(CORES)]
    memory = Memory(rule, rng)
    await start_clock(dut)
    for port in ("awaddr", "awlen", "awvalid", "wdata", "wlast", "wvalid"):
        getattr(dut, f"{port}_i").value = 0
    for port in ("awready", "wready", "bid", "bvalid"):
        getattr(dut, f"port_{port}_i").value = 0
    await reset(dut)
    aw_ready = w_ready = False
    stood: tuple[int, int, int] | None = None
    order: deque[int] = deque()  # cores whose data are to come
    for _ in range(200 * BURSTS):
        await RisingEdge(dut.clk_i)
        aw_valid, w_valid = bool(int(dut.port_awvalid_o.value)), bool(int(dut.port_wvalid_o.value))
        offered = None
        if aw_valid:
            length = int(dut.port_awlen_o.value)
            offered = (int(dut.port_awid_o.value) >> 1, int(dut.port_awaddr_o.value), length)
        waited = int(dut.write_waited_o.value)
        alone = stood is not None and len(order) == 1  # its address stands: all wait for that
        for core in cores:
            behind = core.beat is not None and bool(order) and order[0] != core.number and not alone
            told = bool(waited >> core.number & 1)
            assert told or not behind, f"data of core {core.number} wait, and it is not told"
            assert behind or core.address is not None or not told
        if stood is not None:
            assert offered == stood, f"the offer of {stood} became {offered}"
        began = offered is not None and stood is None
        stood = offered if not aw_ready else None
        beat = (int(dut.port_wdata_o.value), int(dut.port_wlast_o.value)) if w_valid else None
        if beat is not None and w_ready and beat[1]:
            order.popleft()
        if offered is not None and began:
            order.append(offered[0])
        taken, moved = int(dut.awready_o.value), int(dut.wready_o.value)
        answered = int(dut.bvalid_o.value)
        for core in cores:
            core.step(
                taken=core.address is not None and bool(taken >> core.number & 1),
                moved=core.beat is not None and bool(moved >> core.number & 1),
                answered=bool(answered >> core.number & 1),
            )
        memory.step(offered if aw_ready else None, beat if w_ready else None)
        if all(core.done for core in cores):
            break
        dut.awvalid_i.value = sum((core.address is not None) << core.number for core in cores)
        dut.awaddr_i.value = sum((core.address or (0, 0))[0] << 40 * core.number for core in cores)
        dut.awlen_i.value = sum((core.address or (0, 0))[1] << 8 * core.number for core in cores)
        dut.wvalid_i.value = sum((core.beat is not None) << core.number for core in cores)
        dut.wdata_i.value = sum((core.beat or (0, 0))[0] << 32 * core.number for core in cores)
        dut.wlast_i.value = sum((core.beat or (0, 0))[1] << core.number for core in cores)
        aw_ready, w_ready = memory.ready(data_offered=w_valid and not w_ready)
        dut.port_awready_i.value = int(aw_ready)
        dut.port_wready_i.value = int(w_ready)
        dut.port_bvalid_i.value = int(memory.answer is not None)
        dut.port_bid_i.value = (memory.answer or 0) << 1
    for core in cores:
        assert core.done, f"core {core.number}: {core.answers} of {BURSTS} bursts are answered"
    seen = [0] * CORES
    for (core, address, length), data in zip(memory.addresses, memory.data, strict=False):
        expected = cores[core].bursts[seen[core]]
        assert address == seen[core] * 4096 + core * 2**32
        assert (length + 1, data) == (len(expected), expected), f"burst {seen[core]} of core {core}"
        seen[core] += 1
    assert seen == [BURSTS] * CORES
