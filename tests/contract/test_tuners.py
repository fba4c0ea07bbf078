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


class TestAutoTvm(TunerContract):
    name = "autotvm"


class TestChameleon(TunerContract):
    name = "chameleon"


class TestAsCodedChameleon(TunerContract):
    name = "chameleon-code"


class TestOptunaTpe(TunerContract):
    name = "optuna-tpe"


class TestOptunaCmaes(TunerContract):
    name = "optuna-cmaes"


class TestOptunaNsga2(TunerContract):
    name = "optuna-nsga2"


class TestNevergradDe(TunerContract):
    name = "nevergrad-de"


class TestBotorch(TunerContract):
    name = "botorch"


class TestTilewright(TunerContract):
    name = "tilewright"


class TestDcoc(TunerContract):
    name = "dcoc"


class TestPpo(TunerContract):
    name = "ppo"


class TestIppo(TunerContract):
    name = "ippo"


class TestOneStep(TunerContract):
    name = "onestep"


def test_no_tuner_is_left_out() -> None:
    assert {kind.name for kind in TunerContract.__subclasses__()} == set(TUNERS)
