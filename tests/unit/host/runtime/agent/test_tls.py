# SPDX-License-Identifier: Apache-2.0
"""Nobody between an agent and its client can read, change or forge what they say."""

import functools
import logging
import shutil
import socket
import ssl
import sys
import threading
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from cryptography.hazmat.primitives import serialization
from support.boards.agents import (
    EXPECTED,
    IMAGE,
    PROGRAM,
    TOKEN,
    SlowDevice,
    dial,
    impostor,
    member,
    pack_prefix,
    remote_device,
    serving,
    works,
)

from tilewright.host.common.errors import ConfigError, DeviceError, ToolError
from tilewright.host.runtime.agent import authentication, tls
from tilewright.host.runtime.agent.authentication import AuthenticationError
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.client import RemoteDevice
from tilewright.host.runtime.agent.protocol import ConnectionLostError, pack
from tilewright.host.runtime.agent.server import AgentServer
from tilewright.host.runtime.agent.tls import _made_by_package as made_by_package
from tilewright.host.runtime.agent.tls import load_identity, make_identity

identity = functools.cache(make_identity)
other_identity = functools.cache(make_identity)


class Between:
    """Listens, connects to an agent for each client, and passes bytes on as it likes.

    ``change`` gets who sent (``client`` or ``agent``), how many bytes passed, and the next ones; it
    returns what is passed on, or None to cut both connections.
    """

    def __init__(self, address: str, change) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.heard = {"client": b"", "agent": b""}
        self._agent = address
        self._change = change
        self._threads = [threading.Thread(target=self._accept)]
        self._threads[0].start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            agent = dial(self._agent)
            for who, source, target in (("client", client, agent), ("agent", agent, client)):
                thread = threading.Thread(target=self._pass_on, args=(who, source, target))
                self._threads.append(thread)
                thread.start()

    def _pass_on(self, who: str, source: socket.socket, target: socket.socket) -> None:
        passed = 0
        try:
            while data := source.recv(1 << 16):
                self.heard[who] += data
                changed = self._change(who, passed, data)
                if changed is None:
                    break
                passed += len(data)
                target.sendall(changed)
        except OSError:
            pass
        for each in (source, target):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)


@contextmanager
def between(address: str, change):
    middle = Between(address, change)
    try:
        yield middle
    finally:
        middle.close()


def test_a_client_gets_the_right_result_and_nobody_reads_it():
    with serving(identity=identity()) as address:
        with between(address, lambda _who, _passed, data: data) as middle:
            works(middle.address, plain=False)
        for heard in middle.heard.values():
            assert len(heard) > 1000
            for secret in (TOKEN, b"TWAG", b"nonce", b"kind", PROGRAM.instructions[:32]):
                assert secret not in heard
    with serving() as address, between(address, lambda _who, _passed, data: data) as middle:
        works(middle.address)
    assert PROGRAM.instructions[:32] in middle.heard["client"], "the test itself can hear"


def test_somebody_between_with_another_certificate_is_refused_by_both(monkeypatch, caplog):
    monkeypatch.setattr(authentication, "_REFUSAL_PAUSE", 0.01)
    caplog.set_level(logging.INFO)

    def pass_on(client: Channel) -> None:
        """With a certificate of its own."""
        client.accept_tls(other_identity())
        agent = Channel(dial(address), seconds=20)
        agent.start_tls()
        try:
            for source, target in ((client, agent), (agent, client)) * 2:
                message = source.receive(seconds=10)
                target.send(message.kind, **message.fields)
        finally:
            agent.close()

    with serving(identity=identity()) as address:
        with (
            impostor(pass_on) as middle,
            pytest.raises(AuthenticationError, match=r"refuses the token.*somebody stands bet"),
        ):
            remote_device(middle, plain=False)
        works(address, plain=False)
    assert "token: the client must know the token" in caplog.text


