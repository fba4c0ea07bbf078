# SPDX-License-Identifier: Apache-2.0
"""tw_queue with its core's control: settings of each run, completions, what the window keeps."""

from __future__ import annotations

from typing import Any

import cocotb
import numpy as np
from bench import generator, pulse, random_bits, reset, start_clock, until
from cocotb.triggers import ClockCycles, RisingEdge
from units import unpacked

from tilewright.host.machine.registers import QUEUE_REGISTERS, Completion, ErrorCode, QueueStatus
from tilewright.host.machine.wires import SETTINGS, STATUS

OFFSET = {register.name: register.offset for register in QUEUE_REGISTERS}
KEPT = {register.name: register.kept for register in QUEUE_REGISTERS}
DEPTH = 2
SCRUB = {"insn_base": 0x1000, "insn_count": 7, "mem_base": 0, "mem_size": 0x2000}
SCRUB_WATCHDOG = 1 << 16
FROM_VECTOR = 2
_DESCRIPTION = ("INSN_BASE", "INSN_COUNT", "MEM_BASE", "MEM_SIZE", "WATCHDOG", "TAG")
_PAIRS = ("INSN_BASE", "MEM_BASE", "MEM_SIZE")


class Host:
    """The registers, the window and the core that the queue has to do with."""

    def __init__(self, dut: Any, salt: str) -> None:
        self.dut = dut
        self.rng: np.random.Generator = generator(f"queue {salt}")
        self.edge = RisingEdge(dut.clk_i)
        self.attributes = random_bits(self.rng, 11)

    async def start(self) -> None:
        dut = self.dut
        await start_clock(dut)
        for name in ("enable", "now", "write", "write_addr", "write_data", "read_addr", "finish",
                     "host_start", "host_reset", "error_valid", "error_code", "error_index",
                     "state"):  # fmt: skip
            getattr(dut, f"{name}_i").value = 0
        dut.bus_idle_i.value = 1
        dut.attributes_i.value = self.attributes
        await reset(dut)
        assert not dut.irq_o.value

    async def pulse(self, name: str) -> None:
        await pulse(self.dut, f"{name}_i")

    async def write(self, name: str, value: int) -> None:
        self.dut.write_addr_i.value, self.dut.write_data_i.value = OFFSET[name], value
        await self.pulse("write")

    async def read(self, name: str) -> int:
        self.dut.read_addr_i.value = OFFSET[name]
        await self.edge
        return int(self.dut.read_data_o.value)

    async def read_pair(self, name: str) -> int:
        return await self.read(f"{name}_LO") | await self.read(f"{name}_HI") << 32

    async def push(self, *, scrub: bool = False) -> dict[str, int]:
        """Append a random descriptor, and what a run of it is given."""
        given = {}
        for name in _DESCRIPTION:
            parts = (f"DESC_{name}_LO", f"DESC_{name}_HI") if name in _PAIRS else (f"DESC_{name}",)
            given[name] = 0
            for number, part in enumerate(parts):
                value = random_bits(self.rng, 32) | 1
                await self.write(part, value)
                assert await self.read(part) == value & KEPT[part], part
                given[name] |= (value & KEPT[part]) << 32 * number
        await self.write("QUEUE_PUSH", int(scrub) | 0xFFFF_FFFE)
        return given

    def settings(self) -> dict[str, int]:
        return unpacked(self.dut.settings_o, SETTINGS)

    def status(self) -> dict[str, int]:
        return unpacked(self.dut.status_o, STATUS)

    async def accepted(self) -> None:
        await until(self.dut.clk_i, lambda: bool(self.dut.accept_o.value), 30, "a run")

    async def running(self) -> None:
        await until(self.dut.clk_i, lambda: bool(self.dut.running_o.value), 30, "the program")

    async def finish(self, cycles: int = 3) -> None:
        """The program runs for some cycles and ends well."""
        await self.running()
        await ClockCycles(self.dut.clk_i, cycles)
        await self.pulse("finish")

    async def fail(self, code: ErrorCode, index: int, waits: int = 0) -> None:
        """The program runs and ends with an error."""
        await self.running()
        dut = self.dut
        dut.error_code_i.value, dut.error_index_i.value, dut.state_i.value = code, index, waits
        await self.pulse("error_valid")

    def expect_run(self, given: dict[str, int]) -> None:
        """The core takes a descriptor's program in this cycle, with what the host chose for it."""
        expected = {name.lower(): given[name] for name in _DESCRIPTION if name != "TAG"}
        assert self.settings() == {**expected, "attributes": self.attributes}
        assert self.dut.active_o.value
        assert not self.dut.scrub_o.value

    def expect_scrub(self) -> None:
        """The core takes the scrub in this cycle, with nothing of a tenant."""
        expected = {**SCRUB, "watchdog": SCRUB_WATCHDOG, "attributes": self.attributes}
        assert self.settings() == expected
        assert self.dut.scrub_o.value

    async def completed(self, tag: int) -> int:
        """COMPLETION_STATUS of the oldest completion, which must have a tag."""
        for _ in range(10):
            if await self.read("QUEUE_STATUS") >> 8 & 0xFF:
                break
        assert await self.read("COMPLETION_TAG") == tag
        return await self.read("COMPLETION_STATUS")


