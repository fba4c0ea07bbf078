# SPDX-License-Identifier: Apache-2.0
"""The clustered multi-agent mapper: roles come from what good samples have in common.

Source: Krishnan et al., arXiv 2507.16249, algorithm 1 and section IV.

Mappers that learn by proximal policy optimisation: one agent, or a team of independent ones.

Every sample is a step of `MappingGame`: the agents see what their last proposal cost and choose
each decision of the next one from a categorical distribution of its own. The learner is that of
`tuner.search.learning.mappo`: a team of one is PPO, with one probability ratio for all decisions;
agents with a critic each are IPPO, the paper's decentralised learners.

Source: Krishnan et al., arXiv 2507.16249; Schulman et al., "Proximal Policy Optimization
Algorithms", 2017.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Final

import numpy as np

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.cost import Costs
from tilewright.tuner.mapping.environments.game import OBSERVED, MappingGame, Reward
from tilewright.tuner.mapping.environments.problem import member
from tilewright.tuner.mapping.learning.clustering import Linkage, cluster
from tilewright.tuner.mapping.learning.decisions import Decisions
from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.mapping.methods.registry import make_mapper
from tilewright.tuner.mapping.roles import Roles, owned_knobs
from tilewright.tuner.search.features import Features
from tilewright.tuner.search.learning.mappo import Mappo, MappoSettings
from tilewright.tuner.search.learning.policy import Agent
from tilewright.tuner.search.learning.rollout import Steps
from tilewright.tuner.search.torch_threads import one_thread

LANES: Final = 64
"""Proposals side by side."""

STEPS: Final = 2
"""Proposals of a lane between updates."""

SETTINGS: Final = MappoSettings(
    hidden=32,
    learning_rate=3e-3,
    discount=0.0,
    trace=0.0,
    clip=0.2,
    epochs=4,
    entropy=1.0,
)
"""A proposal does not change what later ones cost: nothing is gained by looking ahead. How the rest
was chosen, on which layers: docs/explanation/mapping-agents.md."""

_SCALE: Final = 8.0
"""Observations are logarithms; divided by this they are numbers around 1."""


class TeamMapper(Mapper):
    """Agents that share the reward of the mapping that they propose together.

    A subclass says who decides on what, and whether the critic is ``central``: one for the team,
    which sees the last proposal as well, instead of one per agent, which sees what its agent sees.

    With a ``patience`` a run has converged, and ends, when the lowest cost has stayed what it is
    for so many samples.
    """

    central: ClassVar[bool] = False

    def __init__(
        self,
        *,
        reward: Reward | str = Reward.LOG,
        settings: MappoSettings = SETTINGS,
        lanes: int = LANES,
        steps: int = STEPS,
        patience: int = 0,
    ) -> None:
        given = (("lanes", lanes, 1), ("steps", steps, 1), ("patience", patience, 0))
        for name, value, least in given:
            _require_whole(name, value, least)
        self._reward: Final = member(Reward, "reward", reward)
        self._settings: Final = settings
        self._lanes: Final = lanes
        self._steps: Final = steps
        self._patience: Final = patience

    def _roles(self, probe: Probe, rng: np.random.Generator) -> Roles | None:
        """Who decides on which knobs; None: one agent per knob."""
        raise NotImplementedError

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        roles = self._roles(probe, rng)
        decisions = Decisions(probe.space)
        owned = owned_knobs([knob.name for knob in probe.space.knobs], roles)
        agents = [
            Agent(name=name, knobs=own, columns=tuple(range(len(OBSERVED))))
            for name, knobs in owned.items()
            if (own := decisions.of_knobs(knobs))
        ]
        probe.notes["agents"] = len(agents)
        game = MappingGame(
            probe.space,
            probe.objective,
            reward=self._reward,
            lanes=self._lanes,
            evaluate=probe.costs,
        )
        learner = Mappo(
            agents,
            features=len(OBSERVED) + decisions.count,
            choices=decisions.width,
            settings=self._settings,
            seed=int(rng.integers(2**31)),
            independent=not self.central,
        )
        with one_thread():
            for steps in _walk(game, decisions, learner, self._steps, rng):
                learner.update(steps)
                if 0 < self._patience <= probe.since_improved:
                    return


def _require_whole(name: str, value: int, least: int) -> None:
    if type(value) is not int or value < least:
        raise ConfigError(f"must be an integer of at least {least}", field=name, value=value)


def _walk(
    game: MappingGame,
    decisions: Decisions,
    learner: Mappo,
    count: int,
    rng: np.random.Generator,
) -> Iterator[Steps]:
    """Rollouts of ``count`` steps without end; the budget of the game's probe ends them."""
    none = np.zeros((game.lanes, decisions.count), dtype=np.int64)
    seen = _features(game.reset(), none, decisions)
    while True:
        features, moves, masks, chances, rewards = [seen], [], [], [], []
        for _ in range(count):
            choices, mask, chance = decisions.draw(learner.team.logits(features[-1]), rng)
            outcome = game.propose(decisions.indices(choices))
            moves.append(choices)
            masks.append(mask)
            chances.append(chance)
            rewards.append(outcome.rewards.astype(np.float32))
            features.append(_features(outcome.observations, choices, decisions))
        seen = features[-1]
        yield Steps(
            features=np.stack(features),
            moves=np.stack(moves),
            masks=np.stack(masks),
            log_probabilities=np.stack(chances),
            rewards=np.stack(rewards),
        )


