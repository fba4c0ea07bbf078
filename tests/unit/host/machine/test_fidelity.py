# SPDX-License-Identifier: Apache-2.0
"""There is one list of fidelities: what is registered, offered or stored is a part of it."""

import pytest

from tilewright.cli.agent import ServedDevice
from tilewright.cli.run import NetworkDevice
from tilewright.cli.sim import DeviceKind
from tilewright.host.machine.fidelity import Fidelity
from tilewright.sim.verilator.elaboration import GENERAL, SIMULATED
from tilewright.tuner.measure.backends import BACKENDS
from tilewright.tuner.measure.measurement import CYCLES_ONLY
from tilewright.tuner.study.options import FidelityName
from tilewright.tuner.study.settings import SCREENS

NO_FIDELITIES = {"reference", "cxxrtl", "simulated-board"}
"""Devices that are no oracle's: they check others, or have no time."""


def test_fidelities_stand_from_slowest_to_fastest() -> None:
    assert list(Fidelity) == ["board", "rtl", "dpi", "timing", "twin", "model"]
    assert set(GENERAL) < set(SIMULATED) < set(Fidelity)


def test_what_counts_without_data_is_exact() -> None:
    assert {"timing", "twin"} == CYCLES_ONLY


def test_tune_offers_what_can_measure() -> None:
    assert list(FidelityName) == list(BACKENDS)
    assert all(backend.fidelity is name for name, backend in BACKENDS.items())
    assert set(SCREENS) <= {*Fidelity, "none"}


@pytest.mark.parametrize("choices", [DeviceKind, NetworkDevice, ServedDevice])
def test_devices_of_the_command_line_carry_the_names_of_fidelities(choices) -> None:
    assert {choice.value for choice in choices} <= {*Fidelity} | NO_FIDELITIES
