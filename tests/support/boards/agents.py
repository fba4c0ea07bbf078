# SPDX-License-Identifier: Apache-2.0
"""Agents in this process, and clients of every kind."""

import socket
import threading
from contextlib import contextmanager, suppress

import numpy as np

from tilewright.host.common.errors import DeviceError, TilewrightError
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.runtime.agent import protocol
from tilewright.host.runtime.agent.authentication import join
from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.client import RemoteDevice
from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.protocol import ConnectionLostError
from tilewright.host.runtime.agent.server import AgentServer
from tilewright.host.runtime.scrub import scrub_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.testing.device_contract import build, data_image, legal_steps

TINY = load_hwconfig("tiny-4x4")
TOKEN = b"0123456789abcdef"
PROGRAM = build(TINY, *legal_steps(TINY).values())
IMAGE = data_image(PROGRAM)
EXPECTED = ReferenceDevice(TINY).run(PROGRAM, IMAGE).memory


class SlowDevice(ReferenceDevice):
    """A reference that takes its time when told to, until it is given up; a scrub it just does."""

    def __init__(self) -> None:
        super().__init__(TINY)
        self.slow = False
        self.broken = False
        self.running = threading.Event()
        self.given_up = threading.Event()
        self.limits: list[int] = []
        self.together = 0
        self.scrubs = 0

    def run(self, program, memory, *, max_cycles=0):
        if program == scrub_program(TINY):
            self.scrubs += 1
            return super().run(program, memory)
        return self.run_client(program, memory, max_cycles=max_cycles)

    def run_client(self, program, memory, *, max_cycles):
        """A run of a program that a client sent."""
        self.limits.append(max_cycles)
        self.together += 1
        assert self.together == 1, "one run at a time"
        try:
            if self.broken:
                raise RuntimeError("a defect of the device")
            if self.slow:
                self.given_up.clear()
                self.running.set()
                assert self.given_up.wait(20), "nobody gave the run up"
                raise DeviceError("the run was given up", field="device")
            return super().run(program, memory)
        finally:
            self.together -= 1

    def give_up(self) -> None:
        self.given_up.set()


@contextmanager
def serving(
    device=None,
    listen="127.0.0.1:0",
    max_cycles=0,
    identity=None,
    board="",
    digest="",
    journal=None,
    **limits,
):
    """An agent, without TLS if it is given no identity; its address."""
    server = AgentServer(
        device or SlowDevice(),
        listen=listen,
        token=TOKEN,
        identity=identity,
        limits=Limits(**limits),
        max_cycles=max_cycles,
        board=board,
        digest=digest,
        journal=journal,
    )
    thread = threading.Thread(target=server.serve)
    thread.start()
    try:
        yield server.address
    finally:
        server.stop()
        thread.join(10)
        assert not thread.is_alive()


def remote_device(address: str, **options) -> RemoteDevice:
    """A client of an agent without TLS."""
    return RemoteDevice(address, TOKEN, **{"plain": True, **options})


def works(address: str, **options) -> None:
    """A client gets the device, when the one before has given it back, and the right result."""
    device = remote_device(address, **{"wait_seconds": 60, **options})
    try:
        assert np.array_equal(device.run(PROGRAM, IMAGE).memory, EXPECTED)
    finally:
        device.close()


@contextmanager
def impostor(converse):
    """The address of somebody who converses with one client, on a channel, in place of an agent."""

    def serve() -> None:
        with suppress(TilewrightError, OSError):
            channel = Channel(listener.accept()[0], seconds=20)
            try:
                converse(channel)
            finally:
                channel.close()

    listener = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=serve)
    thread.start()
    address = f"127.0.0.1:{listener.getsockname()[1]}"
    try:
        yield address
    finally:
        with suppress(OSError):
            dial(address).close()  # if no client came
        thread.join(30)
        listener.close()


def dial(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def member(address: str, *, leased: bool = True, identity=None) -> Channel:
    """A client that knows the token and does what it likes."""
    channel = Channel(dial(address))
    if identity is not None:
        channel.start_tls()
    join(channel, TOKEN)
    if leased:
        channel.send("lease", wait_seconds=5)
        assert channel.receive(seconds=10).kind == "leased"
    return channel


def pack_prefix(header: int, body: int, *, version: int = protocol.PROTOCOL_VERSION) -> bytes:
    """The prefix of a message that announces so many bytes."""
    return protocol._PREFIX.pack(protocol._MAGIC, version, header, body)


def left(channel: Channel) -> bool:
    """Whether the agent ends the connection."""
    try:
        return channel.receive(seconds=10).kind == "bye"
    except ConnectionLostError as error:
        return "silent" not in str(error)


def answered(channel: Channel) -> bool:
    """Whether the agent says anything or ends the connection."""
    try:
        channel.receive(seconds=10, max_body=1 << 20)
    except ConnectionLostError as error:
        return "silent" not in str(error)
    return True
