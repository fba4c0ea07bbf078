# SPDX-License-Identifier: Apache-2.0
"""Noise for agents and for clients ends in one clear error."""

import functools
import json
import logging
import random
import re
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from support.boards import agents
from support.boards.hostile import ENDS, NAME, STATES, Client, Impatient
from support.randomness import SLOW_SHARE, fresh_rng

from tilewright.host.common.errors import TilewrightError
from tilewright.host.machine.registers import COUNTERS
from tilewright.host.runtime.agent import authentication, client, server
from tilewright.host.runtime.agent import channel as channels
from tilewright.host.runtime.agent.authentication import admit
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.images import describe
from tilewright.host.runtime.agent.journal import MOST_ENTRIES
from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.tls import make_identity

SUPPORT = Path(__file__).resolve().parents[4] / "support"
identity = functools.cache(make_identity)


def attack(count: int, monkeypatch, caplog, *, secure: bool) -> None:
    """Let clients misbehave, up to five at a time, and then look at what is left."""
    monkeypatch.setattr(channels, "_PIECE_SECONDS", 0.3)
    monkeypatch.setattr(channels, "_FAREWELL_SECONDS", 0.1)
    monkeypatch.setattr(authentication, "_REFUSAL_PAUSE", 0.01)
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 5.0)
    rng = random.Random(int(fresh_rng().integers(2**63)))
    caplog.set_level(logging.WARNING)
    before = threading.active_count()
    with agents.serving(
        Impatient(), identity=identity() if secure else None, connections=8, lease_seconds=2.0,
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
        agents.works(address, wait_seconds=120, plain=not secure)
        for client in staying:
            client.close()
        agents.works(address, wait_seconds=120, plain=not secure)
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


MESSAGES = int(100_000 * SLOW_SHARE)
PARTS = 20
FLAT_BYTES = 16 << 20
"""What the agent's memory may grow by, from a tenth of the messages to all of them."""


class Process:
    """An agent as a process, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, SUPPORT / "boards" / "hostile_agent.py", folder],
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self._process.stdout is not None
        self.address = self._process.stdout.readline().split()[-1]

    def resident_bytes(self) -> int:
        text = Path(f"/proc/{self._process.pid}/status").read_text()
        return 1024 * int(re.search(r"VmRSS:\s+(\d+) kB", text)[1])

    def end(self) -> int:
        self._process.terminate()
        return self._process.wait(60)


def pester(address: str, rng: random.Random, states, count: int) -> list[str]:
    """Send so many messages by clients in any of these states; kinds of all answers."""
    kinds: list[str] = []
    sent, staying = 0, []
    while sent < count:
        client, before = None, sent
        with suppress(TilewrightError, OSError):
            client = Client(address, rng, secure=True)
            client.reach(rng.choice(states))
            if rng.random() < 0.7:
                kinds += {answer.kind for answer in client.pester(400)}
                client.end("close")
            else:
                client.misbehave()
                client.end(rng.choice(ENDS))
        if client is not None:
            sent += client.sent
            staying.append(client)
        if sent == before:
            sent += 1  # a connection is what it sent
        while len(staying) > 3:
            staying.pop(0).close()
    for client in staying:
        client.close()
    return kinds


@pytest.mark.slow
def test_hostile_messages_let_nobody_in_lose_nothing_and_leave_memory_flat(tmp_path):
    """Strangers first, then clients that know the token; honest ones between them."""
    rng = random.Random(int(fresh_rng().integers(2**63)))
    agent = Process(tmp_path)
    lost = ask_and_vanish(agent.address)
    memory: list[int] = []
    for part in range(PARTS):
        strangers = part < PARTS // 5
        kinds = pester(agent.address, rng, STATES[:3] if strangers else STATES, MESSAGES // PARTS)
        if strangers:
            assert set(kinds) <= {"challenge", "refused", "bye"}, "nobody came in"
            assert_kept(agent.address, lost)
            lost = ask_and_vanish(agent.address)
        else:
            agents.works(agent.address, wait_seconds=120, plain=False)
        memory.append(agent.resident_bytes())
        print(f"part {part}: {memory[-1] / 2**20:.1f} MiB", flush=True)  # noqa: T201  (pytest -s)
    assert agent.end() == 0
    assert max(memory) - memory[PARTS // 10] <= FLAT_BYTES, memory
    lines = [json.loads(line) for line in agent.log.read_text().splitlines()]
    assert not [line for line in lines if line["level"] == "error"]
    assert not {agents.TOKEN.decode(), agents.TOKEN.hex()} & set(
        re.findall(r"\w+", agent.log.read_text())
    )
    assert len(list((tmp_path / "journal").iterdir())) <= MOST_ENTRIES


def ask_and_vanish(address: str) -> str:
    """Run a program, and do not take its result; the trial."""
    trial = fresh_rng().bytes(16).hex()
    channel = agents.member(address, identity=True)
    channel.send("load", describe(agents.PROGRAM)[1], digest=NAME, **describe(agents.PROGRAM)[0])
    assert channel.receive(seconds=20).kind == "loaded"
    channel.send("run", [bytes(4)], digest=NAME, max_cycles=1, trial=trial)
    assert channel.receive(seconds=20, max_body=1 << 20).kind == "ran"
    channel.close()
    return trial


def assert_kept(address: str, trial: str) -> None:
    """The result is there although the program is not: it did not run again."""
    channel = agents.member(address, identity=True)
    channel.send("run", [bytes(4)], digest=NAME, max_cycles=1, trial=trial)
    assert channel.receive(seconds=20, max_body=1 << 20).kind == "ran"
    channel.send("leave")
    channel.close()


# -- Whatever answers at an agent's address, a client ends in a right result or in one clear
WELCOME = {
    "hw": asdict(agents.TINY), "limits": Limits().to_mapping(), "board": "", "bitstreams": {},
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
        self._honest = rng.randrange(5)

    def converse(self, channel: Channel) -> None:
        if self._honest == 0 and self._rng.random() < 0.5:
            return self._lie(channel)
        channel.accept_tls(identity() if self._secure else None)
        if self._honest == 0:
            return self._lie(channel)
        proof = admit(channel, agents.TOKEN)
        if self._honest == 1:
            return self._lie(channel, mac=proof)
        channel.send("welcome", mac=proof, **WELCOME)
        for left, kind in ((2, "leased"), (3, "loaded"), (4, "ran")):
            channel.receive(seconds=10, max_body=1 << 24)
            if left == self._honest:
                return self._lie(channel)
            channel.send(kind)
        return None

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
            channel._socket.sendall(agents.pack_prefix(len(header), len(body)) + header + body)


def attack_client(count: int, monkeypatch, *, secure: bool) -> None:
    monkeypatch.setattr(authentication, "_REFUSAL_PAUSE", 0.01)
    monkeypatch.setattr(channels, "_PIECE_SECONDS", 2.0)
    monkeypatch.setattr(client, "_ANSWER_SECONDS", 2.0)
    rng = random.Random(int(fresh_rng().integers(2**63)))
    errors = []
    for _ in range(count):
        with agents.impostor(Liar(rng, secure=secure).converse) as address:
            try:
                device = agents.remote_device(address, plain=not secure)
                try:
                    result = device.run(agents.PROGRAM, agents.IMAGE)
                    assert result.memory.shape == agents.EXPECTED.shape
                    assert result.memory.dtype == np.uint8
                finally:
                    device.close()
            except TilewrightError as error:
                errors.append(str(error))
    assert len(errors) > count // 2
    assert all(error.isprintable() for error in errors)
    assert max(map(len, errors)) < 20_000


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_liar_is_one_clear_error(monkeypatch, secure):
    attack_client(40, monkeypatch, secure=secure)


@pytest.mark.slow
@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_many_liars_are_one_clear_error_each(monkeypatch, secure):
    attack_client(int(2000 * SLOW_SHARE), monkeypatch, secure=secure)
