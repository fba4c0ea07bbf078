# SPDX-License-Identifier: Apache-2.0
"""An agent and its clients in one process: secrets, leases, limits, and sides that misbehave."""

import gc
import os
import random
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
    TINY,
    TOKEN,
    SlowDevice,
    answered,
    dial,
    impostor,
    left,
    member,
    pack_prefix,
    remote_device,
    serving,
    works,
)

from tilewright.host.common.errors import ConfigError, DeviceError, ProgramError
from tilewright.host.machine.program import Program
from tilewright.host.machine.registers import COUNTERS
from tilewright.host.runtime.agent import authentication, client, server, session
from tilewright.host.runtime.agent.address import resolve
from tilewright.host.runtime.agent.authentication import AuthenticationError, read_token
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.client import RemoteDevice
from tilewright.host.runtime.agent.images import describe, digest
from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.protocol import ConnectionLostError, ProtocolError, pack
from tilewright.host.runtime.agent.server import AgentServer
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.testing.device_contract import build, data_image, legal_steps

# -- the secret -----------------------------------------------------------------------------


def test_a_wrong_token_is_refused_and_the_right_one_works(monkeypatch):
    monkeypatch.setattr(authentication, "_REFUSAL_PAUSE", 0.01)
    with serving() as address:
        with pytest.raises(AuthenticationError, match="refuses the token"):
            RemoteDevice(address, TOKEN[:-1] + b"x", plain=True)
        works(address)


@pytest.mark.parametrize(
    "answer",
    [lambda proof: "00" * 32, lambda proof: proof.fields["mac"]],
    ids=["guess", "reflection"],
)
def test_an_agent_that_does_not_know_the_token_is_found_out(answer):
    heard = []

    def converse(channel: Channel) -> None:
        channel.receive(seconds=10).expect("hello")
        channel.send("challenge", nonce="00" * 32)
        proof = channel.receive(seconds=10)
        heard.append(str(proof.fields).encode())
        channel.send("welcome", mac=answer(proof), hw={}, limits={})

    with (
        impostor(converse) as address,
        pytest.raises(AuthenticationError, match="agent must know the token"),
    ):
        remote_device(address)
    assert TOKEN not in heard[0]
    assert TOKEN.hex().encode() not in heard[0]


def test_a_proof_that_was_overheard_opens_no_other_connection(monkeypatch):
    monkeypatch.setattr(authentication, "_REFUSAL_PAUSE", 0.01)
    heard = {}
    send = Channel.send

    def listen_in(channel, kind, body=(), /, **fields):
        heard.setdefault(kind, fields)
        send(channel, kind, body, **fields)

    with serving() as address:
        with monkeypatch.context() as patched:
            patched.setattr(Channel, "send", listen_in)
            works(address)
        replay = Channel(dial(address))
        replay.send("hello", **heard["hello"])
        replay.receive(seconds=10).expect("challenge")
        replay.send("proof", **heard["proof"])
        assert replay.receive(seconds=10).kind == "refused"
        replay.close()


@pytest.mark.parametrize(
    ("content", "mode", "message"),
    [
        (b"short", 0o600, "16 to 4096 bytes, not 5"),
        (b"x" * 5000, 0o600, "at most 4096 bytes"),
        (b"x" * 16, 0o600, "must be random: 6 or more different"),
        (b"abcde" * 4 + b"a", 0o600, "must be random"),
        (b"abcdefgh" * 8, 0o600, "must be random.*again and again.*openssl rand"),
        (b"x" * 20, 0o644, "only its owner may read.*644.*chmod 600"),
        (None, 0, "cannot be read.*openssl rand"),
    ],
)
def test_token_files_that_cannot_be_used(tmp_path, content, mode, message):
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)
        path.chmod(mode)
    with pytest.raises(ConfigError, match=message):
        read_token(path)


