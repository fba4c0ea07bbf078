# SPDX-License-Identifier: Apache-2.0
"""`tw_shared_page`: identity, time, windows, shares, and counters whose halves belong together."""

from __future__ import annotations

import itertools

import pytest
from builds import open_unit, packed
from support.randomness import fresh_rng, where

from tilewright.host.machine.registers import (
    CORE_ENTRY,
    CORE_TABLE,
    CORE_TABLE_STEP,
    SHARE_BASE,
    SHARE_COUNTER_NAMES,
    SHARE_COUNTERS,
    SHARE_REGISTERS,
    SHARE_STEP,
    SYSTEM_ID,
    SYSTEM_REGISTERS,
)

AT = {register.name: register.offset for register in SYSTEM_REGISTERS}
CORES, WINDOW = 3, 50
FROM = (7 << 32) - 2000
"""Of time and counters: their upper halves change while a test runs."""
HASHES, PORTS, WEIGHTS, BUDGETS = (5, 0xFFFF_FFFE, 9), (1, 0, 2), (1, 7, 15), (0, 300, 0xFFFF)


class Page:
    def __init__(self) -> None:
        self.sim = open_unit(
            "tw_shared_page", Cores=CORES, Ports=3, QueueDepth=4, ConfigHash="32'hcafe0001",
            CountsFrom=f"48'd{FROM}", Window=f"16'd{WINDOW}", PortReads="8'd9", PortWrites="8'd3",
            Hashes=f"96'd{packed(HASHES, 32)}", PortOf=f"12'd{packed(PORTS, 4)}",
            Weights=f"12'd{packed(WEIGHTS, 4)}", ReadBudgets=f"48'd{packed(BUDGETS, 16)}",
            WriteBudgets=f"48'd{packed(reversed(BUDGETS), 16)}",
        )  # fmt: skip
        self.io = self.sim.io
        self.io.rst_i = 1
        self.sim.clock.tick(2)
        assert not self.io.refill_o
        self.io.rst_i = 0
        self.time = 0

    def tick(self, cycles: int = 1) -> None:
        self.sim.clock.tick(cycles)
        self.time += cycles

    def write(self, offset: int, value: int) -> None:
        self.io.write_i, self.io.write_addr_i, self.io.write_data_i = 1, offset, value
        self.tick()
        self.io.write_i = 0

    def read(self, offset: int) -> int:
        self.io.read_i, self.io.read_addr_i = 1, offset
        self.tick()
        self.io.read_i = 0
        return self.io.read_data_o


@pytest.fixture
def page():
    made = Page()
    yield made
    made.sim.close()


def test_says_what_the_system_is_and_keeps_what_the_host_writes(page):
    rng = fresh_rng()
    assert page.read(AT["ID"]) == SYSTEM_ID
    assert page.read(AT["CONFIG_HASH"]) == 0xCAFE0001
    assert page.read(AT["SHAPE"]) == CORES | 3 << 8 | 4 << 16
    entry = {register.name: register.offset for register in CORE_ENTRY}
    share = {register.name: register.offset for register in SHARE_REGISTERS}
    kept = {AT["WINDOW"]: WINDOW, AT["PORT_LIMITS"]: 9 | 3 << 8, AT["QUEUE_ENABLE"]: 0}
    masks = {AT["WINDOW"]: 0xFFFF, AT["PORT_LIMITS"]: 0xFFFF, AT["QUEUE_ENABLE"]: 0b111}
    for core in range(CORES):
        place = CORE_TABLE + CORE_TABLE_STEP * core
        assert page.read(place + entry["HASH"]) == HASHES[core]
        assert page.read(place + entry["PORT"]) == PORTS[core]
        place = SHARE_BASE + SHARE_STEP * core
        values = (WEIGHTS[core], BUDGETS[core], BUDGETS[CORES - 1 - core])
        for name, value in zip(("WEIGHT", "READ_BUDGET", "WRITE_BUDGET"), values, strict=True):
            kept[place + share[name]] = value
            masks[place + share[name]] = 0xF if name == "WEIGHT" else 0xFFFF
    known = {SHARE_BASE + n for n in range(SHARE_STEP * CORES)} - set(kept)
    known = {o for o in known if (o - SHARE_BASE) % SHARE_STEP >= SHARE_COUNTERS}
    known -= {o for o in known if (o - SHARE_BASE) % SHARE_STEP >= SHARE_COUNTERS + 48}
    known |= {*kept, *AT.values(), *range(CORE_TABLE, CORE_TABLE + CORE_TABLE_STEP * CORES)}
    for offset in set(range(0, 4096, 4)) - known:
        page.write(offset, 0xFFFF_FFFF)
        assert page.read(offset) == 0, f"there is no register {offset:#x}"
    for _ in range(60):
        page.io.write_addr_i = int(rng.choice(list(kept)))  # nobody writes
        page.io.write_data_i = int(rng.integers(1 << 32))
        for offset, value in kept.items():
            assert page.read(offset) == value, f"{offset:#x}: {where()}"
        offset = int(rng.choice(list(kept)))
        value = int(rng.integers(1, 1 << 32)) | 1
        page.write(offset, value)
        kept[offset] = value & masks[offset]
        shares = [SHARE_BASE + SHARE_STEP * core for core in range(CORES)]
        io = page.io
        assert io.enable_o == kept[AT["QUEUE_ENABLE"]]
        assert io.read_limit_o | io.write_limit_o << 8 == kept[AT["PORT_LIMITS"]]
        for pin, name, bits in (("weight_o", "WEIGHT", 4), ("read_budget_o", "READ_BUDGET", 16),
                                ("write_budget_o", "WRITE_BUDGET", 16)):  # fmt: skip
            assert getattr(io, pin) == packed((kept[s + share[name]] for s in shares), bits)


