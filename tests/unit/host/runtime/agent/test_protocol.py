# SPDX-License-Identifier: Apache-2.0
"""Messages and errors cross the network as they are."""

import json
import socket
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.host.common import errors
from tilewright.host.common.errors import DeviceError, TilewrightError
from tilewright.host.machine.registers import UNIT_NAMES, ErrorCode, ErrorUnit, WaitState
from tilewright.host.machine.status import DeviceStatusError
from tilewright.host.runtime.agent import channel as channels
from tilewright.host.runtime.agent import protocol
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.error_codec import decode_error, encode_error
from tilewright.host.runtime.agent.protocol import ConnectionLostError, Message, ProtocolError
from tilewright.sim.verilator.library import SimulationError, Status

PLAIN = st.text(st.characters().filter(str.isprintable), max_size=20)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(-1e300, 1e300) | PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(PLAIN, inner, max_size=3),
    max_leaves=4,
)


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    both = Channel(ours), Channel(theirs)
    yield both
    for channel in both:
        channel.close()


def raw(data: bytes) -> Channel:
    """A channel on which these bytes arrive, and then the end."""
    ours, theirs = socket.socketpair()
    ours.sendall(data)
    ours.close()
    return Channel(theirs)


def sent(kind: str, *body: bytes, **fields: object) -> bytes:
    """The bytes of a message."""
    ours, theirs = socket.socketpair()
    channel = Channel(ours)
    channel.send(kind, body, **fields)
    channel.close()
    data = b""
    while part := theirs.recv(1 << 16):
        data += part
    theirs.close()
    return data


