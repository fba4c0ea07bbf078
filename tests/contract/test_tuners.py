# SPDX-License-Identifier: Apache-2.0
"""Every tuner keeps the contract."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from contract.tuner_contract import (
    Log,
    TunerContract,
    assert_valid_and_new,
    drive,
    full_space,
    schedule_cost,
)
from e2e.drawing import generator

from tilewright.tuner.search import TUNERS, make_tuner

_REPLAY = """
import json, sys
from contract.tuner_contract import drive_course
for line in sys.stdin:
    print(json.dumps(drive_course(*json.loads(line))), flush=True)
"""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Callable[..., Log]]:
    """Drives courses in another process; one for all tuners, so that it imports torch once."""
    tests = str(Path(__file__).resolve().parents[1])
    paths = os.pathsep.join((tests, os.environ.get("PYTHONPATH", "")))
    with subprocess.Popen(
        [sys.executable, "-c", _REPLAY],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths, "PYTHONHASHSEED": "99"},
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def drive_there(*arguments: Any) -> Log:
            print(json.dumps(arguments), file=process.stdin, flush=True)
            return [(tuple(index), value) for index, value in json.loads(process.stdout.readline())]

        yield drive_there
        process.stdin.close()


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
    tuner = make_tuner(name, full_space(), seed=seed)
    log = drive(tuner, schedule_cost, batches=[1, 7] + [8] * 12)
    assert len(log) == 104, f"{name}, seed {seed}"
    assert_valid_and_new(log)


@pytest.mark.slow
@pytest.mark.parametrize("name", TUNERS)
def test_every_tuner_as_shipped(name: str) -> None:
    drive_as_shipped(name)


def test_a_fresh_sample_of_tuners_as_shipped() -> None:
    for name in generator("as shipped").choice(list(TUNERS), 2, replace=False):
        drive_as_shipped(str(name))
