# SPDX-License-Identifier: Apache-2.0
"""Learners, walkers, advantages, and the agents that they move."""

import numpy as np
import pytest
import torch

from tilewright.testing.tuner_contract import full_space
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.learning import mappo
from tilewright.tuner.search.learning.dcoc import IppoTuner, PpoTuner
from tilewright.tuner.search.learning.onestep import OneStepTuner
from tilewright.tuner.search.learning.policy import (
    NO_MOVE,
    Moves,
    Team,
    View,
    divide_knobs,
    strides,
)
from tilewright.tuner.search.learning.rollout import PENALTY, Legality, Walkers
from tilewright.tuner.search.space import Knob
from tilewright.tuner.search.torch_threads import one_thread

GROUPS = {"channels": ("tile_ci", "tile_co"), "pixels": ("tile_h", "tile_w")}


def test_value_norm_restores_what_it_normalises() -> None:
    norm, rng = mappo.ValueNorm(), np.random.default_rng(0)
    assert norm.moments == (0.0, 1.0)
    for _ in range(50):
        norm.update(rng.normal(7.0, 3.0, size=(16, 16)))
    assert norm.moments == pytest.approx((7.0, 3.0), abs=0.3)
    returns = np.array([1.0, 7.0, 20.0])
    assert norm.restore(norm.normalise(returns)) == pytest.approx(returns)


@pytest.fixture(autouse=True)
def _one_thread():
    with one_thread():
        yield


def trained(*, independent=False, view=View.POINT, rounds=12):
    """A learner on a score that wants the third knob low, and mean rewards by rollout."""
    space = full_space()
    encoder, moves, rng = FeatureEncoder(space), Moves(space.knobs), np.random.default_rng(3)
    learner = mappo.Mappo(
        divide_knobs(space, GROUPS, rest="channels", view=view),
        features=encoder.width,
        choices=moves.count,
        settings=mappo.MappoSettings(learning_rate=5e-3),
        seed=1,
        independent=independent,
    )
    walkers = Walkers(space, encoder, moves)
    rewards = []
    for _ in range(rounds):
        starts = [space.sample(rng) for _ in range(32)]
        rollout = walkers.walk(
            learner.team,
            lambda indices: np.array([-float(abs(i[2] - 2)) for i in indices]),
            starts,
            steps=12,
            rng=rng,
        )
        learner.update(rollout)
        rewards.append(float(rollout.rewards.mean()))
    return space, encoder, learner, rewards


def test_the_critic_expects_more_of_better_points() -> None:
    space, encoder, learner, _ = trained()
    rng = np.random.default_rng(9)
    points = [space.sample(rng) for _ in range(100)]
    values = learner.values(encoder.encode(points))
    near = np.array([abs(p[2] - 2) <= 1 for p in points])
    assert values[near].mean() > values[~near].mean()


def test_ppo_has_one_agent_and_ippo_three_that_do_not_see_each_other() -> None:
    space = full_space()
    ppo = PpoTuner(space, seed=0)._learner
    assert len(ppo.team.agents) == len(ppo._critics) == 1
    ippo = IppoTuner(space, seed=0)._learner
    assert len(ippo.team.agents) == len(ippo._critics) == 3
    assert all(set(a.columns) < set(range(ippo_width(space))) for a in ippo.team.agents)


def ippo_width(space) -> int:
    return FeatureEncoder(space).width


def test_the_one_step_policy_learns_from_the_mean_of_its_walkers() -> None:
    space = full_space()
    tuner = OneStepTuner(space, seed=0)
    rng = np.random.default_rng(0)

    def reward() -> float:
        starts = [space.sample(rng) for _ in range(48)]
        episode = tuner._walkers.walk(
            tuner._team,
            lambda indices: np.array([-float(abs(i[2] - 2)) for i in indices]),
            starts,
            steps=1,
            rng=rng,
        )
        tuner._reinforce(episode)
        return float(episode.rewards.mean())

    rewards = [reward() for _ in range(40)]
    assert np.mean(rewards[-5:]) > np.mean(rewards[:5])


# -- Walkers: what is legal, what is paid, what is written down
def score(indices):
    return np.array([-sum(index) / 10 for index in indices])


def rolled(legality, *, seed=0, excess=None, steps=30):
    space = full_space()
    encoder, moves, rng = FeatureEncoder(space), Moves(space.knobs), np.random.default_rng(seed)
    team = Team(
        divide_knobs(space, GROUPS, rest="channels", view=View.POINT),
        choices=moves.count,
        hidden=8,
        generator=torch.Generator().manual_seed(seed),
    )
    options = {} if excess is None else {"excess": excess}
    walkers = Walkers(space, encoder, moves, legality=legality, **options)
    starts = [space.sample(rng) for _ in range(16)]
    return space, team, moves, starts, walkers.walk(team, score, starts, steps=steps, rng=rng)


def paths(moves, starts, rollout):
    """Points that each step wanted to reach, from the moves alone: (T, W, knobs)."""
    positions, found = np.array(starts), []
    for move in rollout.moves:
        wanted = np.empty_like(positions)
        for k in range(positions.shape[1]):
            wanted[:, k] = moves.targets(k, positions[:, k])[np.arange(len(positions)), move[:, k]]
        found.append(wanted)
        positions = wanted
    return np.array(found)