@given(fields=st.dictionaries(PLAIN.filter(lambda n: n != "kind"), JSON),
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
    channel = Channel(theirs)
    with pytest.raises(ProtocolError, match="message header"):
        channel.receive(seconds=1)
    feeder.join()
    ours.close()
    channel.close()


@pytest.mark.parametrize(("header", "body"), [(2**32 - 1, 0), (2, 2**64 - 1), (101, 0), (2, 11)])
def test_sizes_beyond_the_limits_are_refused_before_they_are_read(header, body):
    """The other side keeps the connection open and sends nothing more."""
    ours, theirs = socket.socketpair()
    ours.sendall(protocol._PREFIX.pack(protocol._MAGIC, protocol.PROTOCOL_VERSION, header, body))
    channel = Channel(theirs)
    with pytest.raises(ProtocolError, match="must be at most"):
        channel.receive(seconds=1, max_header=100, max_body=10)
    ours.close()
    channel.close()


def test_another_version_names_both():
    data = protocol._PREFIX.pack(protocol._MAGIC, 9, 2, 0)
    with pytest.raises(
        ProtocolError, match=rf"version: must be {protocol.PROTOCOL_VERSION}, not 9.*same release"
    ):
        raw(data).receive(seconds=1)


def test_silence_ends_in_an_error_and_so_does_a_message_that_never_ends(pair, monkeypatch):
    ours, theirs = pair
    started = time.monotonic()
    with pytest.raises(ConnectionLostError, match="silent"):
        theirs.receive(seconds=0.1)
    monkeypatch.setattr(channels, "_PIECE_SECONDS", 0.2)
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
    monkeypatch.setattr(channels, "_PIECE_SECONDS", 0.1)
    with pytest.raises(ConnectionLostError, match="silent"):
        pair[0].send("x", [bytes(1 << 24)])


def test_a_side_that_left_or_sends_on_is_noticed_without_reading(pair):
    ours, theirs = pair
    theirs.check_quiet()
    ours.send("x")
    with pytest.raises(ProtocolError, match="must wait for the answer"):
        theirs.check_quiet()
    assert theirs.receive(seconds=1).kind == "x"
    theirs.check_quiet()
    ours.close()
    for _ in range(2):
        with pytest.raises(ConnectionLostError, match="closed the connection"):
            theirs.check_quiet()
        theirs.close()


def test_a_side_that_left_behind_a_message_is_noticed_too(pair):
    """The end of the connection shows only behind all that was sent."""
    ours, theirs = pair
    ours.send("x", [bytes(1000)])
    ours.close()
    with pytest.raises(ProtocolError, match="and not leave"):
        theirs.check_quiet()


def test_a_connection_that_is_ended_from_outside_ends_whoever_reads_on_it(pair):
    _, theirs = pair
    errors = []

    def read() -> None:
        try:
            theirs.receive(seconds=60)
        except ConnectionLostError as error:
            errors.append(error)

    thread = threading.Thread(target=read)
    thread.start()
    theirs.abort()
    thread.join(10)
    assert len(errors) == 1


def test_what_is_said_last_arrives_though_bytes_wait_to_be_read():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        client = Channel(socket.create_connection(listener.getsockname()))
        agent = Channel(listener.accept()[0])
    client.send("x", [bytes(1 << 18)])
    farewell = threading.Thread(target=lambda: (agent.farewell("too much"), agent.close()))
    farewell.start()
    found = client.receive(seconds=10)
    assert (found.kind, found.text("reason")) == ("bye", "too much")
    client.close()
    farewell.join(10)


def test_silence_inside_a_long_body_ends_as_soon_as_inside_a_short_one(pair, monkeypatch):
    """However much was announced, and however fast it began: 2,058 s were allowed once."""
    ours, theirs = pair
    monkeypatch.setattr(channels, "_PIECE_SECONDS", 0.3)
    begin = protocol.pack("run", {}, 128 << 20) + bytes(1 << 20)
    feeder = threading.Thread(target=ours._socket.sendall, args=(begin,))
    feeder.start()
    with pytest.raises(ConnectionLostError, match="silent"):
        theirs.receive(seconds=10, max_body=128 << 20)
    feeder.join(10)


def test_a_body_that_trickles_ends_too(pair, monkeypatch):
    ours, theirs = pair
    monkeypatch.setattr(channels, "_PIECE_SECONDS", 0.3)
    ended = threading.Event()

    def trickle() -> None:
        ours._socket.sendall(protocol.pack("run", {}, 1 << 20))
        while not ended.wait(0.02):
            ours._socket.sendall(b"x")

    feeder = threading.Thread(target=trickle)
    feeder.start()
    try:
        with pytest.raises(ConnectionLostError, match="silent"):
            theirs.receive(seconds=10, max_body=1 << 20)
    finally:
        ended.set()
        feeder.join(10)


def test_a_channels_own_deadline_holds_over_all_messages(pair):
    ours, theirs = socket.socketpair()
    channel = Channel(theirs, seconds=0.5)
    with pytest.raises(ConnectionLostError, match="silent"):  # noqa: PT012  (which one is open)
        for _ in range(100_000):
            ours.sendall(MESSAGE)
            channel.receive(seconds=60, max_body=100)
            time.sleep(0.01)
    channel.close()
    ours.close()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1" * 400, "at most 20 digits, not 400"),
        ("-" + "1" * 21, "at most 20 digits"),
        ("1e999", "those of a double"),
        ("0." + "1" * 400, "those of a double"),
        ("NaN", "must be finite, not 'NaN'"),
        ("-Infinity", "must be finite"),
        ("[" * 9 + "]" * 9, "at most 8 levels"),
        ('{"a":' * 9 + "1" + "}" * 9, "at most 8 levels"),
    ],
)
def test_numbers_and_depths_that_no_message_has_are_refused(text, message):
    with pytest.raises(ProtocolError, match=message):
        protocol.read_header(b'{"kind": "lease", "wait_seconds": ' + text.encode() + b"}")


@pytest.mark.parametrize("value", [10**400, -(10**400), float("nan"), float("inf"), "1", True])
def test_a_number_beyond_every_double_is_out_of_range(value):
    with pytest.raises(ProtocolError, match="message k: v"):
        Message(kind="k", fields={"v": value}).number("v", 0, 9)


