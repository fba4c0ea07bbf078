# SPDX-License-Identifier: Apache-2.0
"""Simulated systems by name."""

import pytest

from tilewright.host.common.errors import ConfigError
from tilewright.host.machine.board import load_board
from tilewright.host.machine.system_config import load_system
from tilewright.sim.system_devices import open_system


def test_an_unknown_system_device_is_answered_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean timing"):
        open_system("timming", load_system("dual-tiny"), load_board("pynq-z2").memory)
