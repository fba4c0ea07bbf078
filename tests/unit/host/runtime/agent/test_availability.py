# SPDX-License-Identifier: Apache-2.0
"""Who only connects, stays silent or asks for too much takes the device from nobody."""

import dataclasses
import json
import math
import socket
import struct
import threading
import time

import numpy as np
import pytest
from support.boards.agents import (
    EXPECTED,
    IMAGE,
    PROGRAM,
    TOKEN,
    SlowDevice,
    dial,
    member,
    pack_prefix,
    remote_device,
    serving,
    works,
)

from tilewright.host.common.errors import DeviceError, TilewrightError
from tilewright.host.runtime.agent import channel as channels
from tilewright.host.runtime.agent import server, session
from tilewright.host.runtime.agent.address import home_of
from tilewright.host.runtime.agent.authentication import AgentFullError
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.images import describe, kept_bytes
from tilewright.host.runtime.agent.pending_handshakes import (
    MAX_PENDING_OF_A_HOST,
    PendingHandshakes,
)
from tilewright.host.runtime.agent.protocol import ProtocolError
from tilewright.host.runtime.agent.server import AgentServer
from tilewright.host.runtime.agent.tls import make_identity

# -- many at once ---------------------------------------------------------------------------


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
@pytest.mark.parametrize("places", [64, 8])
def test_of_64_clients_at_once_that_wait_all_are_served(places, secure):
    """A backlog of 5 lost 11 to 49 of them."""
    identity = make_identity() if secure else None
    begin, served, errors = threading.Event(), [], []

    def client() -> None:
        begin.wait(60)
        try:
            device = remote_device(address, wait_seconds=300, plain=not secure)
            served.append(np.array_equal(device.run(PROGRAM, IMAGE).memory, EXPECTED))
            device.close()
        except TilewrightError as error:
            errors.append(str(error))

    with serving(identity=identity, connections=places) as address:
        threads = [threading.Thread(target=client) for _ in range(64)]
        for thread in threads:
            thread.start()
        begin.set()
        for thread in threads:
            thread.join(300)
    assert not errors
    assert served == [True] * 64


def test_connections_that_nobody_accepts_yet_are_kept():
    agent = AgentServer(SlowDevice(), listen="127.0.0.1:0", token=TOKEN, identity=None)
    waiting = [dial(agent.address) for _ in range(100)]
    thread = threading.Thread(target=agent.serve)
    thread.start()
    works(agent.address)
    for each in waiting:
        each.close()
    agent.stop()
    thread.join(10)


# -- before the token is proven -------------------------------------------------------------


class Guest:
    """Something that can be ended, in the place of a channel."""

    def __init__(self) -> None:
        self.ended = False

    def abort(self) -> None:
        self.ended = True


def test_the_oldest_guest_of_a_host_yields_and_nobody_of_another():
    pending = PendingHandshakes(most=10, most_of_a_host=3)
    other, *guests = [Guest() for _ in range(6)]
    assert pending.enter(other, "other") == []
    assert [pending.enter(guest, "host") for guest in guests] == [
        [], [], [], [guests[0]], [guests[1]],
    ]  # fmt: skip
    assert [guest.ended for guest in guests] == [True, True, False, False, False]
    assert not other.ended


def test_when_all_are_too_many_the_oldest_of_the_host_with_most_yields():
    pending = PendingHandshakes(most=4, most_of_a_host=3)
    first, *many = [Guest() for _ in range(4)]
    pending.enter(first, "few")
    for guest in many:
        pending.enter(guest, "many")
    assert pending.enter(Guest(), "new") == [many[0]]
    pending.leave(many[1])
    pending.leave(many[1])
    assert pending.enter(Guest(), "newer") == []
    assert not first.ended


def test_guests_that_stay_too_long_are_ended_whatever_they_do():
    pending = PendingHandshakes(seconds=0.0)
    late, known = Guest(), Guest()
    pending.enter(late, "host")
    pending.enter(known, "host")
    pending.leave(known)
    pending.close_late()
    assert (late.ended, known.ended) == (True, False)
    patient = PendingHandshakes(seconds=1000.0)
    patient.enter(known, "host")
    patient.close_late()
    assert not known.ended


def test_a_guest_that_keeps_its_thread_busy_is_ended_by_the_server(monkeypatch):
    """Its own deadline is looked at between reads, of which TLS may make many."""
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 0.2)
    monkeypatch.setattr(server, "_FAREWELLS_SECONDS", 0.2)
    busy = threading.Event()

    def stay_busy(channel, _identity):
        assert busy.wait(60)

    monkeypatch.setattr(Channel, "accept_tls", stay_busy)
    with serving() as address, dial(address) as guest:
        assert guest.recv(1) == b""
        busy.set()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("2001:db8::1", "2001:db8::ffff:1:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2", True),
    ],
)
def test_a_machine_may_have_many_addresses_of_ipv6(one, other, same):
    assert (home_of((one, 1)) == home_of((other, 2))) == same


