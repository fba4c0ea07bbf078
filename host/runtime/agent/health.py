# SPDX-License-Identifier: Apache-2.0
"""How an agent is: what it tells to a client that asks for its status."""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, Final

from tilewright.host.runtime.agent.protocol import Message

_MOST_TEXT: Final = 500
_MOST: Final = 2**53


@dataclass(frozen=True, kw_only=True)
class AgentStatus:
    """What an agent says of itself."""

    version: str  # of Tilewright on the agent's side
    hw: str  # name of the configuration that is loaded
    config_hash: str  # of that configuration, eight hexadecimal digits
    board: str  # name of the kind of board
    leased: bool  # a client has the device
    waiting: int  # clients that wait for it
    closing: bool  # the agent is about to end
    uptime_seconds: float  # since its start
    trials: int  # runs that ended with a result since its start
    last_error: str  # what went wrong last; empty: nothing did
    temperature: float | None  # of the board in degrees Celsius; None: the platform does not say

    def to_fields(self) -> dict[str, Any]:
        """As values of a message."""
        return asdict(self)

    @classmethod
    def from_message(cls, message: Message) -> AgentStatus:
        """From the values of a message."""
        temperature = message.fields.get("temperature")
        return cls(
            version=message.text("version", most=_MOST_TEXT),
            hw=message.text("hw", most=_MOST_TEXT),
            config_hash=message.text("config_hash", most=_MOST_TEXT),
            board=message.text("board", most=_MOST_TEXT),
            leased=message.boolean("leased"),
            waiting=message.integer("waiting", 0, _MOST),
            closing=message.boolean("closing"),
            uptime_seconds=message.number("uptime_seconds", 0, _MOST),
            trials=message.integer("trials", 0, _MOST),
            last_error=message.text("last_error", most=_MOST_TEXT),
            temperature=None if temperature is None else message.number("temperature", -300, 1000),
        )


class Health:
    """Counts what an agent did since its start; one client at a time has it written."""

    def __init__(self) -> None:
        self._started: Final = time.monotonic()
        self.trials = 0
        self.last_error = ""

    @property
    def uptime_seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._started

    def failed(self, text: str) -> None:
        """Something went wrong."""
        self.last_error = text[:_MOST_TEXT]
