# SPDX-License-Identifier: Apache-2.0
"""`Lease`: the device belongs to one client at a time, the next one is the longest waiting."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from tilewright.host.common.errors import DeviceError

_LOOK_SECONDS: Final = 0.1
"""How often a waiting client is looked after."""


class Lease:
    """Hands out one device."""

    def __init__(self) -> None:
        self._changed: Final = threading.Condition()
        self._waiting: Final[deque[object]] = deque()
        self._holder = ""
        self._since = 0.0
        self._count = 0

    @property
    def holder(self) -> str:
        """Who has it; empty: nobody."""
        return self._holder

    @property
    def waiting(self) -> int:
        """Clients that wait for it."""
        return len(self._waiting)

    def take(self, client: str, *, wait_seconds: float, check_waits: Callable[[], None]) -> int:
        """Take the device."""
        ticket = object()
        deadline = time.monotonic() + wait_seconds
        with self._changed:
            self._waiting.append(ticket)
            try:
                while self._holder or self._waiting[0] is not ticket:
                    left = deadline - time.monotonic()
                    check_waits()
                    if left <= 0:
                        raise DeviceError(
                            "the device must be free",
                            field="lease",
                            value=f"leased to {self._holder or 'another client'} for "
                            f"{time.monotonic() - self._since:.0f} s",
                            remedy="wait for it with --wait SECONDS",
                        )
                    self._changed.wait(min(left, _LOOK_SECONDS))
                self._holder, self._since = client, time.monotonic()
                self._count += 1
                return self._count
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()

    def give_back(self) -> None:
        """Free the device; only for whoever took it."""
        with self._changed:
            self._holder = ""
            self._changed.notify_all()