def test_idle_connections_lock_nobody_out():
    """Sixteen did, and whoever knew the token was told that the agent is full."""
    with serving(connections=1) as address:
        idle = []
        for _ in range(3):
            idle += [dial(address) for _ in range(MAX_PENDING_OF_A_HOST)]
            works(address, wait_seconds=30)
        assert idle[0].recv(1) == b"", "the oldest had to yield"
        for each in idle:
            each.close()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
def test_a_handshake_has_one_deadline_however_it_trickles(monkeypatch, secure):
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 0.5)
    with serving(identity=make_identity() if secure else None) as address, dial(address) as slow:
        slow.sendall(b"\x16\x03\x01\x02\x00" if secure else b"TWAG")
        ended = threading.Event()

        def trickle() -> None:
            while not ended.wait(0.05):
                try:
                    slow.sendall(b"\0")
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        try:
            while slow.recv(100):  # an agent that waits on lets this time out
                pass
        except ConnectionResetError:
            pass
        finally:
            ended.set()
            thread.join(10)


def test_the_deadline_of_the_handshake_ends_with_it(monkeypatch):
    deadlines = []

    class Looked(session.Session):
        def serve(self):
            deadlines.append(self._channel._deadline)
            super().serve()

    monkeypatch.setattr(server, "Session", Looked)
    with serving() as address:
        works(address)
    assert deadlines == [math.inf]


def test_what_guests_write_to_the_log_is_bounded(caplog):
    with serving() as address:
        for _ in range(100):
            with dial(address) as noise:
                noise.sendall(b"x" * 100)
        works(address, wait_seconds=10)
    lines = [record for record in caplog.records if "must speak" in record.getMessage()]
    assert len(lines) <= server.GUEST_LINES


# -- behind the token -----------------------------------------------------------------------


def send_raw(channel: Channel, header: bytes, body: bytes = b"") -> None:
    channel._socket.sendall(pack_prefix(len(header), len(body)) + header + body)


def test_a_wait_of_400_digits_is_refused(caplog):
    with serving() as address:
        channel = member(address, leased=False)
        send_raw(channel, b'{"kind": "lease", "wait_seconds": ' + b"1" * 400 + b"}")
        assert "at most 20 digits, not 400" in channel.receive(seconds=10).text("reason")
        channel.close()
        works(address)
    assert "Traceback" not in caplog.text


def test_before_the_lease_no_large_message_is_read():
    with serving() as address:
        channel = member(address, leased=False)
        send_raw(channel, b'{"kind": "lease", "wait_seconds": 1' + b" " * 5000 + b"}")
        assert "must be at most 4096 bytes" in channel.receive(seconds=10).text("reason")
        channel.close()


@pytest.mark.parametrize("wait", [-1, float("inf"), float("nan"), 1e9])
def test_a_client_refuses_waits_that_no_agent_grants(wait):
    with pytest.raises(DeviceError if wait is None else TilewrightError, match="wait: must be 0"):
        remote_device("127.0.0.1:1", wait_seconds=wait)


def comes_in(address: str) -> None:
    """A client gets a place, sooner or later."""
    deadline = time.monotonic() + 60
    while True:
        try:
            member(address, leased=False).close()
            return
        except AgentFullError:
            assert time.monotonic() < deadline, "the place is never free"
            time.sleep(0.05)


@pytest.mark.parametrize("how", ["stays", "closes", "resets"])
def test_who_sends_on_while_it_waits_loses_its_place(how):
    """Behind bytes that nobody reads, a client that is gone looks like one that waits."""
    with serving(connections=2) as address:
        holder = remote_device(address)
        channel = member(address, leased=False)
        channel.send("lease", wait_seconds=3600)
        channel.send("run", [bytes(100_000)], digest="aa" * 32, max_cycles=0, trial="ab" * 16)
        if how == "resets":
            channel._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if how == "stays":
            assert "must wait for the answer" in channel.receive(seconds=30).text("reason")
        else:
            channel._socket.close()
        comes_in(address)
        holder.close()
        works(address, wait_seconds=30)
        channel.close()


def test_who_vanishes_behind_many_runs_gets_none_of_them():
    device = SlowDevice()
    with serving(device) as address:
        channel = member(address)
        fields, body = describe(PROGRAM)
        channel.send("load", body, digest="aa" * 32, **fields)
        channel.receive(seconds=10).expect("loaded")
        for _ in range(50):
            channel.send("run", [bytes(4)], digest="aa" * 32, max_cycles=1, trial="ab" * 16)
        channel.close()
        works(address, wait_seconds=30)
    assert device.limits.count(1) < 50


