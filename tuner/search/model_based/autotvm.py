# SPDX-License-Identifier: Apache-2.0
"""AutoTVM: a learned ranking of points, searched by simulated annealing.

Source: Chen et al., "Learning to Optimize Tensor Programs", NeurIPS 2018, with the settings of
TVM 0.8's `XGBTuner`: rank objective, plan of 64, 128 chains of 500 steps, 5 % random. Instead of
the features of a loop nest the model sees the knobs (TVM's feature type ``knob``).

Parallel simulated annealing over a cost model.

Source: Chen et al., NeurIPS 2018, section 4, with the settings of TVM's `sa_model_optimizer.py`:
128 chains of at most 500 steps, temperature falling linearly from 1 to 0, end when 50 steps
brought no new leader; the chains go on next time from where they stood. A step changes one
random knob to another value. TVM walks through points that cannot be built; here a chain refuses
them, since every tuner has the same mask.
"""

from __future__ import annotations

from typing import Any, ClassVar, Final, TypeVar

import numpy as np

from tilewright.tuner.search.model_based import planned_search
from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.tuner import Offer

CHAINS: Final = 128
STEPS: Final = 500
PATIENCE: Final = 50
HOT: Final = 1.0
COLD: Final = 0.0


class SimulatedAnnealing:
    """Chains that climb a score and are allowed to step down while they are hot."""

    def __init__(self, space: Space[Any], rng: np.random.Generator) -> None:
        self._space: Final = space
        self._rng: Final = rng
        self._sizes: Final = np.array([len(knob) for knob in space.knobs])
        self._free: Final = np.flatnonzero(self._sizes > 1)
        self._chains: list[Index] = []

    def maximise(self, score: planned_search.Score, leaders: planned_search.Leaders) -> None:
        """Anneal; everything valid that a chain stood on is offered to ``leaders``."""
        chains = self._start()
        if not chains:
            return
        merits = score(chains)
        leaders.offer(chains, merits)
        last_gain = 0
        for step in range(STEPS if len(self._free) else 0):
            temperature = HOT + (COLD - HOT) * step / STEPS
            moved = self._mutate(chains)
            new_merits = score(moved)
            gain = np.minimum((new_merits - merits) / (temperature + 1e-5), 0.0)
            accepted = self._rng.random(len(chains)) < np.exp(gain)
            for chain in np.flatnonzero(accepted):
                accepted[chain] = self._space.valid(moved[chain])
            stood = [moved[chain] for chain in np.flatnonzero(accepted)]
            for chain, point in zip(np.flatnonzero(accepted), stood, strict=True):
                chains[chain] = point
            merits = np.where(accepted, new_merits, merits)
            if leaders.offer(stood, new_merits[accepted]):
                last_gain = step
            elif step >= last_gain + PATIENCE:
                break
        self._chains = chains

    def _start(self) -> list[Index]:
        """Where the chains stood last time, else valid samples."""
        if self._chains:
            return list(self._chains)
        drawn = (self._space.sample(self._rng) for _ in range(CHAINS))
        return [point for point in drawn if point is not None]

    def _mutate(self, chains: list[Index]) -> list[Index]:
        """Each chain with one random knob at another random position."""
        points = np.array(chains)
        rows = np.arange(len(points))
        knobs = self._rng.choice(self._free, size=len(points))
        shift = self._rng.integers(1, self._sizes[knobs])
        points[rows, knobs] = (points[rows, knobs] + shift) % self._sizes[knobs]
        return list(map(tuple, points.tolist()))


P = TypeVar("P")


class AutoTvmTuner(planned_search.ModelBasedTuner[P]):
    """XGBoost rank model with parallel simulated annealing; arguments as `ModelBasedTuner`."""

    takes: ClassVar = frozenset({Offer.EXPERIENCE})

    def __init__(self, space: Space[P], **options: Any) -> None:
        super().__init__(space, **options)
        self._annealing: Final = SimulatedAnnealing(space, self.rng)

    def _explorer(self) -> planned_search.Explorer:
        return self._annealing
