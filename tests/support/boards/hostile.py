# SPDX-License-Identifier: Apache-2.0
"""Clients of an agent that misbehave in every state of a session."""

import json
import random
import socket
import struct
import time
from contextlib import suppress

from support.boards.agents import PROGRAM, TOKEN, SlowDevice, dial, pack_prefix

from tilewright.host.common.errors import TilewrightError
from tilewright.host.runtime.agent.authentication import join
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.images import describe
from tilewright.host.runtime.agent.protocol import PROTOCOL_VERSION, Message

STATES = ("connected", "secured", "greeted", "known", "waiting", "leased", "loaded", "running")
ENDS = ("close", "reset", "half-close", "silence", "stay")
FIELDS, BODY = describe(PROGRAM)
NAME = "ab" * 32
KINDS = (
    "hello",
    "proof",
    "lease",
    "status",
    "configure",
    "load",
    "run",
    "ping",
    "leave",
    "bye",
    "welcome",
    "Ugly\x1b",
)
LEASED_KINDS = ("configure", "load", "run", "ping")
"""What does not end the session of a client that has the device."""
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
        self.sent = 0
        """Messages, or what stood in their place."""

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
            channel.send("run", [bytes(4)], digest=NAME, max_cycles=0, trial=self._trial())

    def misbehave(self) -> None:
        """Send anything."""
        for _ in range(self._rng.choice((0, 1, 1, 1, 2, 5))):
            self._write(self._rng.choice((self._noise, self._odd, self._announced))())
            self.sent += 1

    def pester(self, most: int) -> list[Message]:
        """Send odd messages and wait for each answer, until the agent ends it; all answers."""
        answers: list[Message] = []
        with suppress(TilewrightError, OSError):
            while self.sent < most and (not answers or answers[-1].kind != "bye"):
                self._channel._socket.sendall(self._odd(whole=True))
                self.sent += 1
                answers.append(self._channel.receive(seconds=10, max_body=1 << 20))
        return answers

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
        version = PROTOCOL_VERSION if self._rng.random() < 0.8 else self._rng.randrange(1 << 16)
        return pack_prefix(header, body, version=version) + self._noise()

    def _trial(self) -> str:
        return self._rng.randbytes(16).hex()

    def _odd(self, *, whole: bool = False) -> bytes:
        """A message whose fields are of any kind; it may end early."""
        rng = self._rng
        fields = {
            **FIELDS, "digest": NAME, "wait_seconds": 1, "max_cycles": 0, "nonce": "00" * 32,
            "mac": "00" * 32, "trial": self._trial(), "config_hash": "00" * 4,
        }  # fmt: skip
        for name in rng.sample(sorted(fields), rng.randrange(3)):
            fields[name] = rng.choice(STRANGE)
        kinds = LEASED_KINDS if whole and rng.random() < 0.99 else KINDS
        header = json.dumps({"kind": rng.choice(kinds), **fields}).encode()
        if rng.random() < 0.3:
            header = header[:-1] + b', "digest": ' + rng.choice(RAW) + b"}"
        body = rng.choice((b"", bytes(4), b"".join(BODY), rng.randbytes(5000)))
        prefix = pack_prefix(len(header), len(body))
        return (
            prefix + header + body[: len(body) if whole else rng.choice((len(body), len(body), 1))]
        )


class Impatient(SlowDevice):
    """Some of its runs last until they are given up, or for a moment."""

    seconds = 0.2

    def run(self, program, memory, *, max_cycles=0):
        if max_cycles == 0 and program == PROGRAM:
            self.given_up.clear()
            self.given_up.wait(self.seconds)
        return super().run(program, memory, max_cycles=max_cycles)
