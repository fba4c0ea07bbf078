# SPDX-License-Identifier: Apache-2.0
"""Messages: what is sent is received, and nothing else gets through, however it arrives."""

from __future__ import annotations

import socket
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.agent import protocol
from tilewright.host.agent.protocol import (
    Channel,
    ConnectionLostError,
    Message,
    ProtocolError,
)
from tilewright.host.errors import DeviceError

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    channels = Channel(tcp(ours)), Channel(tcp(theirs))
    yield channels
    for channel in channels:
        channel.close()


class tcp:  # noqa: N801  (a stand-in for a socket, not a class of its own)
    """A UNIX socket that ignores the options of TCP."""

    def __init__(self, inner: socket.socket) -> None:
        self._inner = inner

    def setsockopt(self, *_option: int) -> None:
        pass

    def __getattr__(self, name: str):
        return getattr(self._inner, name)


def raw(data: bytes) -> Channel:
    """A channel on which these bytes arrive, and then the end."""
    ours, theirs = socket.socketpair()
    ours.sendall(data)
    ours.close()
    return Channel(tcp(theirs))


def sent(kind: str, *body: bytes, **fields: object) -> bytes:
    """The bytes of a message."""
    ours, theirs = socket.socketpair()
    channel = Channel(tcp(ours))
    channel.send(kind, body, **fields)
    channel.close()
    data = b""
    while part := theirs.recv(1 << 16):
        data += part
    theirs.close()
    return data


@given(fields=st.dictionaries(st.text(max_size=5).filter(lambda n: n != "kind"), JSON),
       body=st.lists(st.binary(max_size=300), max_size=3))  # fmt: skip
@settings(max_examples=50, deadline=None)
def test_a_message_arrives_as_it_was_sent(fields, body):
    channel = raw(sent("run", *body, **fields))
    message = channel.receive(seconds=1, max_body=1000)
    assert (message.kind, dict(message.fields), bytes(message.body)) == (
        "run",
        fields,
        b"".join(body),
    )
    with pytest.raises(ConnectionLostError, match="closed"):
        channel.receive(seconds=1)
    channel.close()


@given(data=st.binary(max_size=200))
@settings(max_examples=100, deadline=None)
def test_noise_is_refused(data):
    channel = raw(data)
    with pytest.raises((ProtocolError, ConnectionLostError)):
        channel.receive(seconds=1)
    channel.close()


MESSAGE = sent("load", b"0123456789", size=3)


@given(at=st.integers(0, len(MESSAGE) - 1), value=st.integers(0, 255))
@settings(max_examples=200, deadline=None)
def test_a_message_with_a_changed_byte_is_a_message_or_refused(at, value):
    channel = raw(MESSAGE[:at] + bytes([value]) + MESSAGE[at + 1 :])
    try:
        message = channel.receive(seconds=1, max_body=1000)
    except DeviceError:
        pass
    else:
        assert isinstance(message.kind, str)
    channel.close()


@given(length=st.integers(0, len(MESSAGE) - 1))
@settings(max_examples=30, deadline=None)
def test_a_message_that_breaks_off_is_a_lost_connection(length):
    channel = raw(MESSAGE[:length])
    with pytest.raises(ConnectionLostError):
        channel.receive(seconds=1, max_body=1000)
    channel.close()


@pytest.mark.parametrize(
    "header", [b"[]", b"{}", b'{"kind": 3}', b"\xff", b"[" * 100_000, b"1" * 100_000, b""]
)
def test_a_header_that_is_no_message_is_refused(header):
    prefix = protocol._PREFIX.pack(protocol._MAGIC, protocol.PROTOCOL_VERSION, len(header), 0)
    ours, theirs = socket.socketpair()
    feeder = threading.Thread(target=ours.sendall, args=(prefix + header,))
    feeder.start()
    channel = Channel(tcp(theirs))
    with pytest.raises(ProtocolError, match="message header"):
        channel.receive(seconds=1)
    feeder.join()
    ours.close()
    channel.close()


@pytest.mark.parametrize(("header", "body"), [(2**32 - 1, 0), (2, 2**64 - 1), (101, 0), (2, 11)])
def test_sizes_beyond_the_limits_are_refused_before_they_are_read(header, body):
    """The other side keeps the connection open and sends nothing more."""
    ours, theirs = socket.socketpair()
    ours.sendall(protocol._PREFIX.pack(protocol._MAGIC, 1, header, body))
    channel = Channel(tcp(theirs))
    with pytest.raises(ProtocolError, match="must be at most"):
        channel.receive(seconds=1, max_header=100, max_body=10)
    ours.close()
    channel.close()


def test_another_version_names_both():
    data = protocol._PREFIX.pack(protocol._MAGIC, 9, 2, 0)
    with pytest.raises(ProtocolError, match=r"protocol version: must be 1, not 9.*same release"):
        raw(data).receive(seconds=1)


def test_silence_ends_in_an_error_and_so_does_a_message_that_never_ends(pair, monkeypatch):
    ours, theirs = pair
    started = time.monotonic()
    with pytest.raises(ConnectionLostError, match="silent"):
        theirs.receive(seconds=0.1)
    monkeypatch.setattr(protocol, "_TRANSFER_SECONDS", 0.2)
    ours._socket.sendall(MESSAGE[:5])

    def trickle() -> None:
        for at in range(5, 15):
            time.sleep(0.1)
            try:
                ours._socket.sendall(MESSAGE[at : at + 1])
            except OSError:
                return

    thread = threading.Thread(target=trickle)
    thread.start()
    with pytest.raises(ConnectionLostError, match="silent"):
        theirs.receive(seconds=0.1)
    assert time.monotonic() - started < 5
    theirs.close()
    thread.join()


def test_sending_to_a_side_that_takes_nothing_ends(pair, monkeypatch):
    monkeypatch.setattr(protocol, "_TRANSFER_SECONDS", 0.1)
    monkeypatch.setattr(protocol, "_SLOWEST_BYTES_PER_SECOND", 1 << 30)
    with pytest.raises(ConnectionLostError, match="silent"):
        pair[0].send("x", [bytes(1 << 24)])


def test_a_side_that_left_is_noticed_without_reading(pair):
    ours, theirs = pair
    assert not theirs.is_gone
    ours.send("x")
    assert not theirs.is_gone
    assert theirs.receive(seconds=1).kind == "x"
    ours.close()
    assert theirs.is_gone
    theirs.close()
    assert theirs.is_gone


GETTERS = {
    "integer": lambda m: m.integer("v", 0, 9),
    "number": lambda m: m.number("v", 0, 9),
    "text": lambda m: m.text("v"),
    "mapping": lambda m: m.mapping("v"),
}


@pytest.mark.parametrize(
    ("getter", "good", "bad"),
    [
        ("integer", [0, 9], [-1, 10, True, 1.0, "1", None, [1]]),
        ("number", [0, 8.5], [-1, 9.1, True, "1", None, float("nan"), float("inf")]),
        ("text", ["", "a"], [1, None, ["a"]]),
        ("mapping", [{}, {"a": 1}], [[], None, "a"]),
    ],
)
def test_values_of_another_kind_or_range_are_refused(getter, good, bad):
    for value in good:
        assert GETTERS[getter](Message(kind="k", fields={"v": value})) == value
    for value in bad:
        with pytest.raises(ProtocolError, match="message k: v"):
            GETTERS[getter](Message(kind="k", fields={"v": value}))
    with pytest.raises(ProtocolError):
        GETTERS[getter](Message(kind="k"))
