# SPDX-License-Identifier: Apache-2.0
"""`PynqDevice` on simulated boards: the contract of a device, caches, memory and bitstreams."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from support.boards.simulated import FewErrorsContract
from support.programs.rtl import IDEAL, ROUGH
from support.randomness import fresh_rng, often

from tilewright.host.common.errors import ConfigError, DeviceError, DeviceTimeoutError, ToolError
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig, named_configs
from tilewright.host.machine.isa import Opcode
from tilewright.host.machine.registers import DEVICE_ID
from tilewright.host.runtime.device import Bytes
from tilewright.host.runtime.driver import WINDOW_BYTES, Driver
from tilewright.host.runtime.pynq_device import PynqDevice
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.sim.verilator.pynq_simulation import (
    WINDOW_BASE,
    ContiguousMemory,
    SimulatedBoard,
    SimulatedLogic,
    simulated_device,
)
from tilewright.testing.device_contract import build, data_image, legal_steps

pynq = pytest.importorskip("pynq")

TINY = load_hwconfig("tiny-4x4")


def open_board(hw: HwConfig = TINY, **options) -> SimulatedBoard:
    return SimulatedBoard(hw, options.pop("timing", IDEAL), build_model(hw), **options)


class TestPynqDevice(FewErrorsContract):
    def make_device(self, hw: HwConfig) -> PynqDevice:
        return open_board(hw, watchdog_cycles=20_000)

    @pytest.mark.parametrize("name", often("boards", named_configs(), 2))
    def test_random_programs_equal_the_reference(self, name: str) -> None:
        super().test_random_programs_equal_the_reference(name)


class TestCoherentPynqDevice(FewErrorsContract):
    programs = 1

    def make_device(self, hw: HwConfig) -> PynqDevice:
        return open_board(hw, watchdog_cycles=20_000, coherent=True)

    @pytest.mark.parametrize("name", often("coherent boards", named_configs(), 2))
    def test_random_programs_equal_the_reference(self, name: str) -> None:
        super().test_random_programs_equal_the_reference(name)


@pytest.fixture
def board():
    opened = open_board()
    yield opened
    opened.close()


def program_and_image(seed: int = 0, hw: HwConfig = TINY):
    return random_program(hw, np.random.default_rng(seed), instructions=20)


def stuck():
    """A program that waits for a token forever."""
    opcode, values = legal_steps(TINY)["inp"]
    return build(TINY, (opcode, {**values, "pop": 0b0010}))


@pytest.mark.parametrize("timing", [IDEAL, ROUGH], ids=lambda timing: timing.name)
@pytest.mark.parametrize("alignment", [4096, 64])
def test_every_counter_equals_that_of_the_simulated_rtl(timing, alignment):
    rng = fresh_rng()
    memory = ContiguousMemory(1 << 24, coherent=False, alignment=alignment)
    memory.allocate(100)  # the buffers behind it begin off a page where the alignment lets them
    logic = SimulatedLogic(TINY, timing, build_model(TINY), memory)
    device = on_logic(logic)
    plain = VerilatorDevice(TINY, timing)
    for _ in range(5):
        program, image = random_program(TINY, rng, instructions=20)
        expected, found = plain.run(program, image), device.run(program, image)
        assert np.array_equal(found.memory, expected.memory)
        assert found.counters == expected.counters
    device.close()
    logic.close()
    plain.close()


def on_logic(logic: SimulatedLogic, hw: HwConfig = TINY, **options) -> PynqDevice:
    overlay = pynq.Overlay(str(Path(__file__)), device=simulated_device(logic))
    return PynqDevice(hw, overlay=overlay, **options)


# -- caches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("forgotten", ["flush", "invalidate"])
def test_without_cache_maintenance_the_result_is_wrong(board, forgotten, monkeypatch):
    """The simulated caches catch what a real board would."""
    program = build(TINY, *legal_steps(TINY).values())
    image = data_image(program)
    assert np.array_equal(board.run(program, image).memory, reference(program, image))
    other = image.copy()
    data = program.read(other, "data")
    data[:-4096] += 1  # its last page holds parameters, which must stay legal
    expected = reference(program, other)
    assert np.array_equal(board.run(program, other).memory, expected)
    board.run(program, image)
    with monkeypatch.context() as patched:
        patched.setattr(f"pynq.buffer.PynqBuffer.{forgotten}", lambda _self: None)
        assert not np.array_equal(board.run(program, other).memory, expected)
    assert np.array_equal(board.run(program, other).memory, expected)


def reference(program, image) -> Bytes:
    return ReferenceDevice(TINY).run(program, image).memory


def test_a_first_run_without_a_flush_fails_too(monkeypatch):
    board = open_board(watchdog_cycles=20_000)
    program, image = program_and_image()
    monkeypatch.setattr("pynq.buffer.PynqBuffer.flush", lambda _self: None)
    with pytest.raises(DeviceError):
        board.run(program, image)
    board.close()


def test_a_port_that_is_said_to_be_coherent_and_is_not_gives_no_result():
    memory = ContiguousMemory(1 << 20, coherent=False)
    logic = SimulatedLogic(TINY, IDEAL, build_model(TINY), memory)
    device = on_logic(logic, coherent=True, watchdog_cycles=20_000)
    with pytest.raises(DeviceError):
        device.run(*program_and_image())
    device.close()
    logic.close()


# -- contiguous memory ----------------------------------------------------------------------


def test_a_buffer_is_kept_while_it_is_large_enough_and_freed_on_close(monkeypatch):
    board = open_board(contiguous_bytes=5 << 19)  # it holds the smaller buffer or the larger one
    sizes: list[int] = []
    allocate = board.logic.memory.allocate
    monkeypatch.setattr(
        board.logic.memory, "allocate", lambda size: sizes.append(size) or allocate(size)
    )
    small, large = build(TINY), replace(build(TINY), memory_bytes=1 << 20)
    for program in (large, small, large, small):
        board.run(program, program.image())
    assert len(sizes) == 1
    huge = replace(build(TINY), memory_bytes=1 << 21)
    board.run(huge, huge.image())
    assert len(sizes) == 2
    assert board.logic.memory.allocated == sizes[1], "the smaller one is freed first"
    board.close()
    assert board.logic.memory.allocated == 0


def test_a_program_beyond_the_contiguous_memory_is_refused_and_the_next_one_runs():
    board = open_board(contiguous_bytes=1 << 20)
    program = replace(build(TINY), memory_bytes=1 << 20)
    with pytest.raises(DeviceError, match=r"must fit the contiguous memory.*not 1048576;.*cma="):
        board.run(program, program.image())
    assert np.array_equal(board.run(*program_and_image()).memory, reference(*program_and_image()))
    board.close()


def test_the_limit_of_the_board_file_is_named():
    board = open_board(memory_limit=100_000)
    program = replace(build(TINY), memory_bytes=1 << 20)
    with pytest.raises(DeviceError, match=r"contiguous memory \(at most 100000 bytes\)"):
        board.run(program, program.image())
    assert board.logic.memory.allocated == 0
    board.close()


def test_an_image_is_packed_while_the_accelerator_runs_another(board, monkeypatch):
    """The accelerator ends the first run when the second image is in contiguous memory."""
    program, image = program_and_image()
    begun, packed = threading.Event(), threading.Event()
    flush, ended = pynq.buffer.PynqBuffer.flush, Driver.ended

    def flushed(buffer) -> None:
        flush(buffer)
        if begun.is_set():
            packed.set()

    def held(driver) -> bool:
        begun.set()
        assert packed.wait(60), "the second image waits for the first run"
        return ended(driver)

    monkeypatch.setattr("pynq.buffer.PynqBuffer.flush", flushed)
    monkeypatch.setattr(Driver, "ended", held)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(board.run, program, image)
        assert begun.wait(60)
        second = threads.submit(board.run, program, image)
        for done in (first, second):
            assert np.array_equal(done.result().memory, reference(program, image))


@pytest.mark.parametrize("buffers", [1, 2])
def test_runs_of_many_threads_have_their_own_results(buffers):
    """Where the memory holds one buffer, they wait for it."""
    largest = max(program_and_image(seed)[0].memory_bytes for seed in range(6)) + 4096
    board = open_board(contiguous_bytes=buffers * (largest + 4096) - 1)
    cases = [program_and_image(seed) for seed in range(6)]
    with ThreadPoolExecutor(4) as threads:
        done = threads.map(lambda case: board.run(*case).memory, cases * 3)
        for case, memory in zip(cases * 3, done, strict=True):
            assert np.array_equal(memory, reference(*case))
    board.close()
    assert board.logic.memory.allocated == 0


# -- runs that do not end -------------------------------------------------------------------


def test_the_cycle_limit_ends_a_run_and_the_next_one_works():
    board = open_board(watchdog_cycles=0)
    with pytest.raises(DeviceTimeoutError, match="within 3000 cycles"):
        board.run(stuck(), stuck().image(), max_cycles=3000)
    assert np.array_equal(board.run(*program_and_image()).memory, reference(*program_and_image()))
    board.close()


def test_the_cycle_limit_holds_for_a_run_that_ended_meanwhile(board):
    program, image = program_and_image()
    cycles = board.run(program, image).counters.cycles
    assert board.run(program, image, max_cycles=cycles).counters.cycles == cycles
    with pytest.raises(DeviceTimeoutError):
        board.run(program, image, max_cycles=cycles - 1)


def test_the_time_limit_ends_a_run_and_the_next_one_works():
    board = open_board(watchdog_cycles=0, max_seconds=1.0)
    with pytest.raises(DeviceTimeoutError, match=r"within 1 seconds"):
        board.run(stuck(), stuck().image())
    board.run(*program_and_image())
    board.close()


@pytest.mark.parametrize("way", ["give_up", "close"])
def test_a_run_can_be_ended_from_another_thread(way):
    board = open_board(watchdog_cycles=0)
    threading.Timer(0.1, getattr(board, way)).start()
    with pytest.raises(DeviceError, match="given up"):
        board.run(stuck(), stuck().image())
    if way == "give_up":
        board.run(*program_and_image())
        board.close()


def test_an_interrupted_run_leaves_the_accelerator_idle(board, monkeypatch):
    def interrupt(_driver):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("tilewright.host.runtime.driver.Driver.ended", interrupt)
        with pytest.raises(KeyboardInterrupt):
            board.run(stuck(), stuck().image())
    assert np.array_equal(board.run(*program_and_image()).memory, reference(*program_and_image()))


def test_a_run_of_a_process_that_was_killed_is_ended_when_the_device_is_opened():
    memory = ContiguousMemory(1 << 22, coherent=False)
    logic = SimulatedLogic(TINY, IDEAL, build_model(TINY), memory)
    overlay = pynq.Overlay(str(Path(__file__)), device=simulated_device(logic))
    killed = PynqDevice(TINY, overlay=overlay, watchdog_cycles=0)
    with killed._buffers.taken(stuck().memory_bytes) as view:
        view[:] = stuck().image()
        view.flush()
        killed._driver.start(stuck(), view.device_address, watchdog_cycles=0)
    assert not killed._driver.ended()
    assert not killed._driver.was_reset()
    device = PynqDevice(TINY, overlay=overlay)
    assert np.array_equal(device.run(*program_and_image()).memory, reference(*program_and_image()))
    device.close()
    logic.close()


def test_an_accelerator_that_does_not_end_its_reset_refuses_runs(board, monkeypatch):
    monkeypatch.setattr("tilewright.host.runtime.polled_device._RESET_SECONDS", 0.05)
    monkeypatch.setattr("tilewright.host.runtime.driver.Driver.was_reset", lambda _driver: False)
    bad = build(TINY, (Opcode.GEMM, {}))
    with pytest.raises(DeviceError, match="illegal field"):
        board.run(bad, bad.image())
    with pytest.raises(DeviceError, match=r"must end its soft reset.*load the bitstream again"):
        board.run(*program_and_image())


# -- bitstreams -----------------------------------------------------------------------------


def test_a_bitstream_of_another_configuration_names_both_hashes():
    other = TINY.with_(read_outstanding=TINY.read_outstanding + 1)
    logic = SimulatedLogic(TINY, IDEAL, build_model(TINY), ContiguousMemory(8192, coherent=False))
    with pytest.raises(DeviceError, match="CONFIG_HASH") as error:
        on_logic(logic, other)
    assert f"{other.config_hash:#010x}" in str(error.value)
    assert f"{TINY.config_hash:#010x}" in str(error.value)
    logic.close()


def test_files_that_cannot_be_bitstreams(tmp_path):
    (tmp_path / "x.txt").touch()
    for name, message in (("absent.bit", "no such file"), ("x.txt", "must end in .bit")):
        with pytest.raises(ConfigError, match=message):
            PynqDevice(TINY, bitstream=tmp_path / name)


def test_what_pynq_refuses_is_one_error(tmp_path, monkeypatch):
    (tmp_path / "x.bit").touch()

    def refuse(*_arguments, **_options):
        raise RuntimeError("Unable to find metadata for bitstream")

    monkeypatch.setattr(pynq, "Overlay", refuse)
    with pytest.raises(DeviceError, match=r"Unable to find metadata.*x\.hwh"):
        PynqDevice(TINY, bitstream=tmp_path / "x.bit")


@pytest.mark.parametrize("given", [{}, {"bitstream": Path("x.bit"), "overlay": 1}])
def test_a_file_or_an_overlay_is_needed(given):
    with pytest.raises(ConfigError, match="either a file or an overlay"):
        PynqDevice(TINY, **given)


def test_without_pynq_the_error_says_where_to_read_on(monkeypatch):
    monkeypatch.setitem(sys.modules, "pynq", None)
    with pytest.raises(ToolError, match=r"pynq package cannot be imported.*docs/how-to/boards.md"):
        PynqDevice(TINY, overlay=object())


class Blocks:
    """An overlay with IP blocks of other names; the last one is the accelerator."""

    def __init__(self, logic: SimulatedLogic, blocks: dict[str, dict[str, object]]) -> None:
        self.device = simulated_device(logic)
        self.ip_dict = blocks
        self.loaded = True

    def is_loaded(self) -> bool:
        return self.loaded


def block(kind: str, *, at: int = WINDOW_BASE, size: int = 0x1000) -> dict[str, object]:
    return {"type": kind, "phys_addr": at, "addr_range": size}


USER = "user.org:user:array:1.0"
XILINX = "xilinx.com:ip:axi_dma:7.1"


@pytest.mark.parametrize(
    ("blocks", "ip", "found"),
    [
        ({"dma": block(XILINX), "mine": block(USER)}, "", True),
        ({"tilewright_0": block(XILINX), "mine": block(USER)}, "", True),
        ({"dma": block(XILINX)}, "", False),
        ({"dma": block(XILINX)}, "dma", True),
        ({"mine": block(USER)}, "other", False),
        ({"mine": block(USER, size=WINDOW_BYTES - 4)}, "", False),
        ({"a": block(USER), "b": block(USER)}, "", False),
        ({"a": block(USER), "b": block(USER)}, "b", True),
        ({}, "", False),
    ],
)
def test_the_accelerator_is_found_by_name_by_type_or_by_its_id(blocks, ip, found):
    logic = SimulatedLogic(TINY, IDEAL, build_model(TINY), ContiguousMemory(8192, coherent=False))
    overlay = Blocks(logic, blocks)
    if found:
        PynqDevice(TINY, overlay=overlay, ip=ip).close()
    else:
        with pytest.raises(DeviceError, match="must be one accelerator in the bitstream"):
            PynqDevice(TINY, overlay=overlay, ip=ip)
    logic.close()


def test_a_block_that_is_no_accelerator_is_refused_by_its_id(monkeypatch):
    logic = SimulatedLogic(TINY, IDEAL, build_model(TINY), ContiguousMemory(8192, coherent=False))
    monkeypatch.setattr(logic, "read", lambda _offset: 7)
    with pytest.raises(DeviceError, match=f"register ID must read {DEVICE_ID:#010x}"):
        PynqDevice(TINY, overlay=Blocks(logic, {"x": block(USER)}), ip="x")
    logic.close()


def test_an_overlay_that_another_one_replaced_is_refused():
    logic = SimulatedLogic(TINY, IDEAL, build_model(TINY), ContiguousMemory(8192, coherent=False))
    overlay = Blocks(logic, {"tilewright": block(USER)})
    overlay.loaded = False
    with pytest.raises(DeviceError, match="must be the one that is loaded"):
        PynqDevice(TINY, overlay=overlay)
    logic.close()


def test_registers_that_need_root_rights_are_one_error(monkeypatch):
    def refuse(*_arguments, **_options):
        raise OSError("Root permissions required.")

    monkeypatch.setattr(pynq, "MMIO", refuse)
    overlay = SimpleNamespace(
        ip_dict={"tilewright": block(USER)}, device=None, is_loaded=lambda: True
    )
    with pytest.raises(DeviceError, match=r"Root permissions required.*sudo"):
        PynqDevice(TINY, overlay=overlay)


@pytest.mark.parametrize("options", [{"watchdog_cycles": 2**32}, {"max_seconds": 0}])
def test_options_that_no_register_or_clock_can_hold(options):
    with pytest.raises(ConfigError, match=next(iter(options))):
        PynqDevice(TINY, overlay=object(), **options)
