# SPDX-License-Identifier: Apache-2.0
"""An agent as a process that kills itself at a point of a run, or takes its time for one."""

import os
import random
import signal
import sys
import threading
import time
from pathlib import Path
from typing import NoReturn

sys.path.insert(0, str(Path(__file__).parents[2]))

from support.boards.agents import TOKEN, SlowDevice

from tilewright.host.runtime.agent.channel import Channel
from tilewright.host.runtime.agent.journal import Journal
from tilewright.host.runtime.agent.limits import Limits
from tilewright.host.runtime.agent.serving import Belongings, serve_device
from tilewright.host.runtime.agent.session import Session

POINTS = ("running", "ended", "writing", "kept", "sending")


class Device(SlowDevice):
    """Notes each run of a client's program that ended."""

    def run_client(self, program, memory, *, max_cycles):
        if point == "running":
            die()
        print("runs", flush=True)  # noqa: T201  (the test waits for it)
        if point == "slow":
            time.sleep(1.0)
        self.slow = point == "stuck"
        result = super().run_client(program, memory, max_cycles=max_cycles)
        with (folder / "runs").open("a") as file:
            file.write("run\n")
        return result


def die(*_arguments, **_options) -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError


def send_half(self, trial, fields, pages) -> NoReturn:
    """Some of an answer, and no more."""
    self._channel._socket.sendall(b"TWAG\0")
    die()


def die_later() -> None:
    time.sleep(random.Random(float(sys.argv[3])).uniform(0.0, 0.3))
    die()


folder, point = Path(sys.argv[1]), sys.argv[2]
if point == "ended":
    Journal.keep = die
elif point == "writing":
    Path.replace = die
elif point == "kept":
    Session._deliver = die
elif point == "sending":
    Session._deliver = send_half
elif point == "random":
    received, first = Channel.receive, threading.Event()

    def receive(self, **most):
        message = received(self, **most)
        if message.kind == "load" and not first.is_set():
            first.set()
            threading.Thread(target=die_later, daemon=True).start()
        return message

    Channel.receive = receive
serve_device(
    Device(),
    listen=sys.argv[4],
    belongings=Belongings(token=TOKEN, identity=None, journal=Journal(folder / "journal")),
    limits=Limits(),
    log="json",
    grace_seconds=60.0,
)