def test_somebody_between_who_answers_himself_is_found_out():
    def answer(client: Channel) -> None:
        client.accept_tls(other_identity())
        client.receive(seconds=10).expect("hello")
        client.send("challenge", nonce="00" * 32)
        proof = client.receive(seconds=10).expect("proof")
        client.send("welcome", mac=proof.fields["mac"], hw={}, limits={})

    with (
        impostor(answer) as address,
        pytest.raises(AuthenticationError, match="the agent must know the token"),
    ):
        remote_device(address, plain=False)


@pytest.mark.parametrize("kind", ["flipped", "cut", "added"])
def test_results_that_are_changed_on_the_way_are_errors_and_never_results(kind):
    """What follows the handshake was neither encrypted nor signed once."""
    armed = threading.Event()

    def change(who: str, passed: int, data: bytes) -> bytes | None:
        if who == "client" or not armed.is_set():
            return data
        if kind == "cut":
            return None
        if kind == "added":
            return pack_prefix(16, 0) + b'{"kind":"error"}' + data
        return data[:-1] + bytes([data[-1] ^ 1])

    with serving(identity=identity()) as address, between(address, change) as middle:
        remote = remote_device(middle.address, plain=False)
        assert np.array_equal(remote.run(PROGRAM, IMAGE).memory, EXPECTED)
        armed.set()
        with pytest.raises(ConnectionLostError, match="the run is lost; run again"):
            remote.run(PROGRAM, IMAGE)
        armed.clear()
        remote.close()
        works(address, plain=False, wait_seconds=10)


def test_bytes_of_an_earlier_session_open_no_other_one(caplog):
    caplog.set_level(logging.INFO)
    with serving(identity=identity()) as address:
        with between(address, lambda _who, _passed, data: data) as middle:
            works(middle.address, plain=False)
        replay = dial(address)
        replay.sendall(middle.heard["client"])
        while replay.recv(1 << 16):
            pass
        replay.close()
        works(address, plain=False)
    assert caplog.text.count("has the device") == 2


def test_an_agent_with_tls_refuses_a_client_without_and_says_so(caplog):
    caplog.set_level(logging.INFO)
    with serving(identity=identity()) as address:
        with pytest.raises(DeviceError, match=r"agent speaks TLS alone; connect without --plain"):
            remote_device(address)
        assert "the agent speaks TLS alone; connect without --plain" in caplog.text
        works(address, plain=False)


def test_an_agent_without_tls_refuses_a_client_with_and_says_so(caplog):
    caplog.set_level(logging.INFO)
    with serving() as address:
        with pytest.raises(DeviceError, match=r"must speak TLS 1\.3 .*--plain to both sides or"):
            remote_device(address, plain=False)
        assert "the agent speaks no TLS; connect with --plain" in caplog.text
        works(address)


def older_tls(purpose) -> ssl.SSLContext:
    context = ssl.SSLContext(purpose)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    return context


