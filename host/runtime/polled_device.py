# SPDX-License-Identifier: Apache-2.0
"""`PolledDevice`: a run on an accelerator that goes on by itself, whatever lies in between."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from tilewright.host.common.errors import ConfigError, DeviceError, DeviceTimeoutError
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.runtime import driver
from tilewright.host.runtime.device import Bytes, RunResult

DEFAULT_MAX_SECONDS: Final = 60.0

_RESET_SECONDS: Final = 2.0
_LONGEST_PAUSE: Final = 0.005


@dataclass(frozen=True, kw_only=True)
class Placed:
    """A program's memory where the accelerator reaches it."""

    base: int  # its physical address
    fetch: Callable[[], Bytes]  # a copy of it as it is now


class PolledDevice(ABC):
    """What devices share that are asked whether they are done.

    A run that fails or is given up ends in a soft reset. A subclass calls `_connect` when it has
    the registers.

    Args:
        hw: the configuration that the accelerator was built for.
        max_seconds: longest run.
        watchdog_cycles: cycles without progress until the accelerator gives up; 0: never.

    Raises:
        ConfigError: a limit that cannot be.
    """

    def __init__(self, hw: HwConfig, *, max_seconds: float, watchdog_cycles: int) -> None:
        if not 0 <= watchdog_cycles <= driver.MAX_WATCHDOG_CYCLES:
            raise ConfigError(
                "must be from 0 to 2^32 - 1", field="watchdog_cycles", value=watchdog_cycles
            )
        if not max_seconds > 0:
            raise ConfigError("must be positive", field="max_seconds", value=max_seconds)
        self._hw: Final = hw
        self._max_seconds: Final = max_seconds
        self._watchdog_cycles: Final = watchdog_cycles
        self._lock: Final = threading.Lock()
        self._given_up: Final = threading.Event()
        self._closed = False
        self._stuck = False

    @abstractmethod
    def _placed(self, memory: Bytes) -> AbstractContextManager[Placed]:
        """Bring a program's memory to the accelerator, for the caller alone until it leaves."""

    @abstractmethod
    def _free(self) -> None:
        """Give back what the device holds, when those who use it have ended. Idempotent."""

    def _connect(self, port: driver.RegisterPort) -> None:
        """Take an accelerator over; a `DeviceError` says that it is not what ``hw`` describes."""
        self._driver = driver.Driver(port)
        self._driver.check_identity(self._hw)
        self._reset()  # a run of a process that was killed may be under way

    @property
    def hw(self) -> HwConfig:
        """The configuration that the device implements."""
        return self._hw

    def run(self, program: Program, memory: Bytes, *, max_cycles: int = 0) -> RunResult:
        """Run a program to FINISH (see `Device.run`).

        After any error the accelerator is reset and can run again.

        Raises:
            ProgramError: the program was built for another configuration, or sizes differ.
            DeviceStatusError: the accelerator stopped with an error status.
            DeviceTimeoutError: ``max_cycles`` or the device's longest run went by.
            DeviceError: no room for the memory, `give_up` was called, or the device is closed or
                does not answer a soft reset.
        """
        driver.check_run(self._hw, program, memory, max_cycles)
        with self._placed(memory) as placed:
            with self._lock:
                self._check_usable()
                self._given_up.clear()
                started = time.perf_counter()
                try:
                    self._driver.start(program, placed.base, watchdog_cycles=self._watchdog_cycles)
                    self._wait(max_cycles)
                    counters = self._driver.finish()
                    if 0 < max_cycles < counters.cycles:
                        raise _too_many_cycles(max_cycles)
                except BaseException:
                    self._reset()
                    raise
                seconds = time.perf_counter() - started
            return RunResult(memory=placed.fetch(), counters=counters, host_seconds=seconds)

    def give_up(self) -> None:
        """End the run that is under way in another thread, if any, with an error."""
        self._given_up.set()

    def close(self) -> None:
        """Give up a run under way, and free what the device holds. Idempotent."""
        self._closed = True
        self._free()

    def _check_usable(self) -> None:
        if self._closed:
            raise DeviceError("the device is closed", field="device", remedy="create a new one")
        if self._stuck:
            raise DeviceError(
                "the accelerator must end its soft reset",
                field="device",
                value="still busy",
                remedy="load the bitstream again",
            )

    def _wait(self, max_cycles: int) -> None:
        started = time.monotonic()
        while not self._driver.ended():
            elapsed = time.monotonic() - started
            if self._given_up.is_set() or self._closed:
                raise DeviceError("the run was given up", field="device")
            if max_cycles and self._driver.cycles() > max_cycles:
                raise _too_many_cycles(max_cycles)
            if elapsed > self._max_seconds:
                raise DeviceTimeoutError(
                    f"the program must finish within {self._max_seconds:g} seconds",
                    field="max_seconds",
                    remedy="raise the limit or look at the program",
                )
            time.sleep(min(elapsed / 16, _LONGEST_PAUSE))

    def _reset(self) -> None:
        """Soft reset; a device that does not end it refuses further runs."""
        self._stuck = True
        try:
            self._driver.request_reset()
            deadline = time.monotonic() + _RESET_SECONDS
            while time.monotonic() < deadline:
                if self._driver.was_reset():
                    self._stuck = False
                    return
        except DeviceError:
            return


def _too_many_cycles(limit: int) -> DeviceTimeoutError:
    return DeviceTimeoutError(
        f"the program must finish within {limit} cycles",
        field="max_cycles",
        remedy="raise the limit or look at the program",
    )
