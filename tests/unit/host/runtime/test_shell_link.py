# SPDX-License-Identifier: Apache-2.0
import struct

import pytest
from support.randomness import fresh_rng, where

from tilewright.host.common.errors import DeviceError
from tilewright.host.runtime.shell_link import MEMORY, ShellLink

SIZE = 8192


def crc16(data: bytes) -> int:
    """CRC-16/CCITT-FALSE bit by bit."""
    crc = 0xFFFF
    for byte in data:
        for i in range(8):
            top = (crc >> 15) ^ (byte >> (7 - i) & 1)
            crc = (crc << 1 & 0xFFFF) ^ (0x1021 if top else 0)
    return crc


class Shell:
    """What tw_byte_shell does, byte by byte."""

    def __init__(self) -> None:
        self.memory = bytearray(SIZE)
        self.info = b"2SWT" + struct.pack("<II", SIZE, 25_000_000)
        self.frame = b""
        self.answers = b""
        self.closed = False
        self.frames = 0

    def send(self, data: bytes) -> None:
        for byte in data:
            if self.frame or byte in b"WR":
                self.frame += bytes([byte])
            if len(self.frame) >= 6:
                size = 4 * (self.frame[5] + 1)
                whole = 6 + size * (self.frame[:1] == b"W")
                if len(self.frame) == whole + 2:
                    self.frame, check = self.frame[:whole], self.frame[whole:]
                    if check == crc16(self.frame).to_bytes(2, "little"):
                        self._access(int.from_bytes(self.frame[1:5], "little"), size)
                    else:
                        self._answer(b"", 2)
                    self.frame = b""

    def _access(self, address: int, size: int) -> None:
        self.frames += 1
        space = self.memory if address < 0x4000_0000 else bytearray(self.info)
        start, status, found = address & 0xFFFF, 0, b""
        if start + size > len(space):
            status = 1
            found = bytes(size) if self.frame[:1] == b"R" else b""
        elif self.frame[:1] == b"R":
            found = bytes(space[start : start + size])
        else:
            space[start : start + size] = self.frame[6:]
        self._answer(found, status)

    def _answer(self, found: bytes, status: int) -> None:
        found += bytes([status])
        self.answers += found + crc16(self.frame + found).to_bytes(2, "little")

    def receive(self, count: int) -> bytes:
        taken, self.answers = self.answers[:count], self.answers[count:]
        return taken

    def close(self) -> None:
        self.closed = True


@pytest.mark.parametrize("size", [4, 1020, 1024, 1028, SIZE])
def test_reads_what_was_written_in_frames(size):
    shell = Shell()
    link = ShellLink(shell)
    data = fresh_rng().bytes(size)
    before = shell.frames
    link.write(MEMORY, data)
    assert link.read(MEMORY, size) == data, where()
    assert shell.memory[:size] == data
    assert shell.frames - before == 2 * -(-size // 1024)


def test_refuses_what_is_no_shell():
    shell = Shell()
    shell.info = bytes(12)
    with pytest.raises(DeviceError, match="0x54575332") as caught:
        ShellLink(shell)
    assert "bitstream" in caught.value.remedy


def test_a_silent_line_is_an_error_with_a_remedy():
    shell = Shell()
    shell.send = lambda data: None
    with pytest.raises(DeviceError, match="15 bytes, not 0") as caught:
        ShellLink(shell)
    assert "serial port" in caught.value.remedy


@pytest.mark.parametrize("write", [False, True])
def test_every_wrong_bit_of_an_answer_is_noticed(write):
    for bit in range(8 * (3 if write else 11)):
        shell = Shell()
        link = ShellLink(shell)
        receive = shell.receive

        def wrong(count, receive=receive, bit=bit):
            data = bytearray(receive(count))
            if data:
                data[bit // 8] ^= 1 << bit % 8
            return bytes(data)

        shell.receive = wrong
        with pytest.raises(DeviceError, match="CRC"):
            link.write(0, bytes(8)) if write else link.read(0, 8)


@pytest.mark.parametrize("bit", range(8 * 16))
def test_a_wrong_bit_of_a_request_is_an_error_and_writes_nothing(bit):
    shell = Shell()
    link = ShellLink(shell)
    send = shell.send

    def wrong(data):
        shell.send = send
        data = bytearray(data)
        data[bit // 8] ^= 1 << bit % 8
        send(bytes(data))

    shell.send = wrong
    with pytest.raises(DeviceError):
        link.write(64, b"12345678")
    assert shell.memory == bytes(SIZE)
    link.write(0, b"next")
    assert link.read(0, 4) == b"next"


def test_the_next_access_after_a_lost_byte_is_right():
    shell = Shell()
    link = ShellLink(shell)
    send = shell.send
    shell.send = lambda data: (setattr(shell, "send", send), send(data[1:]))
    with pytest.raises(DeviceError):
        link.write(0, b"R" * 1024)
    link.write(0, b"next")
    assert link.read(0, 4) == b"next"


def test_an_access_that_is_refused_names_its_address():
    link = ShellLink(Shell())
    with pytest.raises(DeviceError, match="refuses") as caught:
        link.read(SIZE, 4)
    assert caught.value.value == "0x2000"
