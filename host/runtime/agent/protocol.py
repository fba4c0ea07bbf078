# SPDX-License-Identifier: Apache-2.0
"""Messages between an agent and its clients: a prefix, a header in JSON, a body of plain bytes.

The prefix has magic, protocol version and two lengths, big-endian. The header is an object with
the message's ``kind`` and small values, whose depth, numbers and texts are bounded here. Texts
may be printed as they are: what steers a terminal was made visible on arrival.
"""

from __future__ import annotations

import json
import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from tilewright.host.common.errors import DeviceError
from tilewright.host.common.plain_values import is_integer, is_number
from tilewright.host.common.printable import printable

PROTOCOL_VERSION: Final = 4

MAX_HEADER_BYTES: Final = 1 << 18
"""Of those who hold the device; `SMALL_HEADER_BYTES` of all others."""
SMALL_HEADER_BYTES: Final = 4096

_MAGIC: Final = b"TWAG"
_PREFIX: Final = struct.Struct("!4sHIQ")
PREFIX_BYTES: Final = _PREFIX.size
_MAX_DEPTH: Final = 8
_MAX_DIGITS: Final = 20
_MAX_FRACTION_CHARACTERS: Final = 40
_KIND: Final = re.compile(r"[a-z]{1,16}")


class ProtocolError(DeviceError):
    """The other side sent what no message may be; the connection cannot go on."""


class ConnectionLostError(DeviceError):
    """The other side is gone or silent; the connection cannot go on."""


@dataclass(frozen=True, kw_only=True)
class Message:
    """A received message."""

    kind: str  # what it is, in small letters
    fields: Mapping[str, Any] = field(default_factory=dict)  # small values; use the typed getters
    body: bytes | bytearray = b""  # plain bytes

    def integer(self, name: str, low: int, high: int) -> int:
        """A field that must be a whole number of a range."""
        value = self.fields.get(name)
        if not is_integer(value, low, high):
            raise self._wrong(name, f"a whole number from {low} to {high}")
        return value

    def number(self, name: str, low: float, high: float) -> float:
        """A field that must be a number of a range."""
        value = self.fields.get(name)
        if not is_number(value):
            raise self._wrong(name, "a number")
        if not low <= value <= high:  # no number is not in any range
            raise self._wrong(name, f"a number from {low:g} to {high:g}")
        return float(value)

    def boolean(self, name: str) -> bool:
        """A field that must be true or false."""
        value = self.fields.get(name)
        if not isinstance(value, bool):
            raise self._wrong(name, "true or false")
        return value

    def text(self, name: str, *, most: int = 4096) -> str:
        """A field that must be text of at most so many characters."""
        value = self.fields.get(name)
        if not isinstance(value, str) or len(value) > most:
            raise self._wrong(name, f"text of at most {most} characters")
        return value

    def hexadecimal(self, name: str, nbytes: int) -> bytes:
        """A field that must be so many bytes in hexadecimal, with small letters."""
        value = self.fields.get(name)
        if not isinstance(value, str) or not re.fullmatch(f"[0-9a-f]{{{2 * nbytes}}}", value):
            raise self._wrong(name, f"{nbytes} bytes in hexadecimal")
        return bytes.fromhex(value)

    def mapping(self, name: str) -> dict[str, Any]:
        """A field that must be an object."""
        value = self.fields.get(name)
        if not isinstance(value, dict):
            raise self._wrong(name, "an object")
        return value

    def expect(self, *kinds: str) -> Message:
        """This message, if it is of one of these kinds."""
        if self.kind not in kinds:
            raise ProtocolError(f"must be {' or '.join(kinds)}", field="message", value=self.kind)
        return self

    def _wrong(self, name: str, wanted: str) -> ProtocolError:
        return ProtocolError(f"must be {wanted}", field=f"message {self.kind}: {name}")


def pack(kind: str, fields: Mapping[str, Any], body_bytes: int) -> bytes:
    """Prefix and header of a message."""
    header = json.dumps({"kind": kind, **fields}).encode()
    return _PREFIX.pack(_MAGIC, PROTOCOL_VERSION, len(header), body_bytes) + header


def unpack_prefix(data: bytes | bytearray, *, max_header: int, max_body: int) -> tuple[int, int]:
    """Bytes of header and body that a prefix announces."""
    magic, version, header_size, body_size = _PREFIX.unpack(data)
    if magic != _MAGIC:
        raise ProtocolError("the other side must speak the agent's protocol", field="message")
    if version != PROTOCOL_VERSION:
        raise ProtocolError(
            f"must be {PROTOCOL_VERSION}",
            field="protocol version",
            value=version,
            remedy="install the same release on both sides",
        )
    for name, size, limit in (("header", header_size, max_header), ("body", body_size, max_body)):
        if size > limit:
            raise ProtocolError(
                f"must be at most {limit} bytes", field=f"message {name}", value=size
            )
    return header_size, body_size


def read_header(data: bytes | bytearray) -> tuple[str, dict[str, Any]]:
    """Kind and fields of a header."""
    try:
        header = json.loads(
            data, parse_int=_whole, parse_float=_fraction, parse_constant=_no_constant
        )
    except (ValueError, RecursionError) as error:
        raise ProtocolError("must be JSON", field="message header") from error
    if not isinstance(header, dict) or not isinstance(header.get("kind"), str):
        raise ProtocolError("must be an object with its kind", field="message header")
    kind = header.pop("kind")
    if not _KIND.fullmatch(kind):
        raise ProtocolError(
            "must be small letters", field="message header: kind", value=printable(kind, limit=40)
        )
    return kind, _harmless(header, 0)


def _harmless(value: Any, depth: int) -> Any:
    """A JSON value whose texts can be printed."""
    if depth > _MAX_DEPTH:
        raise ProtocolError(f"must have at most {_MAX_DEPTH} levels", field="message header")
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, list):
        return [_harmless(item, depth + 1) for item in value]
    if isinstance(value, dict):
        return {printable(key): _harmless(item, depth + 1) for key, item in value.items()}
    return value


def _whole(digits: str) -> int:
    if len(digits) > _MAX_DIGITS:
        raise ProtocolError(
            f"numbers must have at most {_MAX_DIGITS} digits",
            field="message header",
            value=len(digits),
        )
    return int(digits)


def _fraction(characters: str) -> float:
    value = float(characters) if len(characters) <= _MAX_FRACTION_CHARACTERS else math.inf
    if math.isinf(value):
        raise ProtocolError("numbers must be those of a double", field="message header")
    return value


def _no_constant(name: str) -> NoReturn:
    raise ProtocolError("numbers must be finite", field="message header", value=name)
