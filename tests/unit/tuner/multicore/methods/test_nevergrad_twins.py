# SPDX-License-Identifier: Apache-2.0
"""Our vectorised searches end where Nevergrad's end: same cube, same budget, ten seeds each."""

import numpy as np
import pytest
from support.search.multicore import random_instance

from tilewright.tuner.multicore.methods.baselines import Latent
from tilewright.tuner.multicore.methods.registry import make_group_mapper

nevergrad = pytest.importorskip("nevergrad")

pytestmark = pytest.mark.slow

SEEDS = 10
BUDGET = 1000
LOOKED_AT = (100, 400, BUDGET)
LARGEST_Z = 3.5
"""Standard errors between the means: both are samples of ten runs."""


def curve_of_nevergrad(name, instance, seed):
    """Best logarithm of the makespan after each sample, asked one by one as M3E does."""
    latent = Latent(instance.table)
    cube = nevergrad.p.Array(shape=(latent.width,), lower=0, upper=1)
    cube.random_state = np.random.RandomState(seed)
    optimizer = nevergrad.optimizers.registry[name](cube, budget=BUDGET, num_workers=1)
    costs = []
    for _ in range(BUDGET):
        asked = optimizer.ask()
        costs.append(float(np.log(instance.makespans(latent.decode(asked.value[None])))[0]))
        optimizer.tell(asked, costs[-1])
    return np.minimum.accumulate(costs)


@pytest.mark.parametrize(("ours", "theirs"), [("de", "DE"), ("pso", "PSO"), ("tbpsa", "TBPSA")])
def test_ends_where_nevergrad_ends(ours, theirs):
    instance = random_instance(np.random.default_rng(5), jobs=16)
    other = np.array([curve_of_nevergrad(theirs, instance, seed) for seed in range(SEEDS)])
    mapper = make_group_mapper(ours)
    own = np.log([mapper.run(instance, BUDGET, seed).best for seed in range(SEEDS)])
    at = [sample - 1 for sample in LOOKED_AT]
    error = np.sqrt((own.var(axis=0, ddof=1) + other.var(axis=0, ddof=1)) / SEEDS)[at]
    apart = (own.mean(axis=0) - other.mean(axis=0))[at]
    assert np.abs(apart / error).max() < LARGEST_Z, dict(zip(LOOKED_AT, apart / error, strict=True))
