# SPDX-License-Identifier: Apache-2.0
"""`ShellDevice` on the simulated RTL of a board without a processor, to its pins."""

import numpy as np
import pytest
from support.boards.shells import BOARD, BitByBit, ByteShell, SerialBoard
from support.randomness import generator, where

from tilewright.host.common.errors import DeviceError
from tilewright.host.lowering import default_schedule, lower
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.network.golden import conv2d_int8, random_tensors
from tilewright.host.network.workload import conv2d
from tilewright.host.runtime.shell_device import ShellDevice
from tilewright.host.runtime.shell_link import MEMORY, REGISTERS, ShellLink
from tilewright.sim.programs.randprog import random_program
from tilewright.testing.device_contract import DeviceContract

pytestmark = pytest.mark.slow

TINY = load_hwconfig("tiny-4x4")
LAYER = conv2d("small", 5, 6, 7, 3, 1, 1)


@pytest.fixture
def board(tmp_path):
    return SerialBoard(TINY, tmp_path)


class TestShellDevice(DeviceContract):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path):
        self.folder = tmp_path

    def make_device(self, hw: HwConfig) -> ShellDevice:
        return ShellDevice(hw, ByteShell(hw, self.folder), watchdog_cycles=20_000)

    @pytest.mark.parametrize("name", ["tiny-4x4"])
    def test_random_programs_equal_the_reference(self, name: str) -> None:
        """The others are large; what their bus widths change is below."""
        super().test_random_programs_equal_the_reference(name)


@pytest.mark.parametrize("bits", [32, 128])
def test_the_memory_serves_other_bus_widths(tmp_path, bits):
    hw = TINY.with_(name=f"bus-{bits}", axi_data_bits=bits)
    device = ShellDevice(hw, ByteShell(hw, tmp_path))
    contract = TestShellDevice()
    for seed in range(3):
        contract.assert_works(device, seed)
    device.close()


def test_a_layer_over_the_serial_line_is_bit_exact(board):
    """Load, start and read back through the pins of the board: what a user does."""
    rng = generator("serial layer")
    device = ShellDevice(TINY, board)
    assert device.clock_mhz == BOARD.clock_mhz
    low, tensors = lower(TINY, LAYER, default_schedule(TINY, LAYER)), random_tensors(LAYER, rng)
    result = device.run(low.program, low.image(tensors))
    assert np.array_equal(low.output(result.memory), conv2d_int8(LAYER, tensors)), where()
    assert board.sim.io.led & 1  # the host was heard
    device.close()


def test_the_line_is_as_other_serial_ports_have_it(board):
    """Bits are driven and sampled in Python: ID register, and a few words of the memory."""
    board.sim.io.by_hand = 1
    link = ShellLink(BitByBit(board.sim))
    assert (link.memory_bytes, link.clock_hz) == (BOARD.memory_bytes, BOARD.clock_mhz * 1e6)
    assert link.read(REGISTERS, 4)[::-1] == b"TWR1"
    words = generator("serial words").bytes(24)
    link.write(MEMORY + BOARD.memory_bytes - 24, words)
    assert link.read(MEMORY + BOARD.memory_bytes - 24, 24) == words, where()
    link.close()


@pytest.mark.parametrize("address", [BOARD.memory_bytes, 2, REGISTERS + 4096, 0xC000_0000])
def test_what_is_nowhere_is_refused(tmp_path, address):
    link = ShellLink(ByteShell(TINY, tmp_path))
    with pytest.raises(DeviceError, match="refuses an access"):
        link.read(address, 4)
    with pytest.raises(DeviceError, match="refuses an access"):
        link.write(address, bytes(4))
    assert link.read(REGISTERS, 4)[::-1] == b"TWR1"
    link.close()


def test_lost_bytes_are_an_error_and_the_next_run_is_right(tmp_path):
    class Lossy(ByteShell):
        lose = False

        def send(self, data: bytes) -> None:
            lost = len(data) // 2
            super().send(data[:lost] + data[lost + 1 :] if self.lose else data)
            self.lose = False

    shell = Lossy(TINY, tmp_path)
    device = ShellDevice(TINY, shell)
    program, memory = random_program(TINY, np.random.default_rng(1), instructions=20)
    shell.lose = True
    with pytest.raises(DeviceError, match="serial: "):
        device.run(program, memory)
    TestShellDevice().assert_works(device, 1)
    device.close()


def test_a_program_that_does_not_fit_is_refused(tmp_path):
    device = ShellDevice(TINY, ByteShell(TINY, tmp_path))
    big = conv2d("big", 56, 64, 64, 3, 1, 1)
    low = lower(TINY, big, default_schedule(TINY, big))
    with pytest.raises(DeviceError, match="must fit the memory of the shell"):
        device.run(low.program, low.program.image())
    device.close()


def test_another_configuration_is_refused(tmp_path):
    other = TINY.with_(name="other", inp_bytes=2 * TINY.inp_bytes)
    with pytest.raises(DeviceError, match="CONFIG_HASH"):
        ShellDevice(other, ByteShell(TINY, tmp_path))
