# SPDX-License-Identifier: Apache-2.0
"""Random clients that misbehave in every state of a session; then an honest one is served."""

from __future__ import annotations

import functools
import json
import logging
import random
import socket
import struct
import threading
import time
from contextlib import suppress

import pytest
from support.agents import PROGRAM, TOKEN, SlowDevice, dial, serving, works
from support.randomness import fresh_rng

from tilewright.host.common.errors import TilewrightError
from tilewright.host.runtime.agent import authentication, protocol, server
from tilewright.host.runtime.agent import channel as channels
from tilewright.host.runtime.agent.authentication import join
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.images import describe
from tilewright.host.runtime.agent.tls import make_identity

identity = functools.cache(make_identity)

STATES = ("connected", "secured", "greeted", "known", "waiting", "leased", "loaded", "running")
ENDS = ("close", "reset", "half-close", "silence", "stay")
FIELDS, BODY = describe(PROGRAM)
NAME = "ab" * 32
KINDS = (
    "hello",
    "proof",
    "lease",
    "configure",
    "load",
    "run",
    "ping",
    "leave",
    "bye",
    "welcome",
    "Ugly\x1b",
)
STRANGE = (
    None, True, -1, 0, 1, 2**31, 2**63, 2**64 - 1, -0.0, 1e308, 0.5, "", "x", NAME, "\x1b[2J",
    "\u202e", "\ud800", "x" * 5000, [], [0, 64], [[]], {}, {"insn": [0, 32]}, {"\x1b": "\x9b"},
)  # fmt: skip
RAW = (
    b"1" * 400, b"NaN", b"Infinity", b"1e999", b"[" * 3000, b'{"a":' * 3000, b'"\\ud800"', b"-",
)  # fmt: skip


class Client:
    """Comes into a state as an honest client does, and then does what it likes."""

    def __init__(self, address: str, rng: random.Random, *, secure: bool) -> None:
        self._rng, self._secure = rng, secure
        self._channel = Channel(dial(address), seconds=20)

    def reach(self, state: str) -> None:
        """Behave well until then; the device may be another's."""
        channel, steps = self._channel, STATES.index(state)
        if steps >= 1 and self._secure:
            channel.start_tls()
        if steps == 2:
            channel.send("hello", nonce="00" * 32)
        if steps >= 3:
            join(channel, TOKEN)
        if steps >= 4:
            channel.send("lease", wait_seconds=15)
        if steps >= 5:
            channel.receive(seconds=15).expect("leased")
        if steps >= 6:
            channel.send("load", BODY, digest=NAME, **FIELDS)
            channel.receive(seconds=10).expect("loaded")
        if steps >= 7:
            channel.send("run", [bytes(4)], digest=NAME, max_cycles=0)

    def misbehave(self) -> None:
        """Send anything."""
        for _ in range(self._rng.choice((0, 1, 1, 1, 2, 5))):
            self._write(self._rng.choice((self._noise, self._odd, self._announced))())

    def end(self, how: str) -> None:
        """Go away in one of several ways."""
        raw = self._channel._socket
        if how == "reset":
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.close()
        elif how == "half-close":
            socket.socket.shutdown(raw, socket.SHUT_WR)
        elif how == "silence":
            time.sleep(self._rng.uniform(0, 0.05))
        if how not in ("half-close", "stay"):
            self._channel.close()

    def close(self) -> None:
        self._channel.close()

    def _write(self, data: bytes) -> None:
        under = self._rng.random() < 0.2  # below TLS
        send = socket.socket.send if under else type(self._channel._socket).send
        self._channel._socket.settimeout(0.5)
        send(self._channel._socket, data)

    def _noise(self) -> bytes:
        return self._rng.randbytes(self._rng.choice((1, 17, 18, 200, 70_000)))

    def _announced(self) -> bytes:
        """A prefix that announces anything, and some of it."""
        sizes = (0, 1, 100, 4096, 4097, 1 << 18, (1 << 18) + 1, 2**32 - 1)
        bodies = (0, 1, 4096, 1 << 27, 1 << 30, 2**64 - 1)
        header, body = self._rng.choice(sizes), self._rng.choice(bodies)
        prefix = protocol._PREFIX.pack(b"TWAG", self._rng.choice((0, 1, 2, 2, 2, 3)), header, body)
        return prefix + self._noise()

    def _odd(self) -> bytes:
        """A message whose fields are of any kind."""
        rng = self._rng
        fields = {
            **FIELDS, "digest": NAME, "wait_seconds": 1, "max_cycles": 0, "nonce": "00" * 32,
            "mac": "00" * 32,
        }  # fmt: skip
        for name in rng.sample(sorted(fields), rng.randrange(3)):
            fields[name] = rng.choice(STRANGE)
        header = json.dumps({"kind": rng.choice(KINDS), **fields}).encode()
        if rng.random() < 0.3:
            header = header[:-1] + b', "digest": ' + rng.choice(RAW) + b"}"
        body = rng.choice((b"", bytes(4), b"".join(BODY), rng.randbytes(5000)))
        prefix = protocol._PREFIX.pack(
            protocol._MAGIC, protocol.PROTOCOL_VERSION, len(header), len(body)
        )
        return prefix + header + body[: rng.choice((len(body), len(body), 1))]


class Impatient(SlowDevice):
    """Some of its runs last until they are given up, or for a moment."""

    def run(self, program, memory, *, max_cycles=0):
        if max_cycles == 0 and program == PROGRAM:
            self.given_up.clear()
            self.given_up.wait(0.2)
        return super().run(program, memory, max_cycles=max_cycles)


def attack(count: int, monkeypatch, caplog, *, secure: bool) -> None:
    """Let clients misbehave, up to five at a time, and then look at what is left."""
    monkeypatch.setattr(channels, "_PIECE_SECONDS", 0.3)
    monkeypatch.setattr(channels, "_FAREWELL_SECONDS", 0.1)
    monkeypatch.setattr(authentication, "_REFUSAL_PAUSE", 0.01)
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 2.0)
    rng = random.Random(int(fresh_rng().integers(2**63)))
    caplog.set_level(logging.WARNING)
    before = threading.active_count()
    with serving(
        Impatient(), identity=identity() if secure else None, connections=8, lease_seconds=0.5,
        memory_bytes=1 << 20, program_bytes=1 << 20,
    ) as address:  # fmt: skip
        staying: list[Client] = []
        for _ in range(count):
            client = None
            with suppress(TilewrightError, OSError):  # the agent may be first, or full
                client = Client(address, rng, secure=secure)
                client.reach(rng.choice(STATES))
                client.misbehave()
                client.end(rng.choice(ENDS))
            if client is not None:
                staying.append(client)
            while len(staying) > 5:
                staying.pop(0).close()
        works(address, wait_seconds=120, plain=not secure)
        for client in staying:
            client.close()
        works(address, wait_seconds=120, plain=not secure)
    failures = [r for r in caplog.records if r.exc_info or r.levelno > logging.WARNING]
    assert not failures, failures[0].getMessage()
    assert all(record.getMessage().isprintable() for record in caplog.records)
    deadline = time.monotonic() + 60
    while threading.active_count() > before:
        assert time.monotonic() < deadline, "threads of clients that are gone"
        time.sleep(0.05)


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_an_honest_client_is_served_after_a_few_that_misbehave(monkeypatch, caplog, secure):
    attack(40, monkeypatch, caplog, secure=secure)


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_an_honest_client_is_served_after_thousands_that_misbehave(monkeypatch, caplog, secure):
    attack(3000, monkeypatch, caplog, secure=secure)
