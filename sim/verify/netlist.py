# SPDX-License-Identifier: Apache-2.0
"""Simulate the netlist of a configuration and compare it with the reference on random programs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.host.common.errors import DeviceError
from tilewright.host.common.names import counted
from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verilator.device import VerilatorDevice

_INSTRUCTIONS = 60
"""Most random instructions in a program."""
_MAX_CYCLES = 2_000_000


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A program that did not end on the netlist as on the reference."""

    program: int  # its number, from 0
    text: str  # the error of the device, or how many bytes of memory differ


def differences(
    hw: HwConfig,
    library: Path,
    rng: np.random.Generator,
    programs: int,
    *,
    done: Callable[[], None] = lambda: None,
) -> Iterator[Difference]:
    """Run random programs on a netlist."""
    with closing(VerilatorDevice(hw, load_memory("ideal"), library=library)) as device:
        for number in range(programs):
            if number:
                done()
            count = int(rng.integers(3, _INSTRUCTIONS))
            program, image = random_program(hw, rng, instructions=count)
            expected = ReferenceDevice(hw).run(program, image)
            try:
                run = device.run(program, image, max_cycles=_MAX_CYCLES)
            except DeviceError as error:
                yield Difference(program=number, text=str(error))
                continue
            wrong = int(np.count_nonzero(run.memory != expected.memory))
            if wrong:
                text = f"wrong in memory: {counted(wrong, 'byte')}"
                yield Difference(program=number, text=text)
