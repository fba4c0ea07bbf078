# SPDX-License-Identifier: Apache-2.0
"""tw_regs behind `cocotbext.axi.AxiLiteMaster` against the register table of the host."""

from __future__ import annotations

import logging
from typing import Any

import cocotb
import numpy as np
from bench import KNOBS, Knob, generator, parameters, pulse, reset, start_clock, until
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from cocotbext.axi import AxiLiteBus, AxiLiteMaster

from tilewright.host.machine.hwconfig import ISA_VERSION
from tilewright.host.machine.registers import COUNTER_BASE, COUNTERS, DEVICE_ID, REGISTERS

_OFFSET = {register.name: register.offset for register in REGISTERS}
_STORED = {r.name: r.kept for r in REGISTERS if r.kept}
_RESET = {r.name: r.reset for r in REGISTERS if r.kept}


class Pulses:
    """Counts the one-cycle outputs and feeds the counter port."""

    def __init__(self, dut: Any) -> None:
        self._dut = dut
        self.seen = dict.fromkeys(("start_o", "soft_reset_o", "snapshot_o"), 0)
        self.counters = [0] * len(COUNTERS)

    async def run(self) -> None:
        """Watch every cycle."""
        while True:
            await RisingEdge(self._dut.clk_i)
            for name in self.seen:
                self.seen[name] += int(getattr(self._dut, name).value)


async def start(dut: Any) -> None:
    """The clock; all inputs beside the port are low."""
    await start_clock(dut)
    for name in ("status_i", "error_i", "error_insn_i", "wait_state_i", "event_i", "counter_i"):
        getattr(dut, name).value = 0


async def prepare(dut: Any, knob: Knob) -> tuple[AxiLiteMaster, Pulses]:
    """The unit out of reset with a master."""
    await start(dut)
    bus = AxiLiteBus.from_prefix(dut, "s_axil")
    master = AxiLiteMaster(bus, dut.clk_i, dut.rst_i)
    logging.getLogger("cocotb.bench_regs").setLevel(logging.ERROR)
    write, read = master.write_if, master.read_if
    knob.slow(
        (write.aw_channel, write.w_channel, read.ar_channel), (write.b_channel, read.r_channel)
    )
    await reset(dut)
    pulses = Pulses(dut)
    cocotb.start_soon(pulses.run())
    return master, pulses


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def stored_registers_read_back(dut: Any, knob: str) -> None:
    rng = generator("regs" + knob)
    master, _ = await prepare(dut, Knob(knob, rng))
    model = dict(_RESET)
    for _ in range(150):
        name = str(rng.choice(list(_STORED)))
        if rng.random() < 0.5:
            first, count = int(rng.integers(4)), int(rng.integers(1, 5))
            count = min(count, 4 - first)
            data = rng.bytes(count)
            await master.write(_OFFSET[name] + first, data)
            old = bytearray(model[name].to_bytes(4, "little"))
            old[first : first + count] = data
            model[name] = int.from_bytes(old, "little") & _STORED[name]
        assert await master.read_dword(_OFFSET[name]) == model[name], name
    for port in ("INSN_BASE", "MEM_BASE", "MEM_SIZE"):
        wide = model[f"{port}_LO"] | model[f"{port}_HI"] << 32
        assert int(getattr(dut, f"{port.lower()}_o").value) == wide, port
    attributes = model["AXI_ATTRIBUTES"]
    assert int(dut.attributes_o.value) == attributes >> 8 << 7 | attributes & 0x7F
    assert int(dut.insn_count_o.value) == model["INSN_COUNT"]
    assert int(dut.watchdog_o.value) == model["WATCHDOG"]


@cocotb.test()
async def every_register_has_its_first_value_after_a_reset_that_follows_writes(dut: Any) -> None:
    master, _ = await prepare(dut, Knob("none", generator("regs reset")))
    ports = ("insn_base_o", "insn_count_o", "mem_base_o", "mem_size_o", "watchdog_o", "irq_o")
    for written in (False, True):
        if written:
            for name, mask in _STORED.items():
                await master.write_dword(_OFFSET[name], 0xFFFF_FFFF)
                assert await master.read_dword(_OFFSET[name]) == mask, name
            await pulse(dut, "event_i", 3)
            await ClockCycles(dut.clk_i, 2)
            assert all(int(getattr(dut, port).value) for port in ports)
            await reset(dut)
        for port in ports:
            assert not int(getattr(dut, port).value), port
        for name, value in (*_RESET.items(), ("IRQ_STATUS", 0)):
            assert await master.read_dword(_OFFSET[name]) == value, name