def test_silence_inside_an_announced_body_frees_the_device(monkeypatch):
    """It held it for up to 2,058 seconds."""
    monkeypatch.setattr(channels, "_PIECE_SECONDS", 0.5)
    with serving() as address:
        silent = member(address)
        silent._socket.sendall(pack_prefix(2, 100 << 20) + b"{}")
        works(address, wait_seconds=30)
        silent.close()


def test_who_does_not_take_its_result_frees_the_device(monkeypatch):
    monkeypatch.setattr(channels, "_PIECE_SECONDS", 0.5)

    class Talkative(SlowDevice):
        def run(self, program, memory, *, max_cycles=0):
            found = super().run(program, memory, max_cycles=max_cycles)
            if len(memory) > len(IMAGE):
                return dataclasses.replace(found, memory=found.memory ^ 1)
            return found

    large = {**describe(PROGRAM)[0], "memory_bytes": 64 << 20}
    with serving(Talkative()) as address:
        channel = member(address)
        channel.send("load", describe(PROGRAM)[1], digest="aa" * 32, **large)
        channel.receive(seconds=30).expect("loaded")
        channel.send("run", [bytes(4)], digest="aa" * 32, max_cycles=0, trial="ab" * 16)
        works(address, wait_seconds=120)
        channel.close()


def test_programs_with_long_names_are_refused():
    """300 of them with 1,000 names each took memory without end."""
    fields, body = describe(PROGRAM)
    regions = {**fields["regions"], **{f"{'x' * 60}{i:05}": [0, 0] for i in range(10)}}
    with serving() as address:
        channel = member(address)
        channel.send("load", body, digest="aa" * 32, **{**fields, "regions": regions})
        assert "names of at most 64 characters" in channel.receive(seconds=10).text("reason")
        channel.close()
        channel = member(address)
        channel.send("load", body, digest="x" * 1000, **fields)
        assert "32 bytes in hexadecimal" in channel.receive(seconds=10).text("reason")
        channel.close()


def test_memory_of_a_session_is_bounded_by_what_is_kept():
    fields, body = describe(PROGRAM)
    regions = {**fields["regions"], **{f"r{i}": [fields["memory_bytes"], 0] for i in range(1000)}}
    kept = []

    class Looked(session.Session):
        def _load(self, request):
            super()._load(request)
            kept.append(sum(map(kept_bytes, self._programs.values())))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server, "Session", Looked)
        with serving(program_bytes=2 << 20) as address:
            channel = member(address)
            for number in range(20):
                request = {**fields, "regions": regions}
                channel.send("load", body, digest=f"{number:064x}", **request)
                channel.receive(seconds=10).expect("loaded")
            channel.close()
    assert len(kept) == 20
    assert max(kept) <= 2 << 20


@pytest.mark.parametrize("text", ["\x1b]0;title\a", "\x9b2J", "\u202e", "a\nerror: b"])
def test_what_an_agent_says_cannot_steer_the_clients_terminal(text):
    class Rude(SlowDevice):
        def run_client(self, program, memory, *, max_cycles):
            raise DeviceError(f"rule {text}", field=text, value=text, remedy=text)

    with serving(Rude()) as address:
        remote = remote_device(address)
        with pytest.raises(DeviceError) as caught:
            remote.run(PROGRAM, IMAGE)
        remote.close()
    assert str(caught.value).isprintable()
    assert caught.value.field.isprintable()


@pytest.mark.parametrize("kind", ["hello", "lease", "ping"])
def test_what_a_client_says_cannot_steer_the_agents_terminal(kind, caplog):
    caplog.set_level("INFO")
    with serving() as address:
        channel = Channel(dial(address)) if kind == "hello" else member(address, leased=False)
        header = {"kind": f"{kind}\x1b[2J", "nonce\x1b": "\x1b"}
        send_raw(channel, json.dumps(header).encode())
        assert channel.receive(seconds=10).text("reason").isprintable()
        channel.close()
        works(address)
    assert all(record.getMessage().isprintable() for record in caplog.records)


def test_an_agent_that_lies_about_itself_cannot_steer_the_clients_terminal(monkeypatch):
    def lie(_hw):
        return {"name\x1b[2J": "\x1b[2J", "block_in": "\x9b"}

    monkeypatch.setattr(server, "asdict", lie)
    with serving() as address, pytest.raises(TilewrightError) as caught:
        remote_device(address)
    assert str(caught.value).isprintable()
    assert ProtocolError is not type(caught.value)
