# SPDX-License-Identifier: Apache-2.0
"""Whether the twin may stand for a variant of the RTL: it must count alike on random programs.

The twin is a model of Tilewright's own RTL. For a variant it is refused until every counter of a
sample of random programs is the RTL's. Workers inherit the verdict through the environment.
"""

from __future__ import annotations

import os
from contextlib import closing
from typing import Final

import numpy as np

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import MemoryModel
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.sim.programs.randprog import random_program
from tilewright.sim.twin.device import AGREED, Twin
from tilewright.sim.twin.first_difference import first_difference
from tilewright.sim.verilator.build import build_model
from tilewright.sim.verilator.device import VerilatorDevice
from tilewright.sim.verilator.rtl_variant import rtl_manifest, variant_digest

PROGRAMS: Final = 24
"""Random programs that must count alike; a second together on the RTL of pynq-16x16."""

INSTRUCTIONS: Final = 60
"""Of each program, about."""

SEED: Final = 0x7717


class TwinDisagreesError(ConfigError):
    """The twin does not count what a variant of the RTL counts."""


def require_agreement(hw: HwConfig, memory: MemoryModel) -> None:
    """Accept the twin for the RTL that is built, or refuse it; Tilewright's own RTL passes."""
    digest = variant_digest()
    if not digest or os.environ.get(AGREED) == digest:
        return
    library = build_model(hw, jobs=1, checks=False)
    with closing(VerilatorDevice(hw, memory, library=library)) as device:
        twin = Twin(hw, memory, compared=False)
        for number in range(PROGRAMS):
            rng = np.random.default_rng([SEED, number])
            program, image = random_program(hw, rng, instructions=INSTRUCTIONS)
            measured, predicted = device.run(program, image).counters, twin.counters(program)
            differing = [n for n in measured.values if measured[n] != predicted[n]]
            if differing:
                name = differing[0]
                raise TwinDisagreesError(
                    f"the twin counts otherwise than this RTL on {hw.name}: random program "
                    f"{number}, {name} {measured[name]:,} on the RTL, {predicted[name]:,} on the "
                    f"twin; {first_difference(device, twin, program, image)}",
                    field=str(rtl_manifest()),
                    remedy="measure on the RTL alone: tune --screen none, sim without --device",
                )
    os.environ[AGREED] = digest