async def quiet(dut: Any) -> None:
    """The unit out of reset, all inputs low, no master: the test moves the pins."""
    await start(dut)
    for name in ("awvalid", "wvalid", "arvalid", "bready", "rready", "awaddr", "wdata", "araddr"):
        getattr(dut, f"s_axil_{name}").value = 0
    await reset(dut)


@cocotb.test()
async def a_master_may_wait_for_valid_before_it_is_ready(dut: Any) -> None:
    """AXI lets RREADY and BREADY follow RVALID and BVALID: neither may be waited for."""
    await quiet(dut)

    async def rise(*outputs: str) -> None:
        """Up to and with the rising edge before which the outputs are high."""
        await until(
            dut.clk_i,
            lambda: all(int(getattr(dut, name).value) for name in outputs),
            10,
            f"{outputs} without ready",
        )

    for value in (0x1234_5678, 0xFFFF_FFFF, 0):
        dut.s_axil_awaddr.value = _OFFSET["WATCHDOG"]
        dut.s_axil_wdata.value, dut.s_axil_wstrb.value = value, 0xF
        dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = 1
        await rise("s_axil_awready", "s_axil_wready")
        dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = 0
        await rise("s_axil_bvalid")
        dut.s_axil_bready.value = 1
        await rise("s_axil_bvalid")
        dut.s_axil_bready.value = 0

        dut.s_axil_araddr.value = _OFFSET["WATCHDOG"]
        dut.s_axil_arvalid.value = 1
        await rise("s_axil_arready")
        dut.s_axil_arvalid.value = 0
        await rise("s_axil_rvalid")
        assert int(dut.s_axil_rdata.value) == value
        dut.s_axil_rready.value = 1
        await rise("s_axil_rvalid")
        dut.s_axil_rready.value = 0
        await RisingEdge(dut.clk_i)
        assert not int(dut.s_axil_rvalid.value)
        assert not int(dut.s_axil_bvalid.value)


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def status_and_identity_are_read_only(dut: Any, knob: str) -> None:
    rng = generator("regs status" + knob)
    master, _ = await prepare(dut, Knob(knob, rng))
    for _ in range(10):
        values = {
            "ID": DEVICE_ID,
            "ISA": ISA_VERSION,
            "CONFIG_HASH": parameters()["ConfigHash"],
            "CTRL": 0,
            "STATUS": int(rng.integers(16)),
            "ERROR": int(rng.integers(2**12)),
            "ERROR_INSN": int(rng.integers(2**32)),
            "WAIT_STATE": int(rng.integers(2**16)),
        }
        for name in ("STATUS", "ERROR", "ERROR_INSN", "WAIT_STATE"):
            getattr(dut, f"{name.lower()}_i").value = values[name]
        name = str(rng.choice([n for n in values if n != "CTRL"]))
        await master.write_dword(_OFFSET[name], 0xFFFF_FFFF)
        for name, value in values.items():
            assert await master.read_dword(_OFFSET[name]) == value, name
        assert await master.read_dword(0xFF0) == 0, "no register there"


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def control_bits_are_one_cycle_pulses(dut: Any, knob: str) -> None:
    rng = generator("regs pulses" + knob)
    master, pulses = await prepare(dut, Knob(knob, rng))
    expected = dict.fromkeys(pulses.seen, 0)
    for _ in range(30):
        value = int(rng.integers(4))
        await master.write_dword(_OFFSET["CTRL"], value)
        expected["start_o"] += value & 1
        expected["soft_reset_o"] += value >> 1
        # A write of a byte alone counts where its strobe is.
        lane = int(rng.integers(4))
        await master.write(_OFFSET["CTRL"] + lane, b"\x03")
        expected["start_o"] += lane == 0
        expected["soft_reset_o"] += lane == 0
        if rng.random() < 0.5:
            await master.write_dword(_OFFSET["SNAPSHOT"], int(rng.integers(2**32)))
            expected["snapshot_o"] += 1
    assert pulses.seen == expected


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def interrupts_latch_events_and_clear_on_ones(dut: Any, knob: str) -> None:
    rng = generator("regs irq" + knob)
    master, _ = await prepare(dut, Knob(knob, rng))
    status = enable = 0
    for _ in range(60):
        action = int(rng.integers(3))
        bits = int(rng.integers(4))
        if action == 0:
            await pulse(dut, "event_i", bits)
            await RisingEdge(dut.clk_i)
            status |= bits
        elif action == 1:
            await master.write_dword(_OFFSET["IRQ_STATUS"], bits)
            status &= ~bits
        else:
            await master.write_dword(_OFFSET["IRQ_ENABLE"], bits)
            enable = bits
        assert await master.read_dword(_OFFSET["IRQ_STATUS"]) == status
        assert int(dut.irq_o.value) == bool(status & enable)


