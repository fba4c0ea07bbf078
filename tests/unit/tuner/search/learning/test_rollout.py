# SPDX-License-Identifier: Apache-2.0
"""Walkers: what is legal, what is paid, what is written down."""

import numpy as np
import pytest
import torch

from tilewright.testing.tuner_contract import full_space
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.learning.policy import Moves, Team, View, divide_knobs
from tilewright.tuner.search.learning.rollout import PENALTY, Legality, Walkers

GROUPS = {"channels": ("tile_ci", "tile_co"), "pixels": ("tile_h", "tile_w")}


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
    rollout = walkers.walk(team, score, starts, steps=steps, rng=rng)
    return space, team, moves, starts, rollout


def paths(moves, starts, rollout):
    """Points that each step wanted to reach, from the moves alone: (T, W, knobs)."""
    positions, found = np.array(starts), []
    for move in rollout.moves:
        wanted = np.empty_like(positions)
        for k in range(positions.shape[1]):
            targets = moves.targets(k, positions[:, k])
            wanted[:, k] = targets[np.arange(len(positions)), move[:, k]]
        found.append(wanted)
        positions = wanted
    return np.array(found)


def test_masked_walkers_never_leave_the_legal_points() -> None:
    space, _, moves, starts, rollout = rolled(Legality.MASK)
    points = {
        tuple(p) for p in paths(moves, starts, rollout).reshape(-1, len(space.knobs)).tolist()
    }
    assert len(points) > 200
    assert all(space.valid(point) for point in points)
    assert points <= set(rollout.visited)


def test_every_legal_move_of_one_knob_is_allowed_and_no_other() -> None:
    space, team, moves, starts, rollout = rolled(Legality.MASK, steps=1)
    first = team.turn[0]
    for walker, start in enumerate(starts):
        for move, target in enumerate(moves.targets(first, np.array([start[first]]))[0]):
            there = (*start[:first], int(target), *start[first + 1 :])
            legal = target >= 0 and space.valid(there)
            assert rollout.masks[0, walker, first, move] == legal


def test_masks_have_walls_that_the_walk_would_have_run_into() -> None:
    _, _, _, _, masked = rolled(Legality.MASK)
    _, _, _, _, free = rolled(Legality.PENALTY)
    assert masked.masks.mean() < free.masks.mean()


def test_rewards_are_the_scores_of_where_a_step_leads() -> None:
    _, _, moves, starts, rollout = rolled(Legality.MASK)
    points = paths(moves, starts, rollout)
    assert rollout.rewards == pytest.approx(-points.sum(axis=2) / 10)


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
