# SPDX-License-Identifier: Apache-2.0
"""Mappers that learn by policy gradients: PPO and A2C, one agent.

Every sample is a step: the agent sees what its last mapping took and was, and chooses the core and
one of `LEVELS` priorities of each job, each from a categorical distribution of its own. The learner
is that of `tuner.search.learning.mappo` with a team of one, which is PPO (Schulman et al., arXiv
1707.06347). With one pass over each rollout its gradient is that of A2C (Mnih et al., ICML 2016;
Huang et al., "A2C is a special case of PPO", arXiv 2205.09123).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Final

import numpy as np
import numpy.typing as npt

from tilewright.tuner.multicore.encoding import Population
from tilewright.tuner.multicore.job_table import JobTable
from tilewright.tuner.multicore.methods.mapper import GroupMapper, Probe
from tilewright.tuner.search.learning.mappo import Mappo, MappoSettings
from tilewright.tuner.search.learning.policy import Agent
from tilewright.tuner.search.learning.rollout import Steps
from tilewright.tuner.search.torch_threads import one_thread

LEVELS: Final = 16
"""Priorities that a job may have; equal ones run in the order of the table."""

LANES: Final = 64
"""Mappings side by side: one rollout."""

SETTINGS: Final = MappoSettings(
    hidden=64, learning_rate=3e-3, discount=0.0, trace=0.0, clip=0.2, epochs=4, entropy=0.03
)
"""A mapping does not change what later ones take: nothing is gained by looking ahead."""

Choices = npt.NDArray[np.int64]
"""Shape ``[n, 2 jobs]``: cores, then levels."""


class PpoMapper(GroupMapper):
    """Proximal policy optimisation."""

    settings: ClassVar[MappoSettings] = SETTINGS

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        table = probe.instance.table
        offered = _offered(table)
        decisions, width = offered.shape
        agent = Agent(
            name="mapper", knobs=tuple(range(decisions)), columns=tuple(range(decisions + 1))
        )
        with one_thread():
            learner = Mappo(
                [agent],
                features=decisions + 1,
                choices=width,
                settings=self.settings,
                seed=int(rng.integers(2**31)),
            )
            masks = np.repeat(offered[None], LANES, axis=0)
            seen = np.zeros((LANES, decisions + 1), dtype=np.float32)
            scale = 0.0
            while True:
                choices, chances = _draw(learner.team.logits(seen), masks, rng)
                costs = np.log(probe.makespans(_population(table, choices)))
                scale = scale or float(costs.mean())
                after = np.concatenate([choices / width, (costs - scale)[:, None]], axis=1)
                features = np.stack([seen, after.astype(np.float32)])
                learner.update(
                    Steps(
                        features=features,
                        moves=choices[None],
                        masks=masks[None],
                        log_probabilities=chances[None],
                        rewards=-costs.astype(np.float32)[None],
                    )
                )
                seen = features[1]


class A2cMapper(PpoMapper):
    """Advantage actor-critic."""

    settings = replace(SETTINGS, epochs=1)


def _offered(table: JobTable) -> npt.NDArray[np.bool_]:
    """What may be chosen, shape ``[decisions, width]``: cores that can run the job, and levels."""
    offered = np.zeros((2 * table.jobs, max(table.cores, LEVELS)), dtype=np.bool_)
    offered[: table.jobs, : table.cores] = np.isfinite(table.latency)
    offered[table.jobs :, :LEVELS] = True
    return offered


def _draw(
    logits: npt.NDArray[np.float32], masks: npt.NDArray[np.bool_], rng: np.random.Generator
) -> tuple[Choices, Any]:
    """Choices by their probabilities, and their log-probabilities, shape ``[n, decisions]``."""
    allowed = np.where(masks, logits.astype(np.float64), -np.inf)
    # The greatest of logit + Gumbel noise is a draw from the softmax.
    choices = (allowed + rng.gumbel(size=logits.shape)).argmax(axis=2)
    shifted = allowed - allowed.max(axis=2, keepdims=True)
    totals = np.log(np.exp(shifted).sum(axis=2))
    chosen = np.take_along_axis(shifted, choices[:, :, None], axis=2)[:, :, 0]
    return choices, (chosen - totals).astype(np.float32)


def _population(table: JobTable, choices: Choices) -> Population:
    return Population(
        core=choices[:, : table.jobs].astype(np.int32),
        priority=choices[:, table.jobs :].astype(np.float64),
    )
