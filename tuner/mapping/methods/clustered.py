# SPDX-License-Identifier: Apache-2.0
"""The clustered multi-agent mapper: roles come from what good samples have in common.

Source: Krishnan et al., arXiv 2507.16249, algorithm 1 and section IV.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final

import numpy as np

from tilewright.host.common.errors import ConfigError
from tilewright.tuner.mapping.cost import Costs
from tilewright.tuner.mapping.learning.clustering import cluster
from tilewright.tuner.mapping.mapping import Batch
from tilewright.tuner.mapping.methods.mapper import Probe
from tilewright.tuner.mapping.methods.registry import make_mapper
from tilewright.tuner.mapping.methods.team import TeamMapper
from tilewright.tuner.mapping.roles import Roles

AGENTS: Final = 6
SETUP_SAMPLES: Final = 2000


class ClusteredMapper(TeamMapper):
    """A team whose roles are clusters of knobs.

    The data set is sampled before the run, outside of its budget, as in the paper;
    `Trace.setup_samples` tells its size.

    Args:
        agents: at most so many.
        policy: the mapper that samples the data set.
        setup_samples: of the data set.
        options: of `TeamMapper`.

    Raises:
        ConfigError: no agent, or too few samples to correlate.
    """

    def __init__(
        self,
        *,
        agents: int = AGENTS,
        policy: str = "random",
        setup_samples: int = SETUP_SAMPLES,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        for name, value, least in (("agents", agents, 1), ("setup_samples", setup_samples, 16)):
            if type(value) is not int or value < least:
                raise ConfigError(
                    f"must be an integer of at least {least}", field=name, value=value
                )
        self._agents: Final = agents
        self._policy: Final = policy
        self._setup_samples: Final = setup_samples

    def _roles(self, probe: Probe, rng: np.random.Generator) -> Roles:
        recorder = Recorder(probe.model, probe.objective, self._setup_samples)
        trace = make_mapper(self._policy).spend(recorder, int(rng.integers(2**31)))
        rows, values = np.concatenate(recorder.rows), np.concatenate(recorder.values_seen)
        found = cluster(probe.space, rows, values)
        roles = found.roles(self._agents)
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
