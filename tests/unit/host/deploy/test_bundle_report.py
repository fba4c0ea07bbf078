# SPDX-License-Identifier: Apache-2.0
"""What a bundle's figures rest on is said beside them."""

from types import SimpleNamespace
from typing import Any

import pytest

from tilewright.host.deploy.board_run import BundleReport


@pytest.mark.parametrize("reached", [True, False])
@pytest.mark.parametrize("simulated", [True, False])
def test_an_assumed_clock_and_simulated_times_are_called_so(reached: bool, simulated: bool) -> None:
    measured: Any = SimpleNamespace(
        runs=[SimpleNamespace(cycles=1000)],
        quantile=lambda _: 0.1,
        serial_seconds=1.0,
        pipelined_seconds=1.0,
    )
    report = BundleReport(
        name="b",
        clock_mhz=100.0,
        clock_reached=reached,
        simulated=simulated,
        labels=(),
        titles=("x",),
        measured=measured,
    )
    clock, *times = report.figures()
    assert ("at an assumed 100 MHz" in clock) is not reached
    assert [("of the simulation on this machine" in line) for line in times] == [simulated] * 2
