# SPDX-License-Identifier: Apache-2.0
"""Words of a board's shell over a stream of bytes: the host's side of `rtl/boards/tw_host_link.sv`.

A frame moves at most 256 words. It ends in a CRC, without which the shell does nothing, and its
answer in a CRC of both: a byte that is lost or wrong is noticed, not computed with.
"""

from __future__ import annotations

import binascii
import struct
from typing import Final, Protocol

from tilewright.host.common.errors import DeviceError

MEMORY: Final = 0x0000_0000
"""Where the program's memory begins in the addresses of the shell."""
REGISTERS: Final = 0x4000_0000
"""Where the accelerator's registers begin."""

_SHELL: Final = 0x8000_0000
_MAGIC: Final = 0x54575332  # "TWS2"
_FRAME_WORDS: Final = 256
_HEADER: Final = struct.Struct("<cIB")
_CHECK: Final = struct.Struct("<H")
_TAIL: Final = struct.Struct("<BH")
_DONE: Final = 0


class ByteLink(Protocol):
    """A stream of bytes in both directions."""

    def send(self, data: bytes, /) -> None:
        """Send bytes.

        Raises:
            DeviceError: the link is gone.
        """
        ...

    def receive(self, count: int, /) -> bytes:
        """The next bytes, fewer when no more come in time; `DeviceError` when the link is gone."""
        ...

    def close(self) -> None:
        """Release the link. Idempotent."""
        ...


class ShellLink:
    """The shell at the other end of a link."""

    def __init__(self, link: ByteLink) -> None:
        self._link: Final = link
        self._resynchronise()
        magic, memory_bytes, clock_hz = struct.unpack("<3I", self.read(_SHELL, 12))
        self.memory_bytes: Final = int(memory_bytes)
        self.clock_hz: Final = int(clock_hz)
        if magic != _MAGIC:
            raise DeviceError(
                f"the shell must answer {_MAGIC:#010x}",
                field="serial",
                value=f"{magic:#010x}",
                remedy="load the bitstream of `tilewright bitstream`",
            )

    def read(self, address: int, size: int) -> bytes:
        """Read bytes of whole words."""
        parts = []
        for offset in range(0, size, 4 * _FRAME_WORDS):
            length = min(4 * _FRAME_WORDS, size - offset)
            request = _HEADER.pack(b"R", address + offset, length // 4 - 1)
            self._link.send(_checked(request))
            parts.append(self._answer(request, length, address + offset))
        return b"".join(parts)

    def write(self, address: int, data: bytes) -> None:
        """Write bytes of whole words."""
        frames = {}
        for offset in range(0, len(data), 4 * _FRAME_WORDS):
            words = data[offset : offset + 4 * _FRAME_WORDS]
            head = _HEADER.pack(b"W", address + offset, len(words) // 4 - 1)
            frames[address + offset] = head + words
        # The shell answers a frame while the next one comes.
        self._link.send(b"".join(map(_checked, frames.values())))
        for place, frame in frames.items():
            self._answer(frame, 0, place)

    def close(self) -> None:
        """Release the link. Idempotent."""
        self._link.close()

    def _answer(self, request: bytes, size: int, address: int) -> bytes:
        answer = self._link.receive(size + _TAIL.size)
        if len(answer) != size + _TAIL.size:
            self._resynchronise()
            raise DeviceError(
                f"the shell must answer {size + _TAIL.size} bytes",
                field="serial",
                value=len(answer),
                remedy="check that the bitstream is loaded, that this is its serial port, and "
                "that nothing else reads it",
            )
        status, crc = _TAIL.unpack_from(answer, size)
        if crc != binascii.crc_hqx(answer[:-2], _crc(request)):
            self._resynchronise()
            raise DeviceError(
                "the CRC of an answer must be right",
                field="serial",
                value=f"{crc:#06x}",
                remedy="the line loses or changes bytes: use another cable or port, then run again",
            )
        if status != _DONE:
            raise DeviceError("the shell refuses an access", field="address", value=f"{address:#x}")
        return answer[:size]

    def _resynchronise(self) -> None:
        """Complete whatever frame the shell may be in, and forget its answers."""
        self._link.send(bytes(_HEADER.size + 4 * _FRAME_WORDS + _CHECK.size))
        while self._link.receive(_FRAME_WORDS):
            pass


def _crc(request: bytes) -> int:
    return binascii.crc_hqx(request, 0xFFFF)


def _checked(request: bytes) -> bytes:
    return request + _CHECK.pack(_crc(request))
