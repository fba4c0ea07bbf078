# SPDX-License-Identifier: Apache-2.0
"""An agent that ends, politely or not: no result that it has is lost, and everybody is told."""

import json
import random
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from contextlib import contextmanager
from itertools import starmap
from pathlib import Path

import numpy as np
import pytest
from support.boards import agents
from support.randomness import fresh_rng, often

from tilewright.host.common.errors import DeviceError
from tilewright.host.runtime.agent.protocol import ConnectionLostError
from tilewright.host.runtime.agent.server import AgentServer

SCRIPT = Path(__file__).resolve().parents[4] / "support" / "boards" / "mortal_agent.py"


class Held(agents.SlowDevice):
    """Its runs end when they are let go."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Event()

    def run_client(self, program, memory, *, max_cycles):
        self.running.set()
        assert self.go.wait(60)
        return super().run_client(program, memory, max_cycles=max_cycles)


@contextmanager
def in_thread(action):
    thread = threading.Thread(target=action)
    thread.start()
    yield
    thread.join(60)
    assert not thread.is_alive()


def served(device):
    server = AgentServer(device, listen="127.0.0.1:0", token=agents.TOKEN, identity=None)
    threading.Thread(target=server.serve, daemon=True).start()
    return server


def test_a_run_under_way_ends_its_client_has_the_result_and_those_who_wait_are_told():
    device, results, told = Held(), [], []
    server = served(device)
    address, idle = server.address, threading.Event()
    holder = agents.remote_device(address)

    def wait_for_it() -> None:
        idle.set()
        with pytest.raises(ConnectionLostError, match="the agent is shutting down") as error:
            agents.remote_device(address, wait_seconds=60)
        told.append(error.value)

    def run() -> None:
        results.append(holder.run(agents.PROGRAM, agents.IMAGE).memory)

    with in_thread(run):
        assert device.running.wait(20)
        with in_thread(wait_for_it):
            assert idle.wait(20)
            while not server.status().waiting:
                pass
            with in_thread(lambda: server.stop(grace_seconds=60)):
                while not told:
                    pass
                assert not results, "the run is under way"
                device.go.set()
    assert np.array_equal(results[0], agents.EXPECTED)
    with pytest.raises(DeviceError, match=r"shutting down|closed the connection|no agent answers"):
        holder.run(agents.PROGRAM, agents.IMAGE)
    with pytest.raises(DeviceError, match="no agent answers"):
        agents.remote_device(address)
    holder.close()


def test_a_run_that_does_not_end_in_the_grace_is_given_up():
    device = agents.SlowDevice()
    device.slow = True
    server = served(device)
    holder = agents.remote_device(server.address)

    def run() -> None:
        with pytest.raises(DeviceError):
            holder.run(agents.PROGRAM, agents.IMAGE)

    with in_thread(run):
        assert device.running.wait(20)
        server.stop(grace_seconds=0.3)
        assert device.given_up.is_set()
    holder.close()


def test_a_client_that_does_nothing_is_told_when_the_agent_ends():
    server = served(agents.SlowDevice())
    holder = agents.remote_device(server.address)
    server.stop(grace_seconds=60)
    with pytest.raises(ConnectionLostError):
        holder.run(agents.PROGRAM, agents.IMAGE)
    holder.close()


# -- as a process ---------------------------------------------------------------------------


class Agent:
    """An agent as a process that can be started again at the same address."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        with socket.create_server(("127.0.0.1", 0)) as taken:
            self.address = f"127.0.0.1:{taken.getsockname()[1]}"
        self.process: subprocess.Popen | None = None

    def start(self, point: str, seed: float = 0) -> None:
        with (self._folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, SCRIPT, self._folder, point, str(seed), self.address],
                stdout=subprocess.PIPE, stderr=log, text=True,
            )  # fmt: skip
        assert self.process.stdout.readline().startswith(agents.TINY.name)

    def end(self) -> int:
        self.process.terminate()
        return self.process.wait(60)

    def events(self, name: str) -> list[dict]:
        lines = (self._folder / "log").read_text().splitlines()
        return [event for event in map(json.loads, lines) if event["event"] == name]

    def runs(self) -> int:
        path = self._folder / "runs"
        return len(path.read_text().splitlines()) if path.exists() else 0


KILLED = [("running", 1), ("ended", 2), ("writing", 2), ("kept", 1), ("sending", 1)]
"""Points of a request, and runs that it then takes."""


@pytest.fixture
def agent(tmp_path):
    agent = Agent(tmp_path)
    yield agent
    agent.process.kill()
    agent.process.wait()
    agent.process.stdout.close()


@pytest.mark.parametrize(
    ("point", "runs"), often("points of a kill", starmap(pytest.param, KILLED), 2)
)
def test_a_killed_agents_successor_has_each_result_that_was_kept(agent, point, runs):
    agent.start(point)
    client = agents.remote_device(agent.address, wait_seconds=60)
    with pytest.raises(ConnectionLostError, match="asks whether this run has ended"):
        client.run(agents.PROGRAM, agents.IMAGE)
    agent.process.wait(60)
    agent.start("none")
    assert np.array_equal(client.run(agents.PROGRAM, agents.IMAGE).memory, agents.EXPECTED)
    assert agent.runs() == runs
    client.run(agents.PROGRAM, agents.IMAGE)
    assert agent.runs() == runs + 1, "a result that arrived is not given again"
    client.close()


@pytest.mark.slow
def test_kills_at_any_moment_lose_no_result_that_was_told_of(agent):
    rng = random.Random(int(fresh_rng().integers(2**63)))
    lost = 0
    agent.start("random", rng.random())
    client = agents.remote_device(agent.address, wait_seconds=60)
    while lost < 20:
        try:
            assert np.array_equal(client.run(agents.PROGRAM, agents.IMAGE).memory, agents.EXPECTED)
        except DeviceError:
            lost += 1
            agent.process.wait(60)
            agent.process.stdout.close()
            agent.start("random", rng.random())
    client.close()
    ended = Counter(e["trial"] for e in agent.events("trial") if e["outcome"] == "ok")
    assert ended
    assert max(ended.values()) == 1, "a trial that was told to have ended ran again"


def test_a_signal_lets_the_run_end_and_the_exit_code_is_0(agent):
    agent.start("slow")
    client = agents.remote_device(agent.address)
    results = []
    with in_thread(lambda: results.append(client.run(agents.PROGRAM, agents.IMAGE).memory)):
        assert agent.process.stdout.readline() == "runs\n"
        assert agent.end() == 0
    assert np.array_equal(results[0], agents.EXPECTED)
    assert [len(agent.events(name)) for name in ("stopping", "trial", "stopped")] == [1, 1, 1]
    agent.start("none")
    agents.works(agent.address)
    client.close()


def test_a_second_signal_does_not_wait_for_the_run(agent):
    agent.start("stuck")
    client = agents.remote_device(agent.address)

    def run() -> None:
        with pytest.raises(DeviceError):
            client.run(agents.PROGRAM, agents.IMAGE)

    with in_thread(run):
        assert agent.process.stdout.readline() == "runs\n"
        agent.process.send_signal(signal.SIGTERM)
        while not agent.events("stopping"):
            pass
        assert agent.end() == 0
    client.close()
