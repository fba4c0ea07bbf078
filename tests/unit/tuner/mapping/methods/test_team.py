# SPDX-License-Identifier: Apache-2.0
"""Teams learn: at equal budgets they beat random samples, whoever decides on what."""

import numpy as np
import pytest
from support.randomness import often

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.architecture import load_architecture
from tilewright.tuner.mapping.cost import CostModel, Objective
from tilewright.tuner.mapping.methods.registry import make_mapper
from tilewright.tuner.mapping.nest import LoopNest

pytest.importorskip("torch")

MODEL = CostModel(
    LoopNest(name="conv", sizes=(32, 16, 14, 14, 3, 3)), load_architecture("flexible-256")
)
BUDGET = 3000


@pytest.fixture(scope="module")
def random_values():
    return [
        make_mapper("random").run(MODEL, Objective.EDP, BUDGET, seed).value for seed in range(3)
    ]


@pytest.mark.parametrize(
    "name", often("teams", ["ppo", "marl-decentralised", "marl", "marl-central"], 1)
)
def test_learning_beats_random_samples(name, random_values):
    found = [make_mapper(name).run(MODEL, Objective.EDP, BUDGET, seed).value for seed in range(3)]
    assert np.median(found) < 0.8 * np.median(random_values), (found, random_values)


@pytest.mark.parametrize(
    ("name", "agents"), [("ppo", 1), ("marl-decentralised", 18), ("marl", 6), ("marl-central", 6)]
)
def test_tells_its_agents_and_what_it_sampled_before(name, agents):
    trace = make_mapper(name).run(MODEL, Objective.LATENCY, 10, 0)
    assert trace.notes["agents"] == agents
    assert trace.setup_samples == (20_000 if name in ("marl", "marl-central") else 0)


@pytest.mark.parametrize("policy", ["random", "genetic", "tuner-genetic", "ppo"])
def test_roles_come_from_the_samples_of_any_policy(policy):
    mapper = make_mapper("marl", policy=policy, setup_samples=200, agents=3)
    trace = mapper.run(MODEL, Objective.ENERGY, 10, 0)
    assert trace.notes["policy"] == policy
    assert trace.setup_samples == 200
    assert len(trace.notes["roles"]) == 3
    assert len(trace.notes["clustering"]["correlation"]) == 18
    assert trace.notes["setup_best"] > 0


def test_the_tree_of_good_samples_has_both_cuts_of_the_paper():
    counts = [
        make_mapper("marl", cut=cut).run(MODEL, Objective.EDP, 10, 0).notes["agents"]
        for cut in (0.5, 2.5)
    ]
    assert counts[0] > counts[1] > 1


def test_a_run_ends_when_it_has_converged_and_is_the_same_until_then():
    short = make_mapper("ppo", patience=256).run(MODEL, Objective.EDP, 20_000, 0)
    assert 256 < short.samples < 20_000
    assert short.samples - (short.steps[-1] + 1) in range(256, 256 + 128)
    gaps = np.diff(np.append(0, short.steps + 1))
    assert gaps.max() < 256 + 128
    long = make_mapper("ppo").run(MODEL, Objective.EDP, short.samples, 0)
    np.testing.assert_array_equal(long.best, short.best[: short.samples])


@pytest.mark.parametrize(
    "options",
    [{"agents": 0}, {"setup_samples": 3}, {"reward": "more"}, {"cut": -1.0}, {"linkage": "x"},
     {"patience": -1}],
)  # fmt: skip
def test_refuses_a_team_that_cannot_be(options):
    with pytest.raises(ConfigError):
        make_mapper("marl", **options)
