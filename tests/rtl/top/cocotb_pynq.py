# SPDX-License-Identifier: Apache-2.0
"""`PynqDevice`, unmodified, on a board of foreign parts: alone, behind the agent, by interrupt."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import cocotb
import numpy as np
import pytest
from bench import generator
from support.boards.agents import remote_device, serving
from top.cocotb_top import hardware
from top.pynq_board import REGISTERS_BASE, PynqBoard

from tilewright.host.common.errors import DeviceError
from tilewright.host.machine.isa import Opcode
from tilewright.host.machine.program import Program
from tilewright.host.runtime.device import Bytes, Device
from tilewright.host.runtime.driver import Driver
from tilewright.host.runtime.pynq_device import PynqDevice, import_pynq
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.testing.device_contract import build

CASES = int(os.environ.get("TILEWRIGHT_CASES", "3"))


async def board_of(dut: Any) -> PynqBoard:
    hw = hardware()
    board = PynqBoard(dut, reads=hw.read_outstanding, writes=hw.write_outstanding)
    await board.start()
    return board


def programs(salt: str) -> Iterator[tuple[Program, Bytes]]:
    rng = generator(salt)
    for _ in range(CASES):
        yield random_program(hardware(), rng)


def check(device: Device, program: Program, image: Bytes) -> int:
    """Memory must be the reference's; the cycles that the run took."""
    done = device.run(program, image)
    expected = ReferenceDevice(hardware()).run(program, image)
    assert np.array_equal(done.memory, expected.memory)
    for name in ("macs_tiles", "vector_tiles", "bytes_written"):
        assert done.counters[name] == expected.counters[name], name
    return done.counters.cycles


@contextmanager
def pynq_device(**options: Any) -> Iterator[PynqDevice]:
    with TemporaryDirectory() as folder:
        bitstream = Path(folder, "tilewright.bit")
        bitstream.touch()
        with closing(PynqDevice(hardware(), bitstream=bitstream, **options)) as device:
            yield device


@cocotb.test()
async def the_pynq_device_is_bit_exact(dut: Any) -> None:
    board = await board_of(dut)

    def software() -> None:
        with pynq_device() as device:
            for count, (program, image) in enumerate(programs("pynq"), 1):
                cycles = check(device, program, image)
                cocotb.log.info("%d instructions: %d cycles", program.instruction_count, cycles)
                assert board.interrupts == count, "one a run"
        assert not board.taken, "contiguous memory was not freed"

    await board.run(software)
    assert not int(dut.irq_o.value), "the last one was not acknowledged"


@cocotb.test()
async def the_agent_serves_it(dut: Any) -> None:
    board = await board_of(dut)

    def software() -> None:
        with (
            pynq_device() as device,
            serving(device) as address,
            closing(remote_device(address)) as remote,
        ):
            assert remote.hw == hardware()
            for program, image in programs("agent"):
                check(remote, program, image)

    await board.run(software)
    assert board.interrupts == CASES + 1, "the last run scrubs the scratchpads"


@cocotb.test()
async def an_error_is_told_and_the_next_run_works(dut: Any) -> None:
    board = await board_of(dut)

    def software() -> None:
        bad = build(hardware(), (Opcode.GEMM, {}))
        with pynq_device() as device:
            with pytest.raises(DeviceError, match="illegal field"):
                device.run(bad, bad.image())
            check(device, *next(programs("recovery")))

    await board.run(software)


@cocotb.test()
async def software_can_sleep_until_the_interrupt(dut: Any) -> None:
    """Between start and interrupt no register is read, and finish() lowers it."""
    board = await board_of(dut)

    def software() -> None:
        pynq = import_pynq()
        driver = Driver(pynq.MMIO(REGISTERS_BASE, 4096))
        interrupt = pynq.Interrupt("accelerator/irq")
        for program, image in programs("interrupt"):
            buffer = pynq.allocate((program.memory_bytes,), dtype="u1")
            buffer[:] = image
            buffer.flush()
            driver.start(program, buffer.device_address, watchdog_cycles=20_000)
            before = len(board.accesses)
            interrupt.wait()
            assert len(board.accesses) == before
            counters = driver.finish()
            buffer.invalidate()
            expected = ReferenceDevice(hardware()).run(program, image)
            assert np.array_equal(buffer, expected.memory)
            assert counters["macs_tiles"] == expected.counters["macs_tiles"]
            assert not int(dut.irq_o.value)
            buffer.freebuffer()

    await board.run(software)
    assert board.interrupts == CASES
