# SPDX-License-Identifier: Apache-2.0
"""Agents, moves and their networks."""

import numpy as np
import pytest
import torch
from support.search.grid import Grid

from tilewright.testing.analytic import BASE, BOARD, RULES, TASKS
from tilewright.testing.tuner_contract import full_space
from tilewright.tuner.schedule.spaces import HardwareSpace, JointSpace
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.learning.policy import (
    NO_MOVE,
    Moves,
    Team,
    View,
    divide_knobs,
    single_agent,
    strides,
)
from tilewright.tuner.search.space import Knob

GROUPS = {"first": ("tile_b", "tile_ci"), "second": ("tile_h", "nowhere"), "third": ("absent",)}


class Named(Grid):
    """Two values of each knob."""

    def __init__(self, *names: str) -> None:
        super(Grid, self).__init__([Knob(name=name, values=(1, 2)) for name in names])


def names(space, agent):
    return [space.knobs[k].name for k in agent.knobs]


def test_agents_own_every_knob_once_and_those_without_a_knob_vanish() -> None:
    space = full_space()
    agents = divide_knobs(space, GROUPS, rest="first", view=View.OWN)
    assert [agent.name for agent in agents] == ["first", "second"]
    assert names(space, agents[1]) == ["tile_h"]
    owned = sorted(k for agent in agents for k in agent.knobs)
    assert owned == list(range(len(space.knobs)))


def test_unknown_knobs_go_to_the_rest() -> None:
    space = JointSpace(TASKS[0], HardwareSpace(BOARD, BASE, RULES), RULES, "vta")
    agents = divide_knobs(space, GROUPS, rest="second", view=View.OWN)
    assert {"block_in", "acc_bytes", "tile_h", "tile_w"} <= set(names(space, agents[1]))


def test_an_agent_sees_its_own_knobs_or_the_whole_point() -> None:
    space = full_space()
    features = FeatureEncoder(space).names
    own = divide_knobs(space, GROUPS, rest="first", view=View.OWN)[1]
    assert [features[c] for c in own.columns] == ["tile_h.position", "tile_h.log2"]
    whole = divide_knobs(space, GROUPS, rest="first", view=View.POINT)[1]
    assert whole.columns == tuple(range(len(features)))
    assert single_agent(space)[0].knobs == tuple(range(len(space.knobs)))


def test_agents_see_knobs_of_any_name() -> None:
    """Names with a dot or an equals sign hid their knobs: an agent of those saw nothing."""
    space = Named("conv.tile", "k=2", "conv", "conv")
    agents = divide_knobs(space, {"first": ("conv.tile",), "rest": ()}, rest="rest", view=View.OWN)
    assert [agent.columns for agent in agents] == [(0, 1), (2, 3, 4, 5, 6, 7)]
    (single,) = single_agent(space)
    assert single.columns == tuple(range(FeatureEncoder(space).width))


def test_ordered_knobs_step_and_others_choose() -> None:
    knobs = [Knob(name="t", values=(1, 2, 4)), Knob(name="o", values=("a", "b"), ordered=False)]
    moves = Moves(knobs)
    assert moves.count == 3
    assert moves.targets(0, np.array([0, 1, 2])).tolist() == [
        [NO_MOVE, 0, 1],
        [0, 1, 2],
        [1, 2, NO_MOVE],
    ]
    assert moves.targets(1, np.array([1])).tolist() == [[0, 1, NO_MOVE]]


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


def test_a_jump_reaches_every_value_of_a_short_knob_and_powers_of_two_of_a_long_one() -> None:
    short = Moves([Knob(name="t", values=tuple(range(16)))], jump=True)
    assert short.targets(0, np.array([3]))[0].tolist() == list(range(16))
    long = Moves([Knob(name="t", values=tuple(range(40)))], jump=True)
    there = sorted(set(long.targets(0, np.array([20]))[0].tolist()) - {NO_MOVE})
    assert there == [4, 12, 16, 18, 19, 20, 21, 22, 24, 28, 36]


def team_of(space, seed=0, view=View.OWN) -> tuple[Team, Moves]:
    moves = Moves(space.knobs)
    agents = divide_knobs(space, GROUPS, rest="first", view=view)
    generator = torch.Generator().manual_seed(seed)
    return Team(agents, choices=moves.count, hidden=8, generator=generator), moves


def loud(team: Team) -> None:
    """Random biases in the last layers: logits that differ from knob to knob."""
    generator = torch.Generator().manual_seed(1)
    for actor in team.actors:
        torch.nn.init.normal_(actor[-1].bias, generator=generator)
        torch.nn.init.orthogonal_(actor[-1].weight, 3.0, generator=generator)


def test_logits_come_in_the_order_of_the_space_and_depend_on_what_an_agent_sees() -> None:
    space = full_space()
    team, moves = team_of(space)
    loud(team)
    encoder, rng = FeatureEncoder(space), np.random.default_rng(0)
    index = space.sample(rng)
    other = (*index[:1], index[1] + 1, *index[2:])
    here, there = team.logits(encoder.encode([index, other]))
    assert here.shape == (len(space.knobs), moves.count)
    # Knob 1 (tile_h) belongs to the second agent, which sees nothing else; no other agent sees it.
    differs = np.abs(here - there).max(axis=1) > 1e-4
    assert np.flatnonzero(differs).tolist() == [1]


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