@cocotb.test()
async def an_error_of_the_window_stands_until_its_soft_reset(dut: Any) -> None:
    """Whenever the descriptor comes: before the window's run, while it runs, behind its error."""
    host = Host(dut, "window error")
    await host.start()
    for when in ("before", "during", "behind"):
        for scrub in (False, True):
            given = await host.push(scrub=scrub) if when == "before" else {}
            await host.pulse("host_start")
            await host.running()
            if when == "during":
                given = await host.push(scrub=scrub)
            dut.enable_i.value = 1
            dut.bus_idle_i.value = 0
            await host.fail(ErrorCode.SRAM_RANGE, 5)
            if when == "behind":
                given = await host.push(scrub=scrub)
            for cycle in range(60):
                dut.bus_idle_i.value = int(cycle > 20)
                await host.edge
                status = host.status()
                assert (status["failed"], status["error"]) == (1, ErrorCode.SRAM_RANGE), when
                assert (status["error_unit"], status["error_index"]) == (FROM_VECTOR, 5), when
                assert not dut.active_o.value, when
            assert await host.read("QUEUE_STATUS") == QueueStatus.HELD | 1
            await host.pulse("host_reset")
            await host.accepted()
            if scrub:
                host.expect_scrub()
                await host.finish()
                await host.accepted()
            host.expect_run(given)
            assert not await host.read("QUEUE_STATUS") & QueueStatus.HELD
            await host.finish()
            assert await host.completed(given["TAG"]) == Completion.DONE
            await host.write("COMPLETION_POP", 1)
            dut.enable_i.value = 0


@cocotb.test()
async def a_start_of_the_window_in_any_cycle_is_never_taken_for_the_descriptors(dut: Any) -> None:
    host = Host(dut, "window start")
    await host.start()
    for scrub in (False, True):
        for late in range(5):
            given = await host.push(scrub=scrub)
            dut.enable_i.value = 1
            scrubs, programs, others = 0, 0, 0
            for cycle in range(60):
                dut.host_start_i.value = int(cycle == late)
                await host.edge
                if not dut.accept_o.value:
                    pass
                elif not dut.active_o.value:
                    others += 1
                elif dut.scrub_o.value:
                    host.expect_scrub()
                    scrubs += 1
                else:
                    host.expect_run(given)
                    programs += 1
                    assert scrubs == scrub, f"{scrubs} scrubs, a start after {late} cycles"
                dut.finish_i.value = int(dut.running_o.value)
            dut.finish_i.value = 0
            assert programs == 1, f"{programs} programs, a start after {late} cycles"
            assert await host.completed(given["TAG"]) == Completion.DONE
            assert others <= 1
            await host.write("COMPLETION_POP", 1)
            dut.enable_i.value = 0