def test_a_token_of_another_user_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "token"
    path.write_bytes(TOKEN)
    path.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(path, 54321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(ConfigError, match=r"must belong to you or to root.*chown"):
        read_token(path)


def test_white_space_around_a_token_does_not_count(tmp_path):
    path = tmp_path / "token"
    path.write_bytes(b"  " + TOKEN + b"\r\n")
    path.chmod(0o600)
    assert read_token(path) == TOKEN


# -- leases ---------------------------------------------------------------------------------


def test_the_scratchpads_are_cleared_for_each_client():
    device = SlowDevice()
    with serving(device) as address:
        for clients in (1, 2):
            client = remote_device(address, wait_seconds=10)
            client.run(PROGRAM, IMAGE)
            client.run(PROGRAM, IMAGE)
            client.close()
            assert device.scrubs == clients


def test_a_device_that_cannot_be_cleared_is_given_to_nobody(monkeypatch):
    def fail(device):
        raise DeviceError("it does not answer", field="device")

    with serving() as address:
        with monkeypatch.context() as patch:
            patch.setattr(session, "scrub", fail)
            with pytest.raises(DeviceError, match="it does not answer"):
                remote_device(address)
        remote_device(address, wait_seconds=10).close()


def test_a_client_that_sends_on_gets_no_lease_and_costs_no_scrub():
    device = SlowDevice()
    with serving(device) as address:
        hasty = member(address, leased=False)
        hasty._socket.sendall(pack("lease", {"wait_seconds": 0}, 0) + pack("ping", {}, 0))
        assert "must wait for the answer" in hasty.receive(seconds=10).text("reason")
        hasty.close()
        assert device.scrubs == 0
        works(address, wait_seconds=10)


def test_a_silent_client_loses_the_device():
    with serving(lease_seconds=0.3) as address:
        silent = member(address)
        works(address, wait_seconds=10)
        assert left(silent)
        silent.close()


def test_an_idle_client_keeps_the_device():
    with serving(lease_seconds=1.0) as address:
        device = remote_device(address)
        time.sleep(2.5)
        with pytest.raises(DeviceError, match="must be free"):
            remote_device(address)
        assert np.array_equal(device.run(PROGRAM, IMAGE).memory, EXPECTED)
        device.close()


def test_a_client_that_is_forgotten_gives_the_device_back():
    with serving() as address:
        device = remote_device(address)
        del device
        gc.collect()
        works(address, wait_seconds=10)


def test_a_client_that_lost_its_lease_gets_it_again_with_the_next_run(monkeypatch):
    monkeypatch.setattr(client, "_BEATS_A_LEASE", 0.01)  # the heart does not beat in this test
    with serving(lease_seconds=1.0) as address:
        device = remote_device(address)
        device.run(PROGRAM, IMAGE)
        time.sleep(2)
        with pytest.raises(ConnectionLostError, match="run again: it connects anew"):
            device.run(PROGRAM, IMAGE)
        assert np.array_equal(device.run(PROGRAM, IMAGE).memory, EXPECTED)
        device.close()


# -- sides that go away ---------------------------------------------------------------------


def start_slow_run(address: str, device: SlowDevice) -> Channel:
    device.slow = True
    channel = member(address)
    fields, body = describe(PROGRAM)
    name = digest(fields, body)
    channel.send("load", body, digest=name, **fields)
    assert channel.receive(seconds=5).kind == "loaded"
    channel.send("run", [bytes(4)], digest=name, max_cycles=0, trial="ab" * 16)
    assert device.running.wait(10)
    return channel


def test_a_run_of_a_client_that_vanished_is_given_up_and_the_next_client_works():
    device = SlowDevice()
    with serving(device) as address:
        start_slow_run(address, device).close()
        assert device.given_up.wait(10)
        device.slow = False
        works(address, wait_seconds=10)


def test_a_client_that_resets_the_connection_in_a_run_harms_nobody():
    device = SlowDevice()
    with serving(device) as address:
        channel = start_slow_run(address, device)
        channel._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        channel._socket.close()
        assert device.given_up.wait(10)
        device.slow = False
        works(address, wait_seconds=10)


def test_an_interrupted_client_can_run_again(monkeypatch):
    device = SlowDevice()
    with serving(device) as address:
        remote = remote_device(address, wait_seconds=10)
        device.slow = True

        def interrupt(*_arguments, **_options):
            assert device.running.wait(10)
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(RemoteDevice, "_ask_run", ask_and(interrupt))
            with pytest.raises(KeyboardInterrupt):
                remote.run(PROGRAM, IMAGE)
        assert device.given_up.wait(10)
        device.slow = False
        assert np.array_equal(remote.run(PROGRAM, IMAGE).memory, EXPECTED)
        remote.close()


def ask_and(interrupt):
    def ask(self, channel, request, pages, program):
        channel.send("run", pages, **request)
        return interrupt()

    return ask


def test_an_agent_that_stops_in_a_run_is_an_error_and_its_successor_is_found():
    device = SlowDevice()
    errors = []
    with serving(device) as address:
        remote = remote_device(address)
        device.slow = True

        def run() -> None:
            try:
                remote.run(PROGRAM, IMAGE)
            except DeviceError as error:
                errors.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        assert device.running.wait(10)
    thread.join(10)
    assert [type(error) for error in errors] == [ConnectionLostError]
    assert device.given_up.is_set()
    with pytest.raises(DeviceError, match="no agent answers"):
        remote.run(PROGRAM, IMAGE)
    with serving(listen=address):
        assert np.array_equal(remote.run(PROGRAM, IMAGE).memory, EXPECTED)
        remote.close()
    with pytest.raises(DeviceError, match="closed"):
        remote.run(PROGRAM, IMAGE)


def test_a_defect_of_the_device_is_an_error_and_the_session_goes_on():
    device = SlowDevice()
    with serving(device) as address:
        remote = remote_device(address)
        device.broken = True
        with pytest.raises(DeviceError, match=r"agent could not do it.*its log has the reason"):
            remote.run(PROGRAM, IMAGE)
        device.broken = False
        assert np.array_equal(remote.run(PROGRAM, IMAGE).memory, EXPECTED)
        remote.close()


# -- noise and silence ----------------------------------------------------------------------


def test_noise_on_the_socket_harms_nobody():
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  (pytest shows it when the test fails)
    rng = random.Random(seed)
    with serving() as address:
        for _ in range(30):
            connection = dial(address)
            noise = rng.randbytes(rng.randrange(200))
            connection.sendall(rng.choice([b"", pack_prefix(rng.randrange(60), 0)]) + noise)
            connection.close()
        works(address, wait_seconds=10)


def test_noise_of_a_client_that_knows_the_token_ends_its_session_alone():
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")  # noqa: T201  (pytest shows it when the test fails)
    rng = random.Random(seed)
    kinds = ["run", "load", "lease", "ping", "leave", "nothing"]
    fields, body = describe(PROGRAM)
    with serving() as address:
        for _ in range(30):
            channel = member(address)
            given = {k: rng.choice([v, None, -1, "x", [], {}]) for k, v in fields.items()}
            given["digest"] = rng.choice(["aa" * 32, "a", 3, None])
            channel.send(rng.choice(kinds), rng.choice([body, [b"noise"], []]), **given)
            assert answered(channel), given
            channel.close()
        works(address, wait_seconds=10)


def test_a_connection_that_says_nothing_is_closed(monkeypatch):
    monkeypatch.setattr(server, "HANDSHAKE_SECONDS", 0.2)
    with serving(connections=1) as address:
        silent = Channel(dial(address))
        assert "silent" in silent.receive(seconds=10).text("reason")
        silent.close()
        monkeypatch.undo()
        works(address)


def test_before_the_token_is_proven_no_large_message_is_read():
    with serving() as address:
        channel = Channel(dial(address))
        channel._socket.sendall(pack_prefix(1 << 17, 0))
        assert left(channel)
        channel.close()


def test_more_clients_than_allowed_are_told_so():
    with serving(connections=2) as address:
        held = [remote_device(address), member(address, leased=False)]
        with pytest.raises(DeviceError, match=r"as many clients as it may.*--max-connections"):
            remote_device(address)
        for each in held:
            each.close()
        works(address, wait_seconds=10)


def test_a_client_that_may_wait_waits_for_a_place_too():
    with serving(connections=1) as address:
        threading.Timer(0.5, remote_device(address).close).start()
        works(address, wait_seconds=20)


# -- limits and traffic ---------------------------------------------------------------------


def test_a_program_beyond_the_limits_is_refused_by_the_client_and_the_session_goes_on():
    small = Limits(program_bytes=4096, memory_bytes=PROGRAM.memory_bytes)
    with serving(**small.to_mapping()) as address:
        remote = remote_device(address)
        many = build(TINY, *[legal_steps(TINY)["inp"]] * 200)
        with pytest.raises(ProgramError, match=r"at most 4096 bytes.*--max-program-mib"):
            remote.run(many, many.image())
        large = Program(**{**vars(PROGRAM), "memory_bytes": PROGRAM.memory_bytes + 4096})
        with pytest.raises(ProgramError, match=r"memory must have at most.*--max-memory-mib"):
            remote.run(large, large.image())
        with pytest.raises(DeviceError, match="must be free"):
            remote_device(address)
        assert np.array_equal(remote.run(PROGRAM, IMAGE).memory, EXPECTED)
        remote.close()


def test_the_agent_itself_keeps_the_limits():
    with serving(program_bytes=4096, memory_bytes=1 << 20) as address:
        channel = member(address)
        fields, body = describe(PROGRAM)
        channel.send("load", body, digest="aa" * 32, **{**fields, "memory_bytes": 1 << 39})
        answer = channel.receive(seconds=5)
        assert answer.kind == "error"
        assert "memory must have at most 1048576 bytes" in answer.fields["rule"]
        channel._socket.sendall(pack_prefix(2, 1 << 32))
        answer = channel.receive(seconds=5)
        assert (answer.kind, "must be at most" in answer.fields["reason"]) == ("bye", True)
        channel.close()
        works(address, wait_seconds=5)


def test_a_program_of_another_configuration_is_refused_by_both_sides():
    other = Program(**{**vars(PROGRAM), "config_hash": PROGRAM.config_hash ^ 1})
    with serving() as address:
        remote = remote_device(address)
        with pytest.raises(ProgramError, match="built for configuration"):
            remote.run(other, IMAGE)
        remote.close()
        channel = member(address)
        fields, body = describe(other)
        channel.send("load", body, digest="aa" * 32, **fields)
        assert channel.receive(seconds=5).fields["class"] == "ProgramError"
        channel.close()


def sent_bytes(monkeypatch) -> list[tuple[str, int]]:
    """Kinds and bodies of the messages that are sent from now on."""
    found, send = [], Channel.send

    def count(channel, kind, body=(), /, **fields):
        found.append((kind, sum(len(part) for part in body)))
        send(channel, kind, body, **fields)

    monkeypatch.setattr(Channel, "send", count)
    return found


def test_constants_travel_once_and_then_only_pages_that_differ(monkeypatch):
    with serving() as address:
        remote = remote_device(address)
        blank = PROGRAM.image()
        expected = ReferenceDevice(TINY).run(PROGRAM, blank).memory
        messages = sent_bytes(monkeypatch)
        for _ in range(3):
            assert np.array_equal(remote.run(PROGRAM, blank).memory, expected)
        kinds = [kind for kind, _ in messages if kind != "pong"]
        assert kinds == ["load", "loaded", "run", "ran", "run", "ran", "run", "ran"]
        sizes = dict(messages)
        assert sizes["load"] == len(PROGRAM.instructions) + 64
        assert sizes["run"] == 4, "the image is that of the program"
        assert sizes["ran"] <= 2 * 4096, "one tile was stored"
        remote.close()


def test_a_program_that_the_agent_forgot_is_sent_again(monkeypatch):
    other = build(TINY, *legal_steps(TINY).values(), legal_steps(TINY)["uop"])
    size = len(other.instructions) + 64
    with serving(program_bytes=size) as address:
        remote = remote_device(address)
        messages = sent_bytes(monkeypatch)
        for program in (PROGRAM, other, PROGRAM):
            expected = ReferenceDevice(TINY).run(program, data_image(program)).memory
            assert np.array_equal(remote.run(program, data_image(program)).memory, expected)
        assert [kind for kind, _ in messages].count("load") == 3
        assert [kind for kind, _ in messages].count("unknown") == 1
        remote.close()


def test_cycles_are_capped_for_devices_that_know_no_seconds():
    device = SlowDevice()
    with serving(device, max_cycles=100) as address:
        remote = remote_device(address)
        for wanted in (0, 50, 1000):
            remote.run(PROGRAM, IMAGE, max_cycles=wanted)
        remote.close()
    with serving(device) as address:
        remote = remote_device(address)
        remote.run(PROGRAM, IMAGE, max_cycles=7)
        remote.close()
    assert device.limits == [100, 50, 100, 7]


# -- an agent that lies ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "fields", "body"),
    [
        ("what", {}, b""),
        ("ran", {}, b""),
        ("ran", {"counters": {}, "seconds": 1}, bytes(4)),
        ("ran", {"counters": [], "seconds": 1}, bytes(4)),
        ("ran", {"counters": {name: -1 for name, _ in COUNTERS}, "seconds": 1}, bytes(4)),
        ("ran", {"counters": {}, "seconds": 1}, b"noise"),
    ],
)
def test_an_answer_that_is_none_ends_the_connection(monkeypatch, kind, fields, body):
    with serving() as address:
        remote = remote_device(address)
        with monkeypatch.context() as patched:
            patched.setattr(
                session.Session, "_run", lambda self, _: self._channel.send(kind, [body], **fields)
            )
            with pytest.raises(ProtocolError):
                remote.run(PROGRAM, IMAGE)
        deadline = time.monotonic() + 10
        while True:
            try:
                found = remote.run(PROGRAM, IMAGE)
                break
            except DeviceError:
                assert time.monotonic() < deadline
        assert np.array_equal(found.memory, EXPECTED)
        remote.close()


# -- addresses ------------------------------------------------------------------------------


def test_an_ipv6_address_stands_in_brackets():
    family, address = resolve("[::1]:7425", field="agent")
    assert (family, address[:2]) == (socket.AF_INET6, ("::1", 7425))


def test_an_address_that_is_taken_is_one_error():
    with serving() as address, pytest.raises(ConfigError, match="cannot be listened at"):
        AgentServer(SlowDevice(), listen=address, token=TOKEN, identity=None)