@cocotb.test()
async def an_event_in_the_cycle_in_which_it_is_cleared_stays(dut: Any) -> None:
    """The response follows the cycle that clears: events of that cycle and later are kept."""
    await quiet(dut)
    address = _OFFSET["IRQ_STATUS"]
    for bits in (1, 2, 3):
        for cycle in range(1, 7):
            await pulse(dut, "event_i", 3)  # what there is to clear
            dut.s_axil_awaddr.value, dut.s_axil_wdata.value = address, 3
            dut.s_axil_wstrb.value = 0xF
            dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = 1
            dut.s_axil_bready.value = 1
            answered = 0
            for edge in range(1, 10):
                dut.event_i.value = bits if edge == cycle else 0
                await RisingEdge(dut.clk_i)
                dut.s_axil_awvalid.value = dut.s_axil_wvalid.value = 0
                if int(dut.s_axil_bvalid.value):
                    answered = edge
            dut.s_axil_araddr.value, dut.s_axil_arvalid.value = address, 1
            dut.s_axil_rready.value = 0
            await RisingEdge(dut.clk_i)
            dut.s_axil_arvalid.value = 0
            await until(dut.clk_i, lambda: int(dut.s_axil_rvalid.value) == 1, 5, "RVALID")
            left = int(dut.s_axil_rdata.value)
            dut.s_axil_rready.value = 1
            await RisingEdge(dut.clk_i)
            assert answered > 1
            assert left == (bits if cycle >= answered - 1 else 0), (bits, cycle, answered)


@cocotb.test()
async def no_input_reaches_an_output_within_a_cycle(dut: Any) -> None:
    """Every input of the port is turned over in mid-cycle; no output of it may follow."""
    rng = generator("regs paths")
    await quiet(dut)
    inputs = ("awvalid", "wvalid", "bready", "arvalid", "rready", "awaddr", "wdata", "araddr")
    outputs = ("awready", "wready", "bvalid", "arready", "rvalid", "rdata")

    def seen() -> list[int]:
        return [int(dut.irq_o.value)] + [
            int(getattr(dut, f"s_axil_{name}").value) for name in outputs
        ]

    for _ in range(300):
        await RisingEdge(dut.clk_i)
        # A master's rules are not the matter here: its pins may change at any time.
        await ReadOnly()
        before = seen()
        await FallingEdge(dut.clk_i)
        for name in inputs:
            getattr(dut, f"s_axil_{name}").value = int(rng.integers(2)) * (
                _OFFSET["ID"] if name.endswith("addr") else 1
            )
        dut.event_i.value = int(rng.integers(4))
        await ReadOnly()
        assert seen() == before


@cocotb.test()
@cocotb.parametrize(knob=KNOBS)
async def counters_are_64_bits_low_word_first(dut: Any, knob: str) -> None:
    rng = generator("regs counters" + knob)
    master, _ = await prepare(dut, Knob(knob, rng))
    values = np.array([int.from_bytes(rng.bytes(8), "little") for _ in COUNTERS], dtype="<u8")

    async def serve() -> None:
        while True:
            index = int(dut.counter_index_o.value)
            dut.counter_i.value = int(values[index]) if index < len(values) else 0
            await dut.counter_index_o.value_change

    cocotb.start_soon(serve())
    for index in rng.permutation(len(COUNTERS)).tolist():
        raw = await master.read(COUNTER_BASE + 8 * index, 8)
        assert int.from_bytes(raw.data, "little") == int(values[index]), COUNTERS[index][0]


@cocotb.test()
async def no_interrupt_is_lost_when_it_is_cleared(dut: Any) -> None:
    """An event in the cycle of the write that clears its bit is seen, before it or after it."""
    rng = generator("regs interrupts")
    master, _ = await prepare(dut, Knob("none", rng))
    await master.write_dword(_OFFSET["IRQ_ENABLE"], 3)
    for event in (1, 2, 3):
        for delay in range(16):  # somewhere in between, the write takes effect
            await master.write_dword(_OFFSET["IRQ_STATUS"], 3)
            await ClockCycles(dut.clk_i, 3)
            assert not int(dut.irq_o.value)
            clearing = cocotb.start_soon(master.write_dword(_OFFSET["IRQ_STATUS"], 3))
            await ClockCycles(dut.clk_i, delay)
            await pulse(dut, "event_i", event)
            seen = False
            for _ in range(6):
                await RisingEdge(dut.clk_i)
                seen |= bool(int(dut.irq_o.value))
            assert seen, f"event {event}, {delay} cycles after the write began, is lost"
            await clearing
            assert await master.read_dword(_OFFSET["IRQ_STATUS"]) in (0, event)
