# SPDX-License-Identifier: Apache-2.0
"""DCOC: three agents co-design hardware and schedule; confidence sampling picks measurements.

Source: DCO-Comp (also ARCO), Fayyazi, Kamal and Pedram, ASP-DAC 2025 (arXiv 2407.08192): this is a
re-implementation from its slides and abstract, not from the paper's text; docs/explanation/dcoc.md
names every choice that had to be made.

- Agents: *scheduling* owns the threadings (and loop order and fusion), *mapping* the spatial
  tiles, *hardware* the batch and channel tiles and, in a joint space, the configuration.
- They are trained by MAPPO: unshared actors, a critic that sees the whole point, a common reward,
  the score that a surrogate gives to where their joint step leads.
- The surrogate is refitted to all measurements before the agents walk on it.
- What the walkers visited and nobody measured goes through confidence sampling.

IPPO: DCOC's three agents, each with a critic of its own, none of them sees the others' knobs.

Source: de Witt et al., "Is Independent Learning All You Need in the StarCraft Multi-Agent
Challenge?", 2020. What it lacks against DCOC is the central critic alone: agents, moves, masks,
reward, surrogate and sampling are the same.

PPO: one agent that moves every knob, with the heads, masks, reward and sampling of DCOC.

Source: Schulman et al., "Proximal Policy Optimization Algorithms", 2017; as a tuner's explorer:
CHAMELEON (Ahn et al., ICLR 2020). The one difference to DCOC is that a single network, with one
probability ratio, decides on all knobs.
"""

from __future__ import annotations

from typing import Any, Final, TypeVar

from tilewright.tuner.search.features import Features
from tilewright.tuner.search.learning.mappo import Mappo, MappoSettings
from tilewright.tuner.search.learning.planned import PlannedTuner, one_of
from tilewright.tuner.search.learning.policy import Agent, Moves, View, divide_knobs, single_agent
from tilewright.tuner.search.learning.rollout import Excess, Legality, Walkers, unit_excess
from tilewright.tuner.search.learning.surrogate import Scores
from tilewright.tuner.search.space import Index, Space

P = TypeVar("P")

GROUPS: Final = {
    "hardware": ("tile_b", "tile_ci", "tile_co"),
    "mapping": ("tile_h", "tile_w"),
    "scheduling": ("h_threading", "oc_threading", "loop_order", "fusion"),
}
"""Knobs of each agent, in the order in which they move; unknown knobs are the hardware's."""

WALKERS: Final = 32
STEPS: Final = 12
ROUNDS: Final = 2
"""Rollouts of `WALKERS` x `STEPS`, each followed by an update, in a plan."""


class DcocTuner(PlannedTuner[P]):
    """Multi-agent co-design."""

    independent = False
    """Whether every agent has a critic of its own."""

    def __init__(
        self,
        space: Space[P],
        *,
        legality: Legality | str = Legality.MASK,
        view: View | str = View.OWN,
        excess: Excess = unit_excess,
        settings: MappoSettings | None = None,
        walkers: int = WALKERS,
        steps: int = STEPS,
        rounds: int = ROUNDS,
        **options: Any,
    ) -> None:
        super().__init__(space, **options)
        self._shape: Final = (walkers, steps, rounds)
        moves = Moves(space.knobs)
        self._walkers: Final = Walkers(
            space,
            self._encoder,
            moves,
            legality=one_of(Legality, legality, "legality"),
            excess=excess,
        )
        self._learner: Final = Mappo(
            self.agents(space, one_of(View, view, "view")),
            features=self._encoder.width,
            choices=moves.count,
            settings=settings or MappoSettings(),
            seed=int(self.rng.integers(2**31)),
            independent=self.independent,
        )

    @classmethod
    def agents(cls, space: Space[Any], view: View) -> tuple[Agent, ...]:
        """Who decides on which knobs of a space, seeing what."""
        return divide_knobs(space, GROUPS, rest="hardware", view=view)

    def _explore(self) -> tuple[Index, ...]:
        walkers, steps, rounds = self._shape
        visited: dict[Index, None] = {}
        for _ in range(rounds):
            rollout = self._walkers.walk(
                self._learner.team,
                self._surrogate.scores,
                self._starts(walkers),
                steps=steps,
                rng=self.rng,
            )
            self._learner.update(rollout)
            visited.update(dict.fromkeys(rollout.visited))
        return tuple(visited)

    def _confidence(self, features: Features, scores: Scores) -> Scores:
        """The return of arriving at a candidate: its score and what the critic expects after it."""
        return scores + self._learner.settings.discount * self._learner.values(features)


class IppoTuner(DcocTuner[P]):
    """Three agents that learn independently; arguments as `DcocTuner`."""

    independent = True


class PpoTuner(DcocTuner[P]):
    """A single agent; arguments as `DcocTuner` (``view`` has no effect)."""

    @classmethod
    def agents(cls, space: Space[Any], view: View) -> tuple[Agent, ...]:
        """One agent that owns and sees every knob."""
        del view
        return single_agent(space)
