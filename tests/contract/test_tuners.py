# SPDX-License-Identifier: Apache-2.0
"""Every tuner of the registry keeps the contract."""

import pytest
from support.randomness import generator, often

from tilewright.testing.tuner_contract import (
    TunerContract,
    assert_valid_and_new,
    drive,
    full_space,
    schedule_cost,
)
from tilewright.tuner.search import TUNERS, make_tuner

OPTIONS = {
    **{key: {"plan": 24} for key in ("autotvm", "chameleon", "chameleon-code")},
    **{key: {"walkers": 8, "steps": 4} for key in ("dcoc", "ppo", "ippo")},
    "metaschedule": {"plan": 24, "population": 64, "warm_up": 24},
    "onestep": {"walkers": 12, "rounds": 3},
}
"""Of the tuners whose own take long."""

SLOW = ("autotvm", "chameleon", "chameleon-code", "ippo", "metaschedule", "optuna-tpe")
"""Five sixths of the time of all: a fast run takes two of them."""
LATER = {
    "optuna-gp",  # a fit for every proposal; the adapter is that of the other samplers
    *(case.values[0] for case in often("slow tuners", SLOW, 2) if not isinstance(case, str)),
}

for _name in TUNERS:
    _given = {"name": _name, "options": OPTIONS.get(_name, TunerContract.options)}
    _kind = type(f"Test{_name.title().replace('-', '')}", (TunerContract,), _given)
    if _name in LATER:
        _kind = pytest.mark.slow(_kind)
    globals()[_kind.__name__] = _kind


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
