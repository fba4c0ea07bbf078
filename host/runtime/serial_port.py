# SPDX-License-Identifier: Apache-2.0
"""`SerialPort`: a serial port of Linux as a stream of bytes."""

from __future__ import annotations

import os
import select
import termios
from pathlib import Path
from typing import Final

from tilewright.host.common.errors import ConfigError, DeviceError

BAUD: Final = 1_000_000
"""Bits per second of the shell's line (parameter Baud of `rtl/boards/ulx3s/ulx3s_top.sv`)."""

_SECONDS: Final = 1.0
"""Longest pause within an answer; a frame takes 10 ms, an adapter holds bytes for up to 16."""


class SerialPort:
    """A serial port: 8 data bits, no parity, one stop bit, no flow control."""

    def __init__(self, path: Path, *, baud: int = BAUD, seconds: float = _SECONDS) -> None:
        speed = getattr(termios, f"B{baud}", None)
        if speed is None:
            raise ConfigError("must be a speed of a serial port", field="baud", value=baud)
        self._path: Final = path
        self._seconds: Final = seconds
        self._file = -1
        try:
            self._file = os.open(path, os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            raw = termios.CREAD | termios.CLOCAL | termios.CS8
            nothing = [0] * 32
            termios.tcsetattr(self._file, termios.TCSANOW, [0, 0, raw, 0, speed, speed, nothing])
            termios.tcflush(self._file, termios.TCIOFLUSH)
        except (OSError, termios.error) as error:
            self.close()
            raise DeviceError(
                f"the serial port cannot be opened ({error.args[-1]})",
                field="serial",
                value=str(path),
                remedy="name the board's port (ls /dev/serial/by-id) and be in its group, dialout",
            ) from error

    def send(self, data: bytes) -> None:
        """Send bytes (see `ByteLink`)."""
        left = memoryview(data)
        while left:
            if not select.select([], [self._file], [], self._seconds)[1]:
                raise self._gone("it takes no bytes")
            try:
                left = left[os.write(self._file, left) :]
            except OSError as error:
                raise self._gone(str(error.strerror)) from error

    def receive(self, count: int) -> bytes:
        """The next bytes; fewer when no more come in time (see `ByteLink`)."""
        data = b""
        while len(data) < count and select.select([self._file], [], [], self._seconds)[0]:
            try:
                more = os.read(self._file, count - len(data))
            except OSError as error:
                raise self._gone(str(error.strerror)) from error
            if not more:
                raise self._gone("it was closed")
            data += more
        return data

    def close(self) -> None:
        """Close it. Idempotent."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _gone(self, why: str) -> DeviceError:
        return DeviceError(
            f"the serial port is gone ({why})",
            field="serial",
            value=str(self._path),
            remedy="connect the board again",
        )
