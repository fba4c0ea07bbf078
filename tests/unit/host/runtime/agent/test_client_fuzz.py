# SPDX-License-Identifier: Apache-2.0
"""Whatever answers at an agent's address, a client ends in a right result or in one clear error."""

import functools
import json
import random
import socket
import threading
from contextlib import suppress
from dataclasses import asdict

import numpy as np
import pytest
from support.boards.agents import EXPECTED, IMAGE, PROGRAM, TINY, TOKEN, pack_prefix, remote_device
from support.randomness import SLOW_SHARE, fresh_rng

from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.registers import COUNTERS
from tilewright.host.runtime.agent import authentication, client
from tilewright.host.runtime.agent import channel as channels
from tilewright.host.runtime.agent.authentication import admit
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.tls import make_identity

identity = functools.cache(make_identity)

WELCOME = {
    "hw": asdict(TINY), "limits": Limits().to_mapping(), "board": "", "bitstreams": {},
}  # fmt: skip
ERROR = {
    "class": "DeviceError", "rule": "rule", "field": "field", "value": 1, "shown": None,
    "remedy": "", "code": 1, "unit": 0, "instruction": 0, "wait_states": [],
}  # fmt: skip
RAN = {"counters": {name: 0 for name, _ in COUNTERS}, "seconds": 0.1}
STRANGE = (
    None, True, -1, 2**64 - 1, 1e308, "", "x", "\x1b[2J\n", "\u202e", "\ud800", "y" * 10_000, [],
    [[]], {}, {"name": "\x1b[2J"}, {"cycles": -1}, "DeviceStatusError", "OSError", [1] * 5,
)  # fmt: skip
KINDS = ("challenge", "welcome", "full", "refused", "leased", "error", "bye", "loaded", "ran",
         "unknown", "pong", "configured", "strange")  # fmt: skip

EXPECTED_KINDS = ("challenge", "welcome", "leased", "loaded", "ran")


class Liar:
    """Answers like an agent up to some message, and then anything."""

    def __init__(self, rng: random.Random, *, secure: bool) -> None:
        self._rng, self._secure = rng, secure
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._honest = rng.randrange(5)
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(TilewrightError, OSError):
            self._converse(Channel(self._listener.accept()[0], seconds=20))
        self._listener.close()

    def _converse(self, channel: Channel) -> None:
        try:
            if self._honest == 0 and self._rng.random() < 0.5:
                return self._lie(channel)
            channel.accept_tls(identity() if self._secure else None)
            if self._honest == 0:
                return self._lie(channel)
            proof = admit(channel, TOKEN)
            if self._honest == 1:
                return self._lie(channel, mac=proof)
            channel.send("welcome", mac=proof, **WELCOME)
            for left, kind in ((2, "leased"), (3, "loaded"), (4, "ran")):
                channel.receive(seconds=10, max_body=1 << 24)
                if left == self._honest:
                    return self._lie(channel)
                channel.send(kind)
            return None
        finally:
            channel.close()

    def _lie(self, channel: Channel, **proof: str) -> None:
        rng = self._rng
        for _ in range(rng.choice((1, 1, 3))):
            if rng.random() < 0.2:
                channel._socket.sendall(rng.randbytes(rng.choice((1, 18, 300))))
                continue
            fields = {**WELCOME, **ERROR, **RAN, "reason": "r", "nonce": "00" * 32, **proof}
            for name in rng.sample(sorted(fields), rng.randrange(4)):
                fields[name] = rng.choice(STRANGE)
            expected = rng.choice((EXPECTED_KINDS[self._honest], "error"))
            kind = expected if rng.random() < 0.8 else rng.choice(KINDS)
            header = json.dumps({"kind": kind, **fields}).encode()
            body = rng.choice((bytes(4), rng.randbytes(50))) if rng.random() < 0.2 else b""
            if kind == "ran" and not body:
                body = bytes(4)
            channel._socket.sendall(pack_prefix(len(header), len(body)) + header + body)

    def close(self) -> None:
        with suppress(OSError):
            socket.create_connection(self._listener.getsockname(), timeout=1).close()
        self._thread.join(30)


def attack(count: int, monkeypatch, *, secure: bool) -> None:
    monkeypatch.setattr(authentication, "_REFUSAL_PAUSE", 0.01)
    monkeypatch.setattr(channels, "_PIECE_SECONDS", 2.0)
    monkeypatch.setattr(client, "_ANSWER_SECONDS", 2.0)
    rng = random.Random(int(fresh_rng().integers(2**63)))
    errors = []
    for _ in range(count):
        liar = Liar(rng, secure=secure)
        try:
            device = remote_device(liar.address, plain=not secure)
            try:
                result = device.run(PROGRAM, IMAGE)
                assert result.memory.shape == EXPECTED.shape
                assert result.memory.dtype == np.uint8
            finally:
                device.close()
        except TilewrightError as error:
            errors.append(str(error))
        finally:
            liar.close()
    assert len(errors) > count // 2
    assert all(error.isprintable() for error in errors)
    assert max(map(len, errors)) < 20_000


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_liar_is_one_clear_error(monkeypatch, secure):
    attack(40, monkeypatch, secure=secure)


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_many_liars_are_one_clear_error_each(monkeypatch, secure):
    attack(int(2000 * SLOW_SHARE), monkeypatch, secure=secure)
