# SPDX-License-Identifier: Apache-2.0
"""`NativeObject`: an object of a C library, freed once and refused from then on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from tilewright.host.common.errors import DeviceError


class NativeObject:
    """A handle and how it is freed."""

    def __init__(
        self,
        what: str,
        handle: int,
        destroy: Callable[[int], object],
        error: Callable[[int], bytes],
    ) -> None:
        self._what: Final = what
        self._handle: int | None = handle
        self._destroy: Final = destroy
        self._error: Final = error

    @property
    def handle(self) -> int:
        """What the library's functions take."""
        if not self._handle:
            raise DeviceError(f"{self._what} is closed", field="device", remedy="create a new one")
        return self._handle

    def failure(self, field: str) -> DeviceError:
        """The error of a call that failed."""
        text = self._error(self.handle).decode(errors="replace")
        return DeviceError(f"{self._what} failed: {text}", field=field)

    def close(self) -> None:
        """Free it. Idempotent."""
        handle, self._handle = self._handle, None
        if handle:
            self._destroy(handle)

    def __del__(self) -> None:
        self.close()
