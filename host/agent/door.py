# SPDX-License-Identifier: Apache-2.0
"""`Door`: connections that did not prove yet that they know the token, few and for a short time."""

from __future__ import annotations

import threading
from collections import Counter
from typing import Final

from tilewright.host.agent.channel import Channel

MAX_GUESTS: Final = 256
MAX_GUESTS_OF_A_HOST: Final = 128


class Door:
    """Holds those who came in, until they are known or gone; the oldest one yields to the next.

    So nobody who only connects can keep out who knows the token: an honest handshake takes
    milliseconds, and yields only if so many others begin meanwhile.

    Args:
        most: guests at a time.
        most_of_a_host: guests of one address at a time.
    """

    def __init__(
        self, *, most: int = MAX_GUESTS, most_of_a_host: int = MAX_GUESTS_OF_A_HOST
    ) -> None:
        self._most: Final = most
        self._most_of_a_host: Final = most_of_a_host
        self._lock: Final = threading.Lock()
        self._guests: Final[dict[Channel, str]] = {}

    def enter(self, guest: Channel, host: str) -> list[Channel]:
        """Let a guest in.

        Args:
            guest: a new connection.
            host: the address that it comes from.

        Returns:
            Those who had to yield; their connections are ended.
        """
        yielding = []
        with self._lock:
            self._guests[guest] = host
            counts = Counter(self._guests.values())
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
            self._guests.pop(guest, None)

    def _send_away(self, host: str, counts: Counter[str]) -> Channel:
        oldest = next(guest for guest, home in self._guests.items() if home == host)
        del self._guests[oldest]
        counts[host] -= 1
        return oldest
