# SPDX-License-Identifier: Apache-2.0
"""`LimitedLog`: what strangers cause may be logged, but not without end."""

from __future__ import annotations

import threading
import time
from typing import Any, Final

from tilewright.host.runtime.agent.events import log_event


class LimitedLog:
    """Writes so many lines a period, and then how many it left out."""

    def __init__(self, *, lines: int, seconds: float) -> None:
        self._lines: Final = lines
        self._seconds: Final = seconds
        self._lock: Final = threading.Lock()
        self._begin = -seconds
        self._written = self._left_out = 0

    def event(self, event: str, text: str, *arguments: object, **fields: Any) -> None:
        """`log_event`, if the period has a line left."""
        now = time.monotonic()
        with self._lock:
            left_out = 0
            if now - self._begin >= self._seconds:
                left_out, self._left_out, self._written, self._begin = self._left_out, 0, 0, now
            is_shown = self._written < self._lines
            self._written += is_shown
            self._left_out += not is_shown
        if left_out:
            log_event("left_out", "%d more lines of this kind were left out", left_out)
        if is_shown:
            log_event(event, text, *arguments, **fields)
