# SPDX-License-Identifier: Apache-2.0
"""Every tuner keeps the contract."""

from contract.tuner_contract import TunerContract

from tilewright.tuner.search import TUNERS


class TestRandom(TunerContract):
    name = "random"


class TestCoordinate(TunerContract):
    name = "coordinate"


class TestGenetic(TunerContract):
    name = "genetic"


class TestGuided(TunerContract):
    name = "guided"


def test_no_tuner_is_left_out() -> None:
    assert {kind.name for kind in TunerContract.__subclasses__()} == set(TUNERS)
