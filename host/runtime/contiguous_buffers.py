# SPDX-License-Identifier: Apache-2.0
"""`ContiguousBuffers`: contiguous memory of runs, one filled while another one is used."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import DeviceError

MOST: Final = 2
"""Buffers at a time: one that the accelerator works on, one that the CPU fills or reads."""
_PAGE: Final = 4096
"""Alignment of a program's memory (register MEM_BASE)."""
_CMA_REMEDY: Final = "boot with a larger cma=, or end other programs that hold pynq buffers"


class ContiguousBuffers:
    """Hands buffers out to threads, and keeps them for the next while they are large enough.

    A thread that alone uses them gets the same one each time. Where the memory holds one buffer
    only, a second thread waits for it.
    """

    def __init__(self, allocate: Callable[[int], Any], limit: int) -> None:
        self._allocate: Final = allocate
        self._limit: Final = limit
        self._changed: Final = threading.Condition()
        self._unused: list[Any] = []
        self._taken = 0
        self._closed = False

    @contextmanager
    def taken(self, nbytes: int) -> Iterator[Any]:
        """A view of so many bytes from a page's start, for the caller alone."""
        buffer = self._take(nbytes)
        try:
            # whatever the address, a page starts in the first `_PAGE` bytes
            start = int(-buffer.device_address % _PAGE)
            yield buffer[start : start + nbytes]
        finally:
            with self._changed:
                self._taken -= 1
                self._unused.append(buffer)
                self._changed.notify_all()

    def close(self) -> None:
        """Free all of them, when those who use one have ended. Idempotent."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            while self._taken:
                self._changed.wait()
            self._free_unused()

    def _take(self, nbytes: int) -> Any:
        if self._limit and nbytes > self._limit:
            raise DeviceError(
                f"must fit the board's contiguous memory (at most {self._limit} bytes)",
                field="memory_bytes",
                value=nbytes,
                remedy=_CMA_REMEDY,
            )
        wanted = nbytes + _PAGE
        with self._changed:
            while not self._closed:
                buffer = self._kept(wanted)
                if buffer is None and self._taken < MOST:
                    buffer = self._new(wanted, nbytes)
                if buffer is not None:
                    self._taken += 1
                    return buffer
                self._changed.wait()
        raise DeviceError("the device is closed", field="device", remedy="create a new one")

    def _kept(self, wanted: int) -> Any:
        """An unused buffer that is large enough; None: there is none."""
        for buffer in self._unused:
            if buffer.nbytes >= wanted:
                self._unused = [each for each in self._unused if each is not buffer]
                return buffer
        return None

    def _new(self, wanted: int, nbytes: int) -> Any:
        """A new buffer in the place of those that are too small; None: wait for one."""
        self._free_unused()
        try:
            return self._allocate(wanted)
        except Exception as error:  # pynq raises every kind of exception
            if self._taken:
                return None
            raise DeviceError(
                f"must fit the contiguous memory that is free ({_contiguous_memory()}{error})",
                field="memory_bytes",
                value=nbytes,
                remedy=_CMA_REMEDY,
            ) from error

    def _free_unused(self) -> None:
        for buffer in self._unused:
            buffer.freebuffer()
        self._unused = []


def _contiguous_memory() -> str:
    """What Linux says of its contiguous memory, ending in a separator; empty if nothing."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return ""
    return "".join(f"{' '.join(line.split())}; " for line in lines if line.startswith("Cma"))
