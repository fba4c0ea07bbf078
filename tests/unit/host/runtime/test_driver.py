# SPDX-License-Identifier: Apache-2.0
"""The driver of a core and of a system, its records and its scrub."""

import pickle
import threading
import time
from dataclasses import FrozenInstanceError, replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.programs.hazards import check_hazards
from support.randomness import generator, where

from tilewright.host.common.errors import DeviceError, ProgramError
from tilewright.host.machine.hwconfig import ISA_VERSION, load_hwconfig, named_configs
from tilewright.host.machine.program import Region
from tilewright.host.machine.registers import (
    COHERENT,
    COUNTER_BASE,
    COUNTERS,
    DEVICE_ID,
    NOT_COHERENT,
    REGISTERS,
    SHARE_BASE,
    SHARE_COUNTER_NAMES,
    SHARE_COUNTERS,
    SHARE_STEP,
    SYSTEM_REGISTERS,
    Ctrl,
    ErrorCode,
    ErrorUnit,
    Status,
    WaitState,
)
from tilewright.host.machine.status import DeviceStatusError, decode_status
from tilewright.host.machine.system_config import load_system
from tilewright.host.runtime.device import Counters
from tilewright.host.runtime.driver import WINDOW_BYTES, Driver
from tilewright.host.runtime.scrub import scrub, scrub_program
from tilewright.host.runtime.system_driver import SystemDriver
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.reference.footprint import scratchpads
from tilewright.sim.verify.randconfig import any_hwconfig
from tilewright.testing.device_contract import build
from tilewright.testing.residue import dirt

TINY = load_hwconfig("tiny-4x4")
OFFSET = {register.name: register.offset for register in REGISTERS}


class Registers:
    """Readable values by name, and every write in order."""

    def __init__(self, **values: int) -> None:
        self.values = {OFFSET[name]: value for name, value in values.items()}
        self.writes: list[tuple[int, int]] = []

    def read(self, address: int) -> int:
        return self.values.get(address, 0)

    def write(self, address: int, value: int) -> None:
        self.writes.append((address, value))

    def written(self) -> dict[str, int]:
        names = {offset: name for name, offset in OFFSET.items()}
        return {names[address]: value for address, value in self.writes}


IDENTITY = {"ID": DEVICE_ID, "ISA": ISA_VERSION, "CONFIG_HASH": TINY.config_hash}


@pytest.mark.parametrize("name", IDENTITY)
def test_anything_else_is_refused_with_both_values(name):
    registers = Registers(**{**IDENTITY, name: IDENTITY[name] ^ 0x10})
    with pytest.raises(DeviceError, match=f"register {name} must read") as error:
        Driver(registers).check_identity(TINY)
    assert f"{IDENTITY[name]:#010x}" in str(error.value)
    assert f"{IDENTITY[name] ^ 0x10:#010x}" in str(error.value)