@cocotb.test()
async def a_completion_says_what_became_of_the_run(dut: Any) -> None:
    host = Host(dut, "completions")
    await host.start()
    await host.write("QUEUE_IRQ_ENABLE", 1)
    dut.enable_i.value = 1
    for scrub, end in ((s, e) for s in (False, True) for e in ("done", "error", "reset", "scrub")):
        if end == "scrub" and not scrub:
            continue
        given = await host.push(scrub=scrub)
        if scrub:
            await host.accepted()
            host.expect_scrub()
            if end != "scrub":
                await host.finish(cycles=9)
        now = random_bits(host.rng, 48) | 1 << 40
        dut.now_i.value = now
        if end == "scrub":
            await host.fail(ErrorCode.WATCHDOG, 1)
        else:
            await host.accepted()
            host.expect_run(given)
        dut.now_i.value = 0
        index, waits = random_bits(host.rng, 32), random_bits(host.rng, 16)
        expected = {
            "done": Completion.DONE,
            "error": Completion.ERROR | FROM_VECTOR << 8 | ErrorCode.ACC_BANK,
            "reset": Completion.RESET,
            "scrub": Completion.ERROR | Completion.SCRUB | FROM_VECTOR << 8 | ErrorCode.WATCHDOG,
        }[end]
        if end == "done":
            await host.finish(cycles=20)
        elif end == "error":
            await host.fail(ErrorCode.ACC_BANK, index, waits)
        elif end == "reset":
            await host.running()
            await host.pulse("host_reset")
        assert await host.completed(given["TAG"]) == expected, (scrub, end)
        if end != "scrub":
            assert await host.read_pair("COMPLETION_BEGIN") == now
        if end == "error":
            assert await host.read("COMPLETION_ERROR_INSN") == index
            assert await host.read("COMPLETION_WAIT_STATE") == waits
        if end == "done":
            assert 20 <= await host.read_pair("COMPLETION_CYCLES") < 26
        assert dut.irq_o.value
        await host.write("COMPLETION_POP", 1)
        await host.edge
        await host.edge
        assert not dut.irq_o.value
        assert host.status()["failed"] == 0, "the queue resets a core whose descriptor failed"


@cocotb.test()
async def descriptors_run_in_order_while_there_is_room(dut: Any) -> None:
    host = Host(dut, "order")
    await host.start()
    for _ in range(4):
        given = [await host.push(scrub=bool(n)) for n in range(DEPTH)]
        assert await host.read("QUEUE_STATUS") & 0xFFFF == DEPTH
        dut.enable_i.value = 1
        for number, each in enumerate(given):
            if number:
                await host.accepted()
                host.expect_scrub()
                await host.finish()
            await host.accepted()
            host.expect_run(each)
            assert await host.read("QUEUE_STATUS") >> 16 & 1
            await host.finish()
        dut.enable_i.value = 0
        late = await host.push()
        dut.enable_i.value = 1
        for _ in range(20):
            await host.edge
            assert not dut.active_o.value, "the completions are full"
        for each in given:
            assert await host.completed(each["TAG"]) == Completion.DONE
            await host.write("COMPLETION_POP", 1)
        await host.finish()
        dut.enable_i.value = 0
        assert await host.completed(late["TAG"]) == Completion.DONE
        await host.write("COMPLETION_POP", 1)
        assert await host.read("QUEUE_STATUS") == 0
    for _ in range(DEPTH):
        await host.push()
    assert not await host.read("QUEUE_STATUS") & QueueStatus.DROPPED
    await host.push()
    assert await host.read("QUEUE_STATUS") == QueueStatus.DROPPED | DEPTH
    await reset(dut)
    assert await host.read("QUEUE_STATUS") == 0