def test_starts_last_a_cycle_and_interrupts_are_those_of_the_cores(page):
    for cores in (0b101, 0b010):
        page.write(AT["START"], cores)
        assert page.io.start_o == cores
        page.tick()
        assert page.io.start_o == 0
        page.io.irq_i = cores
        assert page.read(AT["IRQ_PENDING"]) == cores
        assert page.io.irq_o
        page.io.irq_i = 0
        page.tick()
        assert not page.io.irq_o


def test_a_window_begins_every_so_many_cycles(page):
    for window in (WINDOW, 7, 1, 20):
        if window != WINDOW:
            page.write(AT["WINDOW"], window)
        begins = []
        for _ in range(10 * window + WINDOW):
            page.tick()
            if page.io.refill_o:
                begins.append(page.time)
        steps = {b - a for a, b in itertools.pairwise(begins)}
        assert steps == {window}
        assert len(begins) >= 10


def test_the_halves_of_time_and_of_a_counter_are_of_one_moment(page):
    """Whatever else is read or happens between the two words."""
    rng = fresh_rng()
    io = page.io
    names = [name for name, _ in SHARE_COUNTER_NAMES]
    counts = {(core, name): FROM for core in range(CORES) for name in names}
    pins = [(d, what) for d in ("read", "write") for what in ("grant", "waited", "throttled")]

    def happen() -> None:
        """A cycle in which anything may happen, more of it to core 0."""
        for direction, what in pins:
            bits = [int(rng.random() < chance) for chance in (0.9, 0.5, 0.1)]
            lengths = [int(v) for v in rng.integers(0, 256, CORES)]
            setattr(io, f"{direction}_{what}_i", packed(bits, 1))
            if what == "grant":
                setattr(io, f"{direction}_len_i", packed(lengths, 8))
            for core, bit in enumerate(bits):
                name = f"{direction}_{'beats' if what == 'grant' else what}"
                counts[core, name] += bit * (lengths[core] + 1 if what == "grant" else 1)
        page.tick()
        for direction, what in pins:
            setattr(io, f"{direction}_{what}_i", 0)

    others = [AT[name] for name in ("ID", "WINDOW", "IRQ_PENDING", "TIME_HI", "QUEUE_ENABLE")]
    highs = set()
    for _ in range(400):
        for _ in range(int(rng.integers(1, 8))):
            happen()
        page.tick()  # what happened in a cycle is counted in the next
        core, name = int(rng.integers(CORES)), str(rng.choice(names))
        place = SHARE_BASE + SHARE_STEP * core + SHARE_COUNTERS + 8 * names.index(name)
        value, high = counts[core, name], place + 4
        if rng.random() < 0.3:
            place, value, high = AT["TIME_LO"], FROM + page.time, AT["TIME_HI"]
        assert page.read(place) == value & 0xFFFF_FFFF, (core, name, where())
        if rng.integers(2):
            happen()
            page.read(int(rng.choice(others)))
        assert page.read(high) == value >> 32, (core, name, where())
        highs.add((high == AT["TIME_HI"], value >> 32))
    assert highs == {(False, 6), (False, 7), (True, 6), (True, 7)}