def _features(observations: Features, choices: np.ndarray, decisions: Decisions) -> Features:
    """Shape ``[lanes, observed + decisions]``: what it cost, then what was proposed."""
    parts = [observations / _SCALE, choices / decisions.width]
    return np.concatenate(parts, axis=1).astype(np.float32)


class PpoMapper(TeamMapper):
    """A single agent that takes every decision."""

    def _roles(self, probe: Probe, rng: np.random.Generator) -> Roles:
        del rng
        return {"all": [knob.name for knob in probe.space.knobs]}


class DecentralisedMapper(TeamMapper):
    """One agent per mapping parameter."""

    def _roles(self, probe: Probe, rng: np.random.Generator) -> None:
        del probe, rng


AGENTS: Final = 6
SETUP_SAMPLES: Final = 20_000
"""As in the paper."""
POLICY: Final = "genetic"
"""Of the paper's; random samples hardly correlate, so their tree has no cut at 2.5."""


class ClusteredMapper(TeamMapper):
    """A team whose roles are clusters of knobs.

    The data set is sampled before the run, outside of its budget, as in the paper;
    `Trace.setup_samples` tells its size. The tree of the knobs is cut at the height ``cut``, or
    into ``agents`` where that is 0.
    """

    def __init__(
        self,
        *,
        agents: int = AGENTS,
        cut: float = 0.0,
        linkage: Linkage | str = Linkage.WARD,
        policy: str = POLICY,
        setup_samples: int = SETUP_SAMPLES,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        _require_whole("agents", agents, 1)
        _require_whole("setup_samples", setup_samples, 16)
        if not 0 <= cut < np.inf:
            raise ConfigError("must be a height from 0 on", field="cut", value=cut)
        self._agents: Final = agents
        self._cut: Final = cut or None
        self._linkage: Final = member(Linkage, "linkage", linkage)
        self._policy: Final = policy
        self._setup_samples: Final = setup_samples

    def _roles(self, probe: Probe, rng: np.random.Generator) -> Roles:
        recorder = Recorder(probe.model, probe.objective, self._setup_samples)
        trace = make_mapper(self._policy).spend(recorder, int(rng.integers(2**31)))
        rows, values = np.concatenate(recorder.rows), np.concatenate(recorder.values_seen)
        found = cluster(probe.space, rows, values, by=self._linkage)
        roles = found.roles(self._agents, self._cut)
        probe.setup_samples = trace.samples
        probe.notes.update(
            policy=self._policy,
            setup_best=trace.value,
            roles={name: list(own) for name, own in roles.items()},
            clustering=found.as_dict(),
        )
        return roles


class CentralMapper(ClusteredMapper):
    """The clustered team with one central critic (MAPPO)."""

    central: ClassVar[bool] = True


class Recorder(Probe):
    """A probe that remembers every sample.

    Attributes:
        rows, values_seen: of each batch, what was sampled and what it cost.
    """

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.rows: Final[list[Batch]] = []
        self.values_seen: Final[list[Any]] = []

    def costs(self, batch: Batch) -> Costs:
        """As of `Probe`; what is sampled is kept."""
        self.rows.append(batch[: self.left])
        self.values_seen.append(self.model.costs(self.rows[-1]).of(self.objective))
        return super().costs(batch)