def test_an_agent_speaks_no_older_tls(caplog):
    caplog.set_level(logging.INFO)
    context = older_tls(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with serving(identity=identity()) as address:
        with pytest.raises(ssl.SSLError), context.wrap_socket(dial(address)):
            pass
        works(address, plain=False)
    assert "the other side must speak TLS 1.3" in caplog.text


def pem(path, *, password: bool = False):
    """A PEM file with key and certificate."""
    data = made_by_package(path.parent).read_bytes()
    if password:
        key = serialization.load_pem_private_key(data, None)
        hidden = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
        data = hidden + data[data.index(b"-----BEGIN CERT") :]
    path.write_bytes(data)
    path.chmod(0o600)
    return path


def test_a_client_speaks_no_older_tls(tmp_path):
    context = older_tls(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(pem(tmp_path / "agent.pem"))
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listener.accept()
        try:
            context.wrap_socket(connection, server_side=True).close()
        except OSError:
            connection.close()

    thread = threading.Thread(target=serve)
    thread.start()
    with pytest.raises(tls.TlsError, match=r"must speak TLS 1\.3 \("):
        remote_device(f"127.0.0.1:{listener.getsockname()[1]}", plain=False)
    thread.join(10)
    listener.close()


@pytest.mark.parametrize("size", [0, 1, 5, 100])
def test_a_handshake_that_breaks_off_harms_nobody(size):
    with serving(identity=identity()) as address:
        with between(address, lambda _who, _passed, data: data) as middle:
            works(middle.address, plain=False)
        with dial(address) as cut:
            cut.sendall(middle.heard["client"][:size])
        works(address, plain=False)


def test_a_client_that_may_wait_tries_again_when_it_is_turned_away():
    """The agent does that to the oldest of too many."""
    left = [3]

    def change(who: str, passed: int, data: bytes) -> bytes | None:
        if who == "client" and passed == 0 and left[0]:
            left[0] -= 1
            return None
        return data

    with serving(identity=identity()) as address, between(address, change) as middle:
        with pytest.raises(ConnectionLostError, match="closed the connection; check address and"):
            remote_device(middle.address, plain=False)
        assert left == [2]
        works(middle.address, plain=False, wait_seconds=60)
        assert left == [0]


def test_a_session_whose_end_is_cut_off_gives_the_device_back():
    with serving(identity=identity()) as address:
        channel = member(address, identity=identity())
        channel._socket.close()  # no farewell of TLS
        works(address, plain=False, wait_seconds=10)


def test_a_client_that_sends_on_over_tls_is_noticed():
    with serving(identity=identity()) as address:
        channel = member(address, identity=identity())
        channel._socket.sendall(2 * pack("ping", {}, 0))  # one record: both arrive together
        assert "must wait for the answer" in channel.receive(seconds=10).text("reason")
        channel.close()
        works(address, plain=False, wait_seconds=10)


# -- addresses ------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["0.0.0.0:0", "192.0.2.1:7425", "[::]:0", "[2001:db8::1]:1"])
def test_without_tls_no_other_machine_is_spoken_to(address):
    rule = "without TLS must be an address of this machine alone.*--plain.*SSH"
    with pytest.raises(ConfigError, match=f"listen: {rule}"):
        AgentServer(SlowDevice(), listen=address, token=TOKEN, identity=None)
    with pytest.raises(ConfigError, match=f"agent: {rule}"):
        RemoteDevice(address, TOKEN, plain=True)


# -- identities -----------------------------------------------------------------------------


def test_a_new_identity_is_another_one_and_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert make_identity().digest != identity().digest
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the program openssl is not here")
def test_the_program_serves_where_the_package_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with serving(identity=make_identity()) as address:
        works(address, plain=False)


def test_a_machine_without_either_is_told_what_else_there_is(monkeypatch):
    monkeypatch.setitem(sys.modules, "cryptography", None)
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(ToolError, match=r"neither works.*tilewright\[agent\].*--plain"):
        make_identity()


def test_a_private_key_that_others_may_read_is_refused(tmp_path):
    path = pem(tmp_path / "agent.pem")
    path.chmod(0o640)
    with pytest.raises(ConfigError, match=r"only its owner may read a private key.*640"):
        load_identity(path)


@pytest.mark.parametrize("kind", ["password", "key alone", "certificate alone", "empty", "noise"])
def test_files_that_hold_no_identity_are_refused(tmp_path, kind):
    path = pem(tmp_path / "agent.pem", password=kind == "password")
    data = path.read_bytes()
    at = data.index(b"-----BEGIN CERT")
    path.write_bytes({
        "password": data, "key alone": data[:at], "certificate alone": data[at:], "empty": b"",
        "noise": data[:at] + bytes(range(256)),
    }[kind])  # fmt: skip
    with pytest.raises(ConfigError, match=r"private key without password.*openssl req"):
        load_identity(path)
