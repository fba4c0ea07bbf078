# SPDX-License-Identifier: Apache-2.0
"""`ShellDevice`: the accelerator on a board without a processor, behind its shell."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import numpy as np

from tilewright.host.common.errors import DeviceError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.runtime.device import Bytes
from tilewright.host.runtime.driver import DEFAULT_WATCHDOG_CYCLES
from tilewright.host.runtime.polled_device import DEFAULT_MAX_SECONDS, Placed, PolledDevice
from tilewright.host.runtime.shell_link import MEMORY, REGISTERS, ByteLink, ShellLink


class ShellDevice(PolledDevice):
    """A `Device` at the other end of a serial line."""

    def __init__(
        self,
        hw: HwConfig,
        link: ByteLink,
        *,
        max_seconds: float = DEFAULT_MAX_SECONDS,
        watchdog_cycles: int = DEFAULT_WATCHDOG_CYCLES,
    ) -> None:
        super().__init__(hw, max_seconds=max_seconds, watchdog_cycles=watchdog_cycles)
        self._line: Final = threading.Lock()
        try:
            self._shell: Final = ShellLink(link)
            self._connect(_Registers(self._shell))
        except BaseException:
            link.close()
            raise

    @property
    def clock_mhz(self) -> float:
        """Clock of the accelerator."""
        return self._shell.clock_hz / 1e6

    @contextmanager
    def _placed(self, memory: Bytes) -> Iterator[Placed]:
        with self._line:
            self._check_usable()
            limit = self._shell.memory_bytes
            if memory.nbytes > limit:
                raise DeviceError(
                    f"must fit the memory of the shell ({limit} bytes of block RAM)",
                    field="memory_bytes",
                    value=memory.nbytes,
                    remedy="run a smaller layer",
                )
            self._shell.write(MEMORY, memory.tobytes())
            yield Placed(base=MEMORY, fetch=lambda: self._copy(memory.nbytes))

    def _copy(self, size: int) -> Bytes:
        return np.frombuffer(self._shell.read(MEMORY, size), dtype=np.uint8).copy()

    def _free(self) -> None:
        with self._line:
            self._shell.close()


class _Registers:
    """The accelerator's registers behind the shell."""

    def __init__(self, shell: ShellLink) -> None:
        self._shell = shell

    def read(self, address: int) -> int:
        return int.from_bytes(self._shell.read(REGISTERS + address, 4), "little")

    def write(self, address: int, value: int) -> None:
        self._shell.write(REGISTERS + address, int(value).to_bytes(4, "little"))
