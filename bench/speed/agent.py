# SPDX-License-Identifier: Apache-2.0
"""What TLS costs between an agent and its client, on loopback, side by side in one run.

The agent is a process of its own, with a device that does nothing but change every byte of its
memory. Told, without and with TLS and as their ratio: bytes per second of runs whose image and
result differ in every page (each run sends the memory there and back), empty messages and their
answers per second, and connections per second, lease included.

    tilewright bench agent
"""

from __future__ import annotations

import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection

import numpy as np

from tilewright.bench.commands import AgentSettings
from tilewright.bench.framework.records import Cell, Row
from tilewright.bench.framework.study import Study
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.host.machine.program import Program, Region
from tilewright.host.machine.registers import COUNTERS
from tilewright.host.runtime.agent.client import RemoteDevice
from tilewright.host.runtime.agent.server import AgentServer
from tilewright.host.runtime.agent.tls import make_identity
from tilewright.host.runtime.device import Bytes, Counters, RunResult

TOKEN = b"a secret of the bench"
HW = load_hwconfig("tiny-4x4")
_MESSAGES = 500
_CONNECTIONS = 30


class ChangingDevice:
    """Changes every byte of a memory."""

    @property
    def hw(self) -> HwConfig:
        """A small one."""
        return HW

    def run(self, _program: Program, memory: Bytes, *, max_cycles: int = 0) -> RunResult:
        """Every byte with its lowest bit turned."""
        counters = Counters(values={name: max_cycles for name, _ in COUNTERS})
        return RunResult(memory=memory ^ np.uint8(1), counters=counters, host_seconds=0.0)

    def close(self) -> None:
        """Nothing is held."""


def serve(secure: bool, pipe: Connection) -> None:
    """Serve until the process is ended; says where."""
    server = AgentServer(
        ChangingDevice(),
        listen="127.0.0.1:0",
        token=TOKEN,
        identity=make_identity() if secure else None,
    )
    pipe.send(server.address)
    server.serve()


def blank_program(nbytes: int) -> Program:
    """A program of no instruction, with a memory of a size."""
    return Program(
        config_hash=HW.config_hash,
        instructions=b"",
        regions={"insn": Region(offset=0, nbytes=0)},
        constants={},
        memory_bytes=nbytes,
    )


def per_second(count: float, action: Callable[[], object]) -> float:
    """How many of something an action does in a second."""
    started = time.perf_counter()
    action()
    return count / (time.perf_counter() - started)


def repeat(count: int, action: Callable[[], None]) -> None:
    """Do something so many times."""
    for _ in range(count):
        action()


def measure(
    device: RemoteDevice, connect: Callable[[], RemoteDevice], mib: int
) -> dict[str, float]:
    """One sample of every figure; the device is given back."""
    program = blank_program(mib << 20)
    image = np.ones(program.memory_bytes, dtype=np.uint8)
    device.run(program, image)
    found = {
        "bytes": per_second(2.0 * image.size, lambda: device.run(program, image)),
        "messages": per_second(_MESSAGES, lambda: repeat(_MESSAGES, device.beat)),
    }
    device.close()
    found["connections"] = per_second(
        _CONNECTIONS, lambda: repeat(_CONNECTIONS, lambda: connect().close())
    )
    return found


def samples_of(settings: AgentSettings) -> dict[str, list[dict[str, float]]]:
    """Samples without and with TLS, in turns; each agent is a process of its own."""
    addresses, processes = {}, []
    for kind in ("plain", "tls"):
        ours, theirs = multiprocessing.Pipe()
        processes.append(multiprocessing.Process(target=serve, args=(kind == "tls", theirs)))
        processes[-1].start()
        addresses[kind] = ours.recv()
    samples: dict[str, list[dict[str, float]]] = {kind: [] for kind in addresses}
    try:
        for _ in range(settings.repeats):
            for kind, address in addresses.items():

                def connect(address: str = address, kind: str = kind) -> RemoteDevice:
                    return RemoteDevice(address, TOKEN, wait_seconds=30, plain=kind == "plain")

                samples[kind].append(measure(connect(), connect, settings.mib))
    finally:
        for process in processes:
            process.terminate()
    return samples


class AgentSpeed(Study):
    """Figures without and with TLS."""

    def measure(self, cell: Cell) -> Iterator[Row]:
        del cell
        samples = samples_of(self.settings)
        for name, unit, scale in (
            ("bytes", "MB/s", 1e6), ("messages", "messages/s", 1),
            ("connections", "connections/s", 1),
        ):  # fmt: skip
            values = {kind: sorted(s[name] / scale for s in of) for kind, of in samples.items()}
            median = {kind: statistics.median(found) for kind, found in values.items()}
            yield {
                "figure": name,
                "unit": unit,
                "samples": values,
                "median": median,
                "plain_per_tls": median["plain"] / median["tls"],
            }

    def conditions(self) -> Row:
        return {"mib": self.settings.mib, "repeats": self.settings.repeats}

    def line(self, row: Row) -> str:
        median = row["median"]
        spread = ", ".join(
            f"{kind} {median[kind]:.0f} ({values[0]:.0f} to {values[-1]:.0f})"
            for kind, values in row["samples"].items()
        )
        return f"{row['unit']}: {spread}; TLS takes {row['plain_per_tls']:.2f} times as long"
