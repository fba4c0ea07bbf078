# SPDX-License-Identifier: Apache-2.0
"""The scrub writes zeros to every tile of every scratchpad; that devices obey is their contract."""

import numpy as np
import pytest
from support.programs.hazards import check_hazards
from support.randomness import generator, where

from tilewright.host.machine.hwconfig import load_hwconfig, named_configs
from tilewright.host.runtime.scrub import scrub, scrub_program
from tilewright.sim.reference.device import ReferenceDevice
from tilewright.sim.reference.footprint import scratchpads
from tilewright.sim.verify.randconfig import any_hwconfig
from tilewright.testing.residue import dirt


class Filled(ReferenceDevice):
    """A reference that says which tiles the last program wrote."""

    def written(self, memory):
        return self._machine._written[memory]


def check(hw):
    device, program = Filled(hw), scrub_program(hw)
    dirty = dirt(hw)
    device.run(dirty, dirty.image())
    for memory in scratchpads(hw):
        assert device.scratchpad(memory).any(axis=1).all(), f"{memory.name} of {where(hw=hw)}"
    scrub(device)
    for memory in scratchpads(hw):
        assert device.written(memory).all(), f"{memory.name} of {where(hw=hw.parameters())}"
        assert not np.count_nonzero(device.scratchpad(memory))
    check_hazards(hw, program, program.image())


@pytest.mark.parametrize("name", named_configs())
def test_every_tile_of_a_named_configuration_is_zero(name):
    check(load_hwconfig(name))


def test_every_tile_of_a_table_is_zero():
    check(load_hwconfig("tiny-4x4").with_(activation_table=1))


def test_every_tile_of_any_configuration_is_zero():
    rng = generator("scrub")
    for _ in range(20):
        check(any_hwconfig(rng))
