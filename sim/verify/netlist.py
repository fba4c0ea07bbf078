# SPDX-License-Identifier: Apache-2.0
"""Simulate the netlist of a configuration and compare it with the reference on random programs.

``python -m tilewright.sim.verify.netlist HW`` says how many programs ended with the memory image
that the reference gives; the exit code is 1 when one did not.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tilewright.host.common.errors import DeviceError, TilewrightError
from tilewright.host.machine.board import MemoryModel, load_memory
from tilewright.host.machine.hwconfig import HwConfig, load_hwconfig
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.verify.netlist_build import FAMILIES, Stage, build_netlist
from tilewright.sim.verify.randprog import random_program
from tilewright.sim.verilator.device import VerilatorDevice

_INSTRUCTIONS = 60
"""Most random instructions in a program."""
_MAX_CYCLES = 2_000_000


@dataclass(frozen=True, kw_only=True)
class Difference:
    """A program that did not end on the netlist as on the reference.

    Attributes:
        program: its number, from 0.
        text: the error of the device, or how many bytes of memory differ.
    """

    program: int
    text: str


def differences(
    hw: HwConfig,
    library: Path,
    rng: np.random.Generator,
    programs: int,
    *,
    memory: MemoryModel | None = None,
) -> Iterator[Difference]:
    """Run random programs on a netlist.

    Args:
        hw: configuration that was synthesised.
        library: what `build_netlist` made of it.
        rng: source of the programs.
        programs: how many.
        memory: DRAM timing; by default the ideal one.

    Yields:
        The programs that ended in another way than on the reference.

    Raises:
        DeviceError: the netlist is not the accelerator that ``hw`` describes.
    """
    device = VerilatorDevice(hw, memory or load_memory("ideal"), library=library)
    try:
        for number in range(programs):
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
                yield Difference(program=number, text=f"{wrong} bytes of memory differ")
    finally:
        device.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run random programs on a netlist: 0 all as on the reference, 1 not all, 2 error."""
    parser = argparse.ArgumentParser(prog="tilewright.sim.verify.netlist", description=main.__doc__)
    parser.add_argument("hw", help="name of a configuration or path of its YAML file")
    parser.add_argument("--family", choices=FAMILIES, default="xc7", help="default: %(default)s")
    parser.add_argument(
        "--stage",
        choices=[stage.value for stage in Stage],
        default=Stage.CELLS.value,
        help="packed: after the DSP slices are packed (xc7); cells: the whole netlist (default)",
    )
    parser.add_argument("--programs", type=int, default=100, help="default: %(default)s")
    parser.add_argument("--seed", type=int, help="of the programs (default: a new one)")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else np.random.SeedSequence().entropy
    try:
        hw = load_hwconfig(options.hw)
        library = build_netlist(hw, family=options.family, stage=Stage(options.stage))
        rng = np.random.default_rng(seed)
        found = list(differences(hw, library, rng, options.programs))
    except TilewrightError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    for difference in found:
        sys.stdout.write(f"program {difference.program}: {difference.text}\n")
    sys.stdout.write(
        f"{options.hw}, {options.family}, {options.stage}: {len(found)} of {options.programs} "
        f"programs wrong, seed {seed}\n"
    )
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
