# SPDX-License-Identifier: Apache-2.0
"""What an agent logs: one line for each event, as text or as JSON; never a secret.

Every line has a time and a text. An event's line in JSON also has ``event`` and those of ``peer``
(address of the client), ``lease`` (its number since the start), ``trial``, ``seconds`` and
``outcome`` that it is about.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from datetime import datetime, timezone
from typing import Any, Final

LOG: Final = logging.getLogger("tilewright.agent")

_FIELDS: Final = "tilewright_fields"


def log_event(
    event: str, text: str, *arguments: object, level: int = logging.INFO, **fields: Any
) -> None:
    """Log an event."""
    LOG.log(level, text, *arguments, extra={_FIELDS: {"event": event, **fields}})


def log_failure(text: str, error: BaseException, **fields: Any) -> None:
    """Log a defect, with what Python says of it."""
    LOG.error("%s", text, exc_info=error, extra={_FIELDS: {"event": "failure", **fields}})


class JsonLines(logging.Formatter):
    """A line of JSON for each record."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as an object in one line."""
        time = datetime.fromtimestamp(record.created, timezone.utc)  # noqa: UP017  (Python 3.10)
        values: dict[str, Any] = {
            "time": time.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": "note",
            **getattr(record, _FIELDS, {}),
            "text": record.getMessage(),
        }
        if record.exc_info:
            values["exception"] = self.formatException(record.exc_info)
        return json.dumps(values, default=str)


def log_to_stderr(form: str) -> None:
    """Show what the agent logs."""
    handler = logging.StreamHandler()
    text = logging.Formatter("%(asctime)s %(message)s")
    handler.setFormatter(JsonLines() if form == "json" else text)
    logging.basicConfig(handlers=[handler], level=logging.INFO)


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