def test_without_a_mask_illegal_points_are_entered_paid_and_not_proposed() -> None:
    space, _, moves, starts, rollout = rolled(Legality.PENALTY, excess=sum)
    points = paths(moves, starts, rollout)
    illegal = np.array([[not space.valid(tuple(p)) for p in row] for row in points.tolist()])
    assert 0.05 < illegal.mean() < 0.95
    assert rollout.rewards[illegal] == pytest.approx(-PENALTY * points.sum(axis=2)[illegal])
    assert rollout.rewards[~illegal] == pytest.approx(-points.sum(axis=2)[~illegal] / 10)
    assert all(space.valid(index) for index in rollout.visited)


def test_with_both_an_illegal_step_is_paid_and_undone() -> None:
    _, _, _, _, rollout = rolled(Legality.BOTH)
    paid = rollout.rewards == -PENALTY
    assert paid.any()
    stayed = (rollout.features[1:] == rollout.features[:-1]).all(axis=2)
    assert stayed[paid].all()
    assert not stayed[~paid].all()


@pytest.mark.parametrize("legality", list(Legality))
def test_log_probabilities_are_those_of_the_team(legality) -> None:
    _, team, _, _, rollout = rolled(legality, steps=4)
    for step in range(4):
        with torch.no_grad():
            expected = team.log_probabilities(
                torch.from_numpy(rollout.features[step]), torch.from_numpy(rollout.masks[step])
            )
        chosen = expected.gather(-1, torch.from_numpy(rollout.moves[step][..., None]))[..., 0]
        assert rollout.log_probabilities[step] == pytest.approx(chosen.numpy(), abs=1e-5)


def test_moves_are_drawn_with_the_probabilities_of_the_team() -> None:
    counts = np.zeros(3)
    for seed in range(6):
        *_, rollout = rolled(Legality.PENALTY, seed=seed, steps=20)
        threading = rollout.moves[:, :, 5]
        inner = rollout.masks[:, :, 5].sum(axis=-1) == 2
        # At the lower of two positions: keep (move 1) or raise (move 2), nearly even at the start.
        low = inner & ~rollout.masks[:, :, 5, 0]
        counts += np.bincount(threading[low], minlength=3)
    assert counts[0] == 0
    assert counts[1] / counts.sum() == pytest.approx(0.5, abs=0.06)


# -- Advantages by hand
def test_advantages_are_the_weighted_sum_of_all_later_surprises() -> None:
    rng = np.random.default_rng(0)
    rewards, values = rng.normal(size=(6, 3)), rng.normal(size=(7, 3))
    found = mappo.generalised_advantages(rewards, values, discount=0.9, trace=0.8)
    for t in range(6):
        expected = sum(
            (0.9 * 0.8) ** (k - t) * (rewards[k] + 0.9 * values[k + 1] - values[k])
            for k in range(t, 6)
        )
        assert found[t] == pytest.approx(expected)


# -- Agents, moves and their networks
OWN_GROUPS = {"first": ("tile_b", "tile_ci"), "second": ("tile_h", "nowhere"), "third": ("absent",)}


@pytest.mark.parametrize(
    ("size", "reach"), [(1, (1,)), (8, (1,)), (9, (1, 4)), (32, (1, 4)), (56, (1, 4, 16))]
)
def test_long_knobs_have_long_strides(size, reach) -> None:
    assert strides(size) == reach
    moves = Moves([Knob(name="t", values=tuple(range(size)))])
    middle = size // 2
    targets = {int(t) for t in moves.targets(0, np.array([middle]))[0]} - {NO_MOVE}
    expected = {middle + s * r for r in (0, *reach) for s in (1, -1)}
    assert targets == {t for t in expected if 0 <= t < size}


def team_of(space, seed=0, view=View.OWN) -> tuple[Team, Moves]:
    moves = Moves(space.knobs)
    agents = divide_knobs(space, OWN_GROUPS, rest="first", view=view)
    generator = torch.Generator().manual_seed(seed)
    return Team(agents, choices=moves.count, hidden=8, generator=generator), moves


def loud(team: Team) -> None:
    """Random biases in the last layers: logits that differ from knob to knob."""
    generator = torch.Generator().manual_seed(1)
    for actor in team.actors:
        torch.nn.init.normal_(actor[-1].bias, generator=generator)
        torch.nn.init.orthogonal_(actor[-1].weight, 3.0, generator=generator)


def test_forbidden_moves_have_no_probability_and_the_others_share_it() -> None:
    space = full_space()
    team, moves = team_of(space)
    loud(team)
    features = torch.from_numpy(FeatureEncoder(space).encode([(0,) * len(space.knobs)]))
    masks = torch.rand(1, len(space.knobs), moves.count) < 0.5
    masks[..., 0] = True
    chances = team.log_probabilities(features, masks).exp()
    assert (chances[~masks] == 0).all()
    torch.testing.assert_close(chances.sum(dim=-1), torch.ones(1, len(space.knobs)))
    open_chances = team(features).softmax(dim=-1) * masks
    torch.testing.assert_close(chances, open_chances / open_chances.sum(dim=-1, keepdim=True))


def test_weights_come_from_the_seed_and_leave_the_global_generator_alone() -> None:
    space = full_space()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    one, _ = team_of(space, seed=1)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(6)
    two, _ = team_of(space, seed=1)
    three, _ = team_of(space, seed=2)
    weight, same, different = (next(team.parameters()) for team in (one, two, three))
    assert torch.equal(weight, same)
    assert not torch.equal(weight, different)
