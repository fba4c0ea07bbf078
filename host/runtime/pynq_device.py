# SPDX-License-Identifier: Apache-2.0
"""`PynqDevice`: the accelerator in the programmable logic of a board, through the `pynq` package.

Runs on the board itself. `sim.verilator.pynq_simulation` puts the verilated RTL under the same
package, so that the same code runs without a board.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import numpy as np

from tilewright.host.common.errors import (
    ConfigError,
    DeviceError,
    ToolError,
)
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.registers import DEVICE_ID
from tilewright.host.runtime.contiguous_buffers import ContiguousBuffers
from tilewright.host.runtime.device import Bytes
from tilewright.host.runtime.driver import DEFAULT_WATCHDOG_CYCLES, WINDOW_BYTES
from tilewright.host.runtime.polled_device import DEFAULT_MAX_SECONDS, Placed, PolledDevice

_SUFFIXES: Final = (".bit", ".bin", ".xsa", ".xclbin")


class PynqDevice(PolledDevice):
    """A `Device` on a board.

    A physically contiguous buffer holds a program's memory. Of two threads that call `run`, one
    fills or reads its buffer while the accelerator works on that of the other.
    """

    def __init__(
        self,
        hw: HwConfig,
        *,
        bitstream: Path | None = None,
        overlay: Any = None,
        ip: str = "",
        target: Any = None,
        coherent: bool = False,
        memory_limit: int = 0,
        max_seconds: float = DEFAULT_MAX_SECONDS,
        watchdog_cycles: int = DEFAULT_WATCHDOG_CYCLES,
    ) -> None:
        super().__init__(hw, max_seconds=max_seconds, watchdog_cycles=watchdog_cycles)
        if (bitstream is None) == (overlay is None):
            raise ConfigError(
                "give either a file or an overlay that is loaded",
                field="bitstream",
                remedy="pass bitstream= or overlay=",
            )
        if bitstream is not None:
            _check_file(bitstream)
        self._pynq: Final = import_pynq()
        self._coherent: Final = coherent
        self._overlay: Final = overlay if bitstream is None else self._load(bitstream, target)
        if not self._overlay.is_loaded():
            raise DeviceError(
                "the overlay must be the one that is loaded",
                field="overlay",
                remedy="download it, or pass its bitstream",
            )
        self._buffers: Final = ContiguousBuffers(self._allocate, memory_limit)
        self._connect(_Window(self._find(ip)))
        self._driver.set_coherent(coherent=coherent)

    @contextmanager
    def _placed(self, memory: Bytes) -> Iterator[Placed]:
        with self._buffers.taken(memory.nbytes) as view:
            view[:] = memory
            if not self._coherent:
                view.flush()
            yield Placed(base=int(view.device_address), fetch=lambda: self._copy(view))

    def _copy(self, view: Any) -> Bytes:
        if not self._coherent:
            view.invalidate()
        return np.array(view, dtype=np.uint8, copy=True, subok=False)

    def _free(self) -> None:
        self._buffers.close()

    def _load(self, bitstream: Path, target: Any) -> Any:
        try:
            return self._pynq.Overlay(str(bitstream.resolve()), device=target)
        except Exception as error:  # pynq raises every kind of exception
            raise DeviceError(
                f"pynq cannot load the bitstream ({type(error).__name__}: {error})",
                field=str(bitstream),
                remedy="run on the board as root in pynq's environment, and keep "
                f"{bitstream.stem}.hwh beside the file",
            ) from error

    def _find(self, ip: str) -> Any:
        """The MMIO window of the accelerator."""
        entries: Mapping[str, Mapping[str, Any]] = {
            name: entry
            for name, entry in self._overlay.ip_dict.items()
            if entry.get("addr_range", 0) >= WINDOW_BYTES
        }
        named = [
            name
            for name, entry in entries.items()
            if "tilewright" in f"{name} {entry.get('type')}".lower()
        ]
        # Reading a register of another IP can have effects: ask those of no catalogue alone.
        own = [
            name
            for name, entry in entries.items()
            if not str(entry.get("type")).startswith("xilinx.com:ip:")
        ]
        if ip:
            found = [ip] if ip in entries else []
        else:
            found = named or [name for name in own if self._reads_id(entries[name])]
        if len(found) != 1:
            raise DeviceError(
                "must be one accelerator in the bitstream",
                field="ip",
                value=ip or found or "none",
                remedy=f"name one of {', '.join(entries) or 'no'} IP blocks of "
                f"{WINDOW_BYTES} bytes and more",
            )
        return self._window(entries[found[0]])

    def _window(self, entry: Mapping[str, Any]) -> Any:
        try:
            return self._pynq.MMIO(
                entry["phys_addr"], entry["addr_range"], device=self._overlay.device
            )
        except OSError as error:
            raise DeviceError(
                f"the registers cannot be reached ({error})",
                field="device",
                remedy="run as root in pynq's environment (sudo -E)",
            ) from error

    def _reads_id(self, entry: Mapping[str, Any]) -> bool:
        return bool(self._window(entry).read(0) == DEVICE_ID)

    def _allocate(self, nbytes: int) -> Any:
        return self._pynq.allocate((nbytes,), dtype="u1", target=self._overlay.device, cacheable=1)


class _Window:
    """The accelerator's registers in pynq's MMIO, which takes nothing but plain integers."""

    def __init__(self, mmio: Any) -> None:
        self._mmio = mmio

    def read(self, address: int) -> int:
        return int(self._mmio.read(address))

    def write(self, address: int, value: int) -> None:
        self._mmio.write(address, int(value))


def _check_file(bitstream: Path) -> None:
    if not bitstream.is_file():
        raise ConfigError("no such file", field="bitstream", value=str(bitstream))
    if bitstream.suffix not in _SUFFIXES:
        raise ConfigError(
            f"must end in {', '.join(_SUFFIXES)}", field="bitstream", value=str(bitstream)
        )


def import_pynq() -> Any:
    """The `pynq` package."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of pynq's own dependencies
            import pynq  # noqa: PLC0415  (an optional package, present on boards)
    except ImportError as error:
        raise ToolError(
            f"the pynq package cannot be imported ({error})",
            field="pynq",
            remedy="run in the board's own Python environment; docs/how-to/boards.md has the steps",
        ) from error
    return pynq
