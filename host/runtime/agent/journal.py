# SPDX-License-Identifier: Apache-2.0
"""`Journal`: results of trials that ended, in files, until their clients are known to have them.

A client names each of its runs with a random number, its *trial*. A result is in its file before
the client is told, and the file goes when the client's next message shows that the result arrived.
So an agent that ends meanwhile, by a kill too, has it when the client asks its successor for the
same trial. The files are not forced to the disk: they outlive the process, not a loss of power, and
one that a loss of power damaged is known by its digest.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tilewright.host.common.errors import ConfigError
from tilewright.host.runtime.agent.events import LOG
from tilewright.host.runtime.agent.private_file import make_private_folder
from tilewright.host.runtime.agent.protocol import ProtocolError

MOST_ENTRIES: Final = 64
MOST_BYTES: Final = 256 << 20
"""Bounds of the folder: the oldest results yield to the next."""

_SUFFIX: Final = ".result"
_PART: Final = ".part"
_DIGEST_BYTES: Final = hashlib.sha256().digest_size
_LENGTH_BYTES: Final = 4


@dataclass(frozen=True, kw_only=True)
class Kept:
    """A result that is kept."""

    fields: dict[str, Any]  # small values of its message
    body: bytes  # pages of its message


class Journal:
    """Keeps results by trial; whoever has the device uses it, one client at a time."""

    def __init__(
        self, folder: Path, *, most_entries: int = MOST_ENTRIES, most_bytes: int = MOST_BYTES
    ) -> None:
        make_private_folder(folder, what="the journal")
        self._folder: Final = folder
        self._most_entries: Final = most_entries
        self._most_bytes: Final = most_bytes
        try:
            for left_over in folder.glob(f"*{_PART}"):
                left_over.unlink()
            found = [(path.stat(), path.name) for path in folder.glob(f"*{_SUFFIX}")]
        except OSError as error:
            raise ConfigError(
                f"the journal cannot be read ({error.strerror})", field=str(folder)
            ) from error
        found.sort(key=lambda each: each[0].st_mtime_ns)
        self._sizes: Final = {name: status.st_size for status, name in found}
        """Of the files, oldest first."""
        self._yield(0)

    def keep(
        self,
        trial: bytes,
        request: bytes,
        fields: dict[str, Any],
        body: Sequence[bytes | bytearray | memoryview],
    ) -> None:
        """Keep the result of a trial; one that cannot be written is told in the log."""
        header = json.dumps(fields).encode()
        parts = [request, len(header).to_bytes(_LENGTH_BYTES, "big"), header, *body]
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        size = _DIGEST_BYTES + sum(len(part) for part in parts)
        if size > self._most_bytes:
            LOG.warning("a result of %d bytes is too large for the journal", size)
            return
        name = f"{trial.hex()}{_SUFFIX}"
        self._forget(name)
        self._yield(size)
        unfinished = self._folder / f"{trial.hex()}{_PART}"
        try:
            with unfinished.open("wb") as file:
                for part in (digest.digest(), *parts):
                    file.write(part)
            unfinished.replace(self._folder / name)
        except OSError as error:
            LOG.warning("a result cannot be kept: %s", error.strerror)
            with suppress(OSError):
                unfinished.unlink()
            return
        self._sizes[name] = size

    def find(self, trial: bytes, request: bytes) -> Kept | None:
        """The result of a trial; None: it is not kept."""
        name = f"{trial.hex()}{_SUFFIX}"
        if name not in self._sizes:
            return None
        try:
            data = (self._folder / name).read_bytes()
        except OSError:
            data = b""
        if hashlib.sha256(data[_DIGEST_BYTES:]).digest() != data[:_DIGEST_BYTES]:
            LOG.warning("a result of the journal is damaged, and its trial runs again")
            self._forget(name)
            return None
        at = 2 * _DIGEST_BYTES
        if data[_DIGEST_BYTES:at] != request:
            raise ProtocolError("must be another one for each run", field="message run: trial")
        length = int.from_bytes(data[at : at + _LENGTH_BYTES], "big")
        begin = at + _LENGTH_BYTES
        fields = json.loads(data[begin : begin + length])
        return Kept(fields=fields, body=data[begin + length :])

    def drop(self, trial: bytes) -> None:
        """The client of a trial has its result, or never asks for it."""
        self._forget(f"{trial.hex()}{_SUFFIX}")

    def _yield(self, size: int) -> None:
        """Make room for a file of a size, and for one more."""
        while self._sizes and (
            len(self._sizes) >= self._most_entries
            or sum(self._sizes.values()) + size > self._most_bytes
        ):
            self._forget(next(iter(self._sizes)))

    def _forget(self, name: str) -> None:
        if self._sizes.pop(name, None) is not None:
            with suppress(OSError):
                (self._folder / name).unlink()
