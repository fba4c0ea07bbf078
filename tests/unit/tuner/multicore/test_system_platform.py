# SPDX-License-Identifier: Apache-2.0
"""Systems of our hardware, as platforms of the model."""

import numpy as np
import pytest

from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.machine.system_config import SystemConfig, SystemCore
from tilewright.tuner.multicore.allocation import makespans
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.platform import platform_of, regulation_of

HW = load_hwconfig("tiny-4x4")


def test_a_platform_has_the_cores_of_the_system_in_their_order():
    other = load_hwconfig("edge-8x8").with_(axi_data_bits=HW.axi_data_bits)
    system = SystemConfig(name="s", cores=(SystemCore(hw=HW), SystemCore(hw=other)))
    platform = platform_of(system, clock_mhz=100, bandwidths=[0.4, 0.8])
    assert [core.hardware for core in platform.cores] == [HW, other]
    assert (platform.name, platform.bandwidths) == ("s", (0.4, 0.8))


def test_budgets_become_bytes_and_weights_shares():
    system = SystemConfig(
        window=64,
        cores=(
            SystemCore(hw=HW, weight=3, read_budget=10, write_budget=6),
            SystemCore(hw=HW, read_budget=10),
            SystemCore(hw=HW),
        ),
    )
    rules = regulation_of(system)
    assert rules.window == 64
    assert rules.budgets == (16 * HW.axi_bytes, np.inf, np.inf)
    of_reads = regulation_of(system, reads=True)
    assert of_reads.budgets == (10 * HW.axi_bytes, 10 * HW.axi_bytes, np.inf)
    assert rules.weights[0] == 3 * rules.weights[1] == 3 * rules.weights[2]


def test_a_system_after_reset_shares_equally():
    system = SystemConfig(cores=(SystemCore(hw=HW), SystemCore(hw=HW)))
    table = JobTable(np.full((3, 2), 50.0), np.array([[8.0, 8.0], [6.0, 6.0], [2.0, 2.0]]))
    mapping = ([[0, 1, 0]], [[0, 0, 1]])
    regulated = makespans(table, 8, *mapping, "regulated", regulation_of(system))
    assert regulated == pytest.approx(makespans(table, 8, *mapping, "equal"))
