# SPDX-License-Identifier: Apache-2.0
"""Programs and memory images as messages: constants once, then the pages that differ.

Both sides can make `Program.image`. A client sends the pages in which its image differs from it,
the agent those that the run changed, so that weights travel once however often a program runs,
and every byte of an image counts all the same.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from tilewright.host.common.errors import ProgramError
from tilewright.host.machine.hwconfig import INSTRUCTION_BYTES
from tilewright.host.machine.program import Program, Region
from tilewright.host.runtime.agent.channel import Buffers
from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.protocol import Message, ProtocolError
from tilewright.host.runtime.device import Bytes

PAGE: Final = 4096
_ENTRY: Final = np.dtype("<u4")
_COUNT_BYTES: Final = 4
_MAX_REGIONS: Final = 1024
_MAX_NAME: Final = 64
_REGION_BYTES: Final = 512


def max_delta_bytes(nbytes: int) -> int:
    """Bytes that the differences of two images of a size can take."""
    pages = -(-nbytes // PAGE)
    return _COUNT_BYTES + 2 * _ENTRY.itemsize * (pages // 2 + 1) + nbytes


def delta(before: Bytes, after: Bytes) -> Buffers:
    """The pages of an image that differ from another of the same size, with a table of them."""
    size = after.size
    data = np.ascontiguousarray(after)
    whole = size - size % PAGE
    words = np.dtype(np.uint64)
    changed = np.zeros(-(-size // PAGE), dtype=bool)
    old = before[:whole].view(words).reshape(-1, PAGE // words.itemsize)
    new = data[:whole].view(words).reshape(-1, PAGE // words.itemsize)
    changed[: whole // PAGE] = (old != new).any(axis=1)
    if whole < size:
        changed[-1] = bool((before[whole:] != data[whole:]).any())
    edges = np.flatnonzero(np.diff(changed, prepend=False, append=False))
    runs = edges.reshape(-1, 2)
    view = data.data
    table = np.concatenate([[len(runs)], runs.ravel()]).astype(_ENTRY).tobytes()
    return [table, *(view[first * PAGE : last * PAGE] for first, last in runs.tolist())]


def apply_delta(image: Bytes, body: bytes | bytearray) -> None:
    """Write pages of `delta` into an image."""
    wrong = ProtocolError("must be pages of the program's memory", field="message body")
    if len(body) < _COUNT_BYTES:
        raise wrong
    count = int.from_bytes(body[:_COUNT_BYTES], "little")
    at = _COUNT_BYTES + 2 * _ENTRY.itemsize * count
    if len(body) < at:
        raise wrong
    runs = np.frombuffer(body, dtype=_ENTRY, offset=_COUNT_BYTES, count=2 * count).tolist()
    end = 0
    for first, last in zip(runs[::2], runs[1::2], strict=True):
        begin, stop = first * PAGE, min(last * PAGE, image.size)
        if not end <= begin < stop or last * PAGE - image.size >= PAGE:
            raise wrong
        if at + stop - begin > len(body):
            raise wrong
        image[begin:stop] = np.frombuffer(body, dtype=np.uint8, offset=at, count=stop - begin)
        at += stop - begin
        end = stop
    if at != len(body):
        raise wrong


def describe(program: Program) -> tuple[dict[str, Any], list[bytes]]:
    """A program as fields and body of a message; `digest` names both."""
    fields = {
        "config_hash": program.config_hash,
        "memory_bytes": program.memory_bytes,
        "regions": {name: [r.offset, r.nbytes] for name, r in program.regions.items()},
        "instruction_bytes": len(program.instructions),
        "constants": {name: len(data) for name, data in program.constants.items()},
    }
    return fields, [program.instructions, *program.constants.values()]


def digest(fields: Mapping[str, Any], body: Buffers) -> str:
    """Identity of a program's content."""
    result = hashlib.sha256(json.dumps(fields).encode())
    for part in body:
        result.update(part)
    return result.hexdigest()


def kept_bytes(program: Program) -> int:
    """About what a program takes while it is kept."""
    names = len(program.regions) + len(program.constants)
    content = len(program.instructions) + sum(map(len, program.constants.values()))
    return content + _REGION_BYTES * (names + 1)


def check_limits(program_bytes: int, memory_bytes: int, limits: Limits) -> None:
    """Refuse a program that an agent would not take."""
    for name, size, limit, option in (
        ("instructions and constants", program_bytes, limits.program_bytes, "--max-program-mib"),
        ("memory", memory_bytes, limits.memory_bytes, "--max-memory-mib"),
    ):
        if size > limit:
            raise ProgramError(
                f"{name} must have at most {limit} bytes",
                field="program",
                value=size,
                remedy=f"start the agent with a larger {option}",
            )


def read_program(message: Message, limits: Limits) -> Program:
    """The program of a message."""
    memory_bytes = message.integer("memory_bytes", 0, 2**40)
    check_limits(len(message.body), memory_bytes, limits)
    regions = {
        name: Region(offset=offset, nbytes=nbytes)
        for name, (offset, nbytes) in _sizes(message, "regions", 2).items()
    }
    constants, at = {}, message.integer("instruction_bytes", 0, len(message.body))
    instructions = bytes(message.body[:at])
    for name, (size,) in _sizes(message, "constants", 1).items():
        constants[name] = bytes(message.body[at : at + size])
        at += size
    if at != len(message.body) or len(instructions) % INSTRUCTION_BYTES:
        raise ProtocolError("must be instructions and constants", field="message body")
    program = Program(
        config_hash=message.integer("config_hash", 0, 2**32 - 1),
        instructions=instructions,
        regions=regions,
        constants=constants,
        memory_bytes=memory_bytes,
    )
    program.image()  # refuses constants that do not fit their regions
    return program


def _sizes(message: Message, name: str, count: int) -> dict[str, tuple[int, ...]]:
    """An object of names to one or several sizes."""
    found = {}
    entries = message.mapping(name)
    if len(entries) > _MAX_REGIONS or any(len(key) > _MAX_NAME for key in entries):
        raise ProtocolError(
            f"must be at most {_MAX_REGIONS}, with names of at most {_MAX_NAME} characters",
            field=f"message {message.kind}: {name}",
        )
    for key, value in entries.items():
        numbers = tuple(value) if isinstance(value, list) else (value,)
        if len(numbers) != count or not all(
            type(number) is int and 0 <= number < 2**40 for number in numbers
        ):
            raise ProtocolError("must be sizes", field=f"message {message.kind}: {name}")
        found[key] = numbers
    return found
