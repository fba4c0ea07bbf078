# SPDX-License-Identifier: Apache-2.0
"""Connections that did not prove yet that they know the token: few, and for a short time."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from dataclasses import dataclass
from typing import Final

from tilewright.host.runtime.agent.channel import Channel

MAX_PENDING: Final = 256
MAX_PENDING_OF_A_HOST: Final = 128


@dataclass(frozen=True, kw_only=True)
class _Pending:
    host: str
    since: float


class PendingHandshakes:
    """Holds those who came in, until they are known or gone; the oldest one yields to the next.

    So nobody who only connects can keep out who knows the token: an honest handshake takes
    milliseconds, and yields only if so many others begin meanwhile.
    """

    def __init__(
        self,
        *,
        most: int = MAX_PENDING,
        most_of_a_host: int = MAX_PENDING_OF_A_HOST,
        seconds: float = math.inf,
    ) -> None:
        self._most: Final = most
        self._most_of_a_host: Final = most_of_a_host
        self._lock: Final = threading.Lock()
        self._seconds: Final = seconds
        self._pending: Final[dict[Channel, _Pending]] = {}

    def enter(self, guest: Channel, host: str) -> list[Channel]:
        """Let a guest in."""
        yielding = []
        with self._lock:
            self._pending[guest] = _Pending(host=host, since=time.monotonic())
            counts = Counter(each.host for each in self._pending.values())
            while counts[host] > self._most_of_a_host:
                yielding.append(self._send_away(host, counts))
            while counts.total() > self._most:
                yielding.append(self._send_away(counts.most_common(1)[0][0], counts))
        for channel in yielding:
            channel.abort()
        return yielding

    def leave(self, guest: Channel) -> None:
        """A guest became known, or is gone. Idempotent."""
        with self._lock:
            self._pending.pop(guest, None)

    def close_late(self, *, seconds: float | None = None) -> None:
        """End the connections of those who stay too long, whatever keeps their threads busy."""
        begin = time.monotonic() - (self._seconds if seconds is None else seconds)
        with self._lock:
            late = [guest for guest, each in self._pending.items() if each.since < begin]
            for guest in late:
                del self._pending[guest]
        for guest in late:
            guest.abort()

    def _send_away(self, host: str, counts: Counter[str]) -> Channel:
        oldest = next(guest for guest, each in self._pending.items() if each.host == host)
        del self._pending[oldest]
        counts[host] -= 1
        return oldest