@pytest.mark.parametrize("kind", ["", "Run", "run\n", "\x1b[2J", "x" * 17, "\u202erun"])
def test_kinds_are_small_letters(kind):
    with pytest.raises(ProtocolError) as caught:
        protocol.read_header(json.dumps({"kind": kind}).encode())
    assert str(caught.value).isprintable()


def test_texts_of_a_message_cannot_steer_a_terminal():
    header = json.dumps({"kind": "bye", "a\x1b": ["\x1b[2J", {"\u202e": "\x9b\n"}]}).encode()
    _, fields = protocol.read_header(header)
    assert fields == {r"a\x1b": [r"\x1b[2J", {r"\u202e": r"\x9b\n"}]}


GETTERS = {
    "integer": lambda m: m.integer("v", 0, 9),
    "number": lambda m: m.number("v", 0, 9),
    "text": lambda m: m.text("v"),
    "mapping": lambda m: m.mapping("v"),
    "hexadecimal": lambda m: m.hexadecimal("v", 2).hex(),
}


@pytest.mark.parametrize(
    ("getter", "good", "bad"),
    [
        ("integer", [0, 9], [-1, 10, True, 1.0, "1", None, [1]]),
        ("number", [0, 8.5], [-1, 9.1, True, "1", None, float("nan"), float("inf")]),
        ("text", ["", "a"], [1, None, ["a"], "a" * 4097]),
        ("hexadecimal", ["00ff"], ["", "00f", "00FF", "00ff00", "00ff\n", " 0ff", 1, None]),
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


# -- An error that crossed the network is the error that was raised
CLASSES = [k for k in vars(errors).values() if isinstance(k, type) and issubclass(k, Exception)]
VALUES = (
    st.none() | st.booleans() | st.integers() | st.text() | st.tuples(st.integers()) | st.binary()
)


def travelled(error: TilewrightError) -> TilewrightError:
    return decode_error(json.loads(json.dumps(encode_error(error))))


@given(
    kind=st.sampled_from(CLASSES), rule=st.text(), field=st.text(), value=VALUES, remedy=st.text()
)
def test_class_parts_and_text_stay(kind, rule, field, value, remedy):
    error = kind(rule, field=field, value=value, remedy=remedy)
    found = travelled(error)
    assert type(found) is kind
    assert str(found) == str(error)
    assert (found.rule, found.field, found.remedy) == (rule, field, remedy)


@given(
    code=st.sampled_from(list(ErrorCode)),
    unit=st.sampled_from(list(ErrorUnit)),
    instruction=st.integers(0, 2**32 - 1),
    waits=st.just(()) | st.tuples(*[st.sampled_from(list(WaitState))] * len(UNIT_NAMES)),
)
def test_every_part_of_an_error_status_stays(code, unit, instruction, waits):
    error = DeviceStatusError(code=code, unit=unit, instruction=instruction, wait_states=waits)
    found = travelled(error)
    assert isinstance(found, DeviceStatusError)
    assert (found.code, found.unit, found.instruction, found.wait_states) == (
        code,
        unit,
        instruction,
        waits,
    )
    assert str(found) == str(error)


def test_a_class_that_clients_need_not_have_becomes_its_nearest_known_one():
    error = SimulationError(Status.RTL_STOPPED, "assertion")
    found = travelled(error)
    assert type(found) is DeviceError
    assert str(found) == str(error)


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"class": "OSError", "rule": "", "field": "", "value": None, "shown": None, "remedy": ""},
        {"class": ["a"]},
        {"class": "DeviceStatusError", "code": 99, "unit": 0, "instruction": 0, "wait_states": []},
        {"class": "DeviceStatusError", "code": 1, "unit": 0, "instruction": 0, "wait_states": 1},
        {"class": "DeviceError"},
    ],
)
def test_an_error_of_no_known_kind_is_shown(data):
    found = decode_error(data)
    assert type(found) is DeviceError
    assert "no known kind" in str(found)
