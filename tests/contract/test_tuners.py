# SPDX-License-Identifier: Apache-2.0
"""Every tuner keeps the contract."""

from typing import ClassVar

import pytest
from support.randomness import generator

from tilewright.testing.tuner_contract import (
    TunerContract,
    assert_valid_and_new,
    drive,
    full_space,
    schedule_cost,
)
from tilewright.tuner.search import TUNERS, make_tuner


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
    options: ClassVar = {"plan": 24}


class TestChameleon(TunerContract):
    name = "chameleon"
    options: ClassVar = {"plan": 24}


class TestAsCodedChameleon(TunerContract):
    name = "chameleon-code"
    options: ClassVar = {"plan": 24}


class TestMetaSchedule(TunerContract):
    name = "metaschedule"
    options: ClassVar = {"plan": 24, "population": 64, "warm_up": 24}


class TestOptunaTpe(TunerContract):
    name = "optuna-tpe"


class TestOptunaCmaes(TunerContract):
    name = "optuna-cmaes"


class TestOptunaNsga2(TunerContract):
    name = "optuna-nsga2"


@pytest.mark.slow  # a fit for every proposal; the adapter is that of the other samplers
class TestOptunaGp(TunerContract):
    name = "optuna-gp"


class TestCatcma(TunerContract):
    name = "catcma"


class TestNevergradDe(TunerContract):
    name = "nevergrad-de"


class TestBotorch(TunerContract):
    name = "botorch"


class TestTilewright(TunerContract):
    name = "tilewright"


class TestDcoc(TunerContract):
    name = "dcoc"
    options: ClassVar = {"walkers": 8, "steps": 4}


class TestPpo(TunerContract):
    name = "ppo"
    options: ClassVar = {"walkers": 8, "steps": 4}


class TestIppo(TunerContract):
    name = "ippo"
    options: ClassVar = {"walkers": 8, "steps": 4}


class TestOneStep(TunerContract):
    name = "onestep"
    options: ClassVar = {"walkers": 12, "rounds": 3}


def test_no_tuner_is_left_out() -> None:
    assert {kind.name for kind in TunerContract.__subclasses__()} == set(TUNERS)


def drive_as_shipped(name: str) -> None:
    """104 measurements with the settings that users get, from a seed of this run."""
    seed = int(generator(f"{name} as shipped").integers(2**31))
    log = drive(make_tuner(name, full_space(), seed=seed), schedule_cost, batches=[1, 7] + [8] * 12)
    assert len(log) == 104, f"{name}, seed {seed}"
    assert_valid_and_new(log)


@pytest.mark.slow
@pytest.mark.parametrize("name", TUNERS)
def test_every_tuner_as_shipped(name: str) -> None:
    drive_as_shipped(name)


def test_a_fresh_sample_of_tuners_as_shipped() -> None:
    for name in generator("as shipped").choice(list(TUNERS), 2, replace=False):
        drive_as_shipped(str(name))