@given(
    base=st.integers(0, (2**40 - build(TINY).memory_bytes) // 4096),
    watchdog=st.integers(0, 2**32 - 1),
)
def test_a_start_writes_every_setting_and_the_start_bit_last(base, watchdog):
    registers, program = Registers(), build(TINY)
    Driver(registers).start(program, base * 4096, watchdog_cycles=watchdog)
    written = registers.written()
    assert written["MEM_BASE_LO"] | written["MEM_BASE_HI"] << 32 == base * 4096
    assert written["MEM_SIZE_LO"] | written["MEM_SIZE_HI"] << 32 == program.memory_bytes
    start = written["INSN_BASE_LO"] | written["INSN_BASE_HI"] << 32
    assert start == program.regions["insn"].offset
    assert written["INSN_COUNT"] == program.instruction_count
    assert written["WATCHDOG"] == watchdog
    assert registers.writes[-1] == (OFFSET["CTRL"], Ctrl.START)
    assert all(0 <= value < 2**32 for _, value in registers.writes)
    settings = {r.name for r in REGISTERS if r.access == "rw"} - {"SNAPSHOT", "AXI_ATTRIBUTES"}
    assert settings | {"IRQ_STATUS"} == set(written)
    kept = {r.name: r.kept for r in REGISTERS if r.kept}
    assert all(written[name] & ~kept[name] == 0 for name in kept.keys() & written.keys())


@pytest.mark.parametrize(("coherent", "value"), [(True, COHERENT), (False, NOT_COHERENT)])
def test_bursts_say_whether_the_port_is_coherent(coherent, value):
    registers = Registers()
    Driver(registers).set_coherent(coherent=coherent)
    assert registers.written() == {"AXI_ATTRIBUTES": value}


@pytest.mark.parametrize(
    ("base", "change", "field"),
    [
        (100, {}, "MEM_BASE"),
        (-4096, {}, "MEM_BASE"),
        (2**40, {}, "MEM_BASE"),
        (2**64, {}, "MEM_BASE"),
        (2**40 - 4096, {}, "MEM_BASE + MEM_SIZE"),
        (0, {"memory_bytes": 2**39}, "MEM_SIZE"),
        (0, {"memory_bytes": 2**20 + 64}, "MEM_SIZE"),
        (0, {"regions": {"insn": Region(offset=64, nbytes=64)}}, "INSN_BASE"),
        (0, {"instructions": bytes(32 * 2**12)}, "insn"),
    ],
)
def test_a_place_that_the_registers_would_cut_off_is_refused_before_anything_is_written(
    base, change, field
):
    registers = Registers()
    with pytest.raises(ProgramError) as error:
        Driver(registers).start(replace(build(TINY), **change), base, watchdog_cycles=0)
    assert error.value.field == field
    assert not registers.writes


@pytest.mark.parametrize(
    ("status", "ended"),
    [(0, False), (Status.BUSY, False), (Status.DONE, True), (Status.ERROR, True)],
)
def test_done_and_error_end_a_run(status, ended):
    assert Driver(Registers(STATUS=status)).ended() is ended


def test_counters_are_64_bits_low_word_first_after_a_snapshot():
    registers = Registers(STATUS=Status.DONE)
    for index in range(len(COUNTERS)):
        registers.values[COUNTER_BASE + 8 * index] = 100 + index
        registers.values[COUNTER_BASE + 8 * index + 4] = index
    counters = Driver(registers).finish()
    assert counters.values == {
        name: 100 + index + (index << 32) for index, (name, _) in enumerate(COUNTERS)
    }
    assert (OFFSET["SNAPSHOT"], 1) in registers.writes
    assert Driver(registers).cycles() == counters.cycles
    assert max(registers.values) + 4 == WINDOW_BYTES


def test_a_run_that_failed_raises_its_status():
    waits = (
        WaitState.BUSY | WaitState.TOKEN_GEMM << 4 | WaitState.IDLE << 8 | WaitState.MEMORY << 12
    )
    registers = Registers(
        STATUS=Status.ERROR,
        ERROR=ErrorCode.AXI_READ | ErrorUnit.LOAD << 8,
        ERROR_INSN=77,
        WAIT_STATE=waits,
    )
    with pytest.raises(DeviceStatusError) as error:
        Driver(registers).finish()
    assert (error.value.code, error.value.unit, error.value.instruction) == (
        ErrorCode.AXI_READ,
        ErrorUnit.LOAD,
        77,
    )
    assert error.value.wait_states == (
        WaitState.BUSY,
        WaitState.TOKEN_GEMM,
        WaitState.IDLE,
        WaitState.MEMORY,
    )


def test_an_interrupt_without_an_end_is_an_error():
    with pytest.raises(DeviceError, match="the interrupt must mean done or error"):
        Driver(Registers(STATUS=Status.BUSY)).finish()


@given(error=st.integers(0, 2**32 - 1), waits=st.integers(0, 2**32 - 1))
def test_any_content_of_the_error_registers_is_one_device_error(error, waits):
    found = decode_status(error, 3, waits)
    known = error & 0xFF in set(ErrorCode) and error >> 8 & 0xF in set(ErrorUnit)
    known &= all(waits >> 4 * unit & 0xF in set(WaitState) for unit in range(4))
    assert isinstance(found, DeviceStatusError) is known
    assert known or f"{error:#x}" in str(found)


@pytest.mark.parametrize("status", [Status.BUSY, Status.RESETTING, Status.ERROR])
def test_a_reset_has_ended_when_the_accelerator_is_idle(status):
    registers = Registers(STATUS=status)
    Driver(registers).request_reset()
    assert registers.writes == [(OFFSET["CTRL"], Ctrl.SOFT_RESET)]
    assert not Driver(registers).was_reset()
    assert Driver(Registers()).was_reset()


AT = {register.name: register.offset for register in SYSTEM_REGISTERS}
TIME = 7 << 32 | 5


class SharedPage:
    """Pairs of the page: the upper word is that of the last LO register that was read."""

    def __init__(self) -> None:
        self.kept = 0
        self.pairs = {AT["TIME_LO"]: TIME}
        for core in range(2):
            for index in range(len(SHARE_COUNTER_NAMES)):
                place = SHARE_BASE + SHARE_STEP * core + SHARE_COUNTERS + 8 * index
                self.pairs[place] = (core + 1) << 40 | index

    def read(self, address: int, /) -> int:
        time.sleep(0)  # another thread may come
        if address in self.pairs:
            self.kept = self.pairs[address] >> 32
            return self.pairs[address] & 0xFFFF_FFFF
        return self.kept

    def write(self, address: int, value: int, /) -> None:
        raise AssertionError("nothing is written")


def test_pairs_of_words_belong_together_whoever_reads_beside():
    driver = SystemDriver(SharedPage(), load_system("dual-tiny"))
    wrong: list[object] = []

    def times() -> None:
        wrong.extend(found for _ in range(3000) if (found := driver.time()) != TIME)

    def counters(core: int) -> None:
        expected = {
            name: (core + 1) << 40 | index for index, (name, _) in enumerate(SHARE_COUNTER_NAMES)
        }
        wrong.extend(
            found for _ in range(500) if (found := driver.share_counters(core)) != expected
        )

    readers = [threading.Thread(target=times)]
    readers += [threading.Thread(target=counters, args=(core,)) for core in range(2)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    assert not wrong, wrong[:2]


# -- The records that devices return
VALUES = {name: 3 * index for index, (name, _) in enumerate(COUNTERS)}


def test_an_unknown_counter_is_a_key_error():
    with pytest.raises(KeyError):
        Counters(values=VALUES)["no such counter"]


def test_counters_compare_by_value_and_survive_pickling():
    counters = Counters(values=VALUES)
    assert pickle.loads(pickle.dumps(counters)) == counters == Counters(values=dict(VALUES))
    assert counters != Counters(values=VALUES | {"cycles": -1})


def test_counters_cannot_be_replaced():
    with pytest.raises(FrozenInstanceError):
        Counters(values=VALUES).values = {}


# -- The scrub writes zeros to every tile of every scratchpad; that devices obey is their
class Filled(ReferenceDevice):
    """A reference that says which tiles the last program wrote."""

    def written(self, memory):
        return self._machine._written[memory]


def check(hw):
    device, program = Filled(hw), scrub_program(hw)
    dirty = dirt(hw)
    device.run(dirty, dirty.image())
    for memory in scratchpads(hw):
        assert device.scratchpad(memory).any(axis=1).all(), f"{memory.name} of {where(hw=hw)}"
    scrub(device)
    for memory in scratchpads(hw):
        assert device.written(memory).all(), f"{memory.name} of {where(hw=hw.parameters())}"
        assert not np.count_nonzero(device.scratchpad(memory))
    check_hazards(hw, program, program.image())


@pytest.mark.parametrize("name", named_configs())
def test_every_tile_of_a_named_configuration_is_zero(name):
    check(load_hwconfig(name))


def test_every_tile_of_a_table_is_zero():
    check(load_hwconfig("tiny-4x4").with_(activation_table=1))


def test_every_tile_of_any_configuration_is_zero():
    rng = generator("scrub")
    for _ in range(20):
        check(any_hwconfig(rng))
