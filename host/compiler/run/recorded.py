# SPDX-License-Identifier: Apache-2.0
"""Inferences as a reference device ran them: each program with its memory before and after.

Several cores run programs at the same time, but the CPU part of a network asks for one after
another. So a reference runs the network first, and a system then runs the same programs on the same
memories. Its results must be those of the reference to the byte, so what each program is given is
what the system itself would have given it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from tilewright.host.compiler.pack.artefact import CompiledNetwork
from tilewright.host.compiler.run.network_runner import Array
from tilewright.host.compiler.run.runtime import open_network
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.program import Program
from tilewright.host.runtime.device import Bytes, Device, RunResult


@dataclass(frozen=True, kw_only=True, eq=False)
class RecordedRun:
    """A program and its memory, before and after it ran."""

    program: Program
    before: Bytes
    after: Bytes


@dataclass(frozen=True, kw_only=True, eq=False)
class Frame:
    """One inference of a network."""

    runs: tuple[RecordedRun, ...]  # its programs in order
    outputs: Mapping[str, Array]  # of the network, by name; empty: it was not run
    cpu_seconds: float | None  # in operators on the CPU of this machine; None: it was not run


class Recorder:
    """A device that keeps what it ran."""

    def __init__(self, device: Device) -> None:
        self._device: Final = device
        self.runs: list[RecordedRun] = []

    @property
    def hw(self) -> HwConfig:
        """Of the device that runs."""
        return self._device.hw

    def run(self, program: Program, memory: Bytes, *, max_cycles: int = 0) -> RunResult:
        """See `Device.run`."""
        result = self._device.run(program, memory, max_cycles=max_cycles)
        self.runs.append(RecordedRun(program=program, before=memory.copy(), after=result.memory))
        return result

    def close(self) -> None:
        """Nothing: the device is the caller's."""


def record(
    network: CompiledNetwork,
    reference: Device,
    inputs: Iterable[Mapping[str, Array]],
    *,
    trusted: bool = False,
) -> list[Frame]:
    """Run a network on a reference, once per set of inputs."""
    recorder = Recorder(reference)
    frames = []
    with open_network(network, recorder, trusted=trusted) as runner:
        for one in inputs:
            recorder.runs = []
            run = runner.run(one)
            frames.append(
                Frame(runs=tuple(recorder.runs), outputs=run.outputs, cpu_seconds=run.cpu_seconds)
            )
    return frames


def blank_frame(network: CompiledNetwork) -> Frame:
    """The programs of an inference without data, for devices that count cycles alone."""
    runs = []
    for each in network.programs:
        memory = each.program.image()
        runs.append(RecordedRun(program=each.program, before=memory, after=memory))
    return Frame(runs=tuple(runs), outputs={}, cpu_seconds=None)
