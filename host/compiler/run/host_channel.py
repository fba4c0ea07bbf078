# SPDX-License-Identifier: Apache-2.0
"""Messages between a command and the process that runs a network's CPU part.

A message is a JSON object and arrays, as bytes with a length before them. Neither side unpickles or
evaluates anything: each may have read a hostile file.
"""

from __future__ import annotations

import json
import select
import struct
import time
from collections.abc import Mapping, Sequence
from math import prod
from typing import IO, Any, Final

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

MAX_HEADER_BYTES: Final = 1 << 33
"""The first message holds the module, with its constants as text."""

MAX_ARRAY_BYTES: Final = 1 << 31
_KINDS: Final = "biuf"
_LENGTH: Final = struct.Struct("<Q")


class ChannelError(Exception):
    """The other side ended, stayed silent too long, or sent something else."""


def send(stream: IO[bytes], header: Mapping[str, Any], arrays: Sequence[Array] = ()) -> None:
    """Send a message."""
    plain = [np.asarray(array, order="C") for array in arrays]
    described = [{"dtype": str(a.dtype), "shape": list(a.shape)} for a in plain]
    text = json.dumps({**header, "arrays": described}).encode()
    try:
        _write(stream, _LENGTH.pack(len(text)) + text)
        for array in plain:
            _write(stream, array.tobytes())
    except OSError as error:
        raise ChannelError("it ended") from error


def _write(stream: IO[bytes], content: bytes) -> None:
    """All of it: an unbuffered pipe takes parts."""
    left = memoryview(content)
    while left:
        left = left[stream.write(left) :]


def receive(stream: IO[bytes], seconds: float | None = None) -> tuple[dict[str, Any], list[Array]]:
    """Wait for a message."""
    deadline = None if seconds is None else time.monotonic() + seconds
    (length,) = _LENGTH.unpack(_exactly(stream, _LENGTH.size, deadline))
    if length > MAX_HEADER_BYTES:
        raise ChannelError("it sent a header that is too long")
    try:
        header = json.loads(_exactly(stream, length, deadline))
        described = [(np.dtype(a["dtype"]), tuple(map(int, a["shape"]))) for a in header["arrays"]]
    except (KeyError, RecursionError, TypeError, ValueError) as error:
        raise ChannelError("it sent something else than a message") from error
    arrays = []
    for dtype, shape in described:
        nbytes = prod(shape) * dtype.itemsize
        if dtype.kind not in _KINDS or min(shape, default=0) < 0 or nbytes > MAX_ARRAY_BYTES:
            raise ChannelError("it sent an array that is too large or of another type")
        content = _exactly(stream, nbytes, deadline)
        arrays.append(np.frombuffer(bytearray(content), dtype).reshape(shape))
    return header, arrays


def _exactly(stream: IO[bytes], count: int, deadline: float | None) -> bytes:
    parts = []
    while count:
        if deadline is not None:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([stream], [], [], left)[0]:
                raise ChannelError("it took too long")
        part = stream.read(min(count, 1 << 20))
        if not part:
            raise ChannelError("it ended")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)
