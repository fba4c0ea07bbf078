# SPDX-License-Identifier: Apache-2.0
"""Simulated systems by name."""

import pytest
from support.programs.systems import reader

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import load_board
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.system_config import load_system
from tilewright.host.runtime.system_device import Submission
from tilewright.sim.system_devices import SYSTEM_DEVICES, WITH_DATA, open_system


def test_an_unknown_system_device_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean timing"):
        open_system("timming", load_system("dual-tiny"), load_board("pynq-z2").memory)


def test_a_system_of_each_fidelity_counts_the_same():
    memory, program = load_board("pynq-z2").memory, reader(load_hwconfig("tiny-4x4"), 3)
    given = [Submission(core=core, program=program, memory=program.image()) for core in (0, 1)]
    found = []
    for name in SYSTEM_DEVICES:
        device = open_system(name, load_system("dual-tiny"), memory)
        assert device.fidelity == name
        assert device.fidelity.computes == (name in WITH_DATA)
        found.append(device.run(given))
        device.close()
    assert all(each.counters == found[0].counters for each in found)
    assert all(each.shares == found[0].shares for each in found)
