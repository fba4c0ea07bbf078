# SPDX-License-Identifier: Apache-2.0
"""CHAMELEON: a learning walker over the cost model, and clustering of what it finds.

Source: Ahn et al., "CHAMELEON: Adaptive Code Optimization for Expedited Deep Neural Network
Compilation", ICLR 2020. `ChameleonTuner` is the method as published. `ChameleonCodeTuner` is what
the public code runs: its tuner builds the sampler but never hands it to the loop, so that the
points with the highest scores are measured without clustering, and its walks end where most knobs
settle. Both fit the relative speed itself (regression) and keep the best 64 points of a search, as
that code does.

CHAMELEON's adaptive exploration: an agent that learns to walk uphill on the cost model.

Source: Ahn et al., ICLR 2020, section 4.1, with the settings of its public code: proximal policy
optimisation (Schulman et al., 2017; clip 0.2, 3 epochs, Adam 1e-3, discount 0.9, GAE 0.99, entropy
0.3), two networks with layers of 20 units, 128 walks of at most 500 steps. The agent observes
each knob's position over its size and lowers, keeps or raises every knob at once; the reward
is the score of the point that it reaches. The agent remembers what it learnt from one search to
the next.

In the public code a walk ends when three quarters of the knobs were kept or stand at an end,
which in spaces of small knobs is after a few steps (``settling``). Without it all walks take their
500 steps, in stretches of 50 after which the agent learns, and the search ends early when
a stretch brought no new leader (AutoTVM's rule).

Differences from the public code: walks run side by side, and the agent learns from all their
steps instead of 32 of each walk; the ratio of PPO is that of the whole move; rewards are
standardised; an unordered knob wraps around; a move to a point that the mask refuses leaves the
walker where it is.

Adaptive sampling: which few of many promising points are worth a measurement.

Source: Ahn et al., "CHAMELEON: Adaptive Code Optimization for Expedited Deep Neural Network
Compilation", ICLR 2020, section 4.2 and algorithm 1; the step and the threshold of the knee are
those of its public code. The points are clustered with k = 8, 16, ... until one more step of k no
longer lowers the loss much, and the centroids stand for them. A centroid that cannot be measured
is replaced by a synthesised point: in each knob the most frequent value (mode).

Two choices are ours. Clusters are formed over all knobs, each scaled to [0, 1] (the public code
takes the raw positions of the two largest knobs); and a replacement is the mode of the cluster
first, then of all points, then the cluster's first point, since the mask refuses some modes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, TypeVar

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from tilewright.tuner.search.learning.mappo import Reals, generalised_advantages
from tilewright.tuner.search.model_based import planned_search
from tilewright.tuner.search.model_based.cost_model import Objective
from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.torch_threads import one_thread
from tilewright.tuner.search.tuner import Offer

WALKS: Final = 128
STEPS: Final = 500
STRETCH: Final = 50
SETTLING_WALKS: Final = 4
"""Walks between two lessons when walks settle."""

UNITS: Final = 20
MOVES: Final = 3
SETTLED_SHARE: Final = 0.75

LEARNING_RATE: Final = 1e-3
DISCOUNT: Final = 0.9
GAE_DECAY: Final = 0.99
CLIP: Final = 0.2
EPOCHS: Final = 3
MINI_BATCH: Final = 1024
VALUE_WEIGHT: Final = 1.0
ENTROPY_WEIGHT: Final = 0.3

Positions = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Walks:
    """Walks side by side."""

    seen: Reals  # observations, shape (steps, walkers, knobs)
    moves: Positions  # 0 lower, 1 keep, 2 raise; shape (steps, walkers, knobs)
    reached: Positions  # positions after each move, shape (steps, walkers, knobs)
    walking: npt.NDArray[np.bool_]  # whether a walker made this step, shape (steps, walkers)
    settled: npt.NDArray[np.bool_]  # whether a walker's way ended, shape (walkers,)

    @property
    def ends(self) -> list[Index]:
        """Where the walkers stand."""
        return _indices(self.reached[-1])


class AdaptiveExploration:
    """Walkers that share one policy."""

    def __init__(
        self, space: Space[Any], rng: np.random.Generator, *, settling: bool = False
    ) -> None:
        self._space: Final = space
        self._rng: Final = rng
        self._settling: Final = settling
        self._sizes: Final = np.array([len(knob) for knob in space.knobs])
        self._ordered: Final = np.array([knob.ordered for knob in space.knobs])
        knobs = len(space.knobs)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(rng.integers(2**31)))
            self._policy: Final = _network(knobs, knobs * MOVES, hidden=2)
            self._value: Final = _network(knobs, 1, hidden=3)
        self._adam: Final = torch.optim.Adam(
            [*self._policy.parameters(), *self._value.parameters()], lr=LEARNING_RATE, eps=1e-5
        )

    def maximise(self, score: planned_search.Score, leaders: planned_search.Leaders) -> None:
        """Walk, learn, and offer every point reached to ``leaders``."""
        with one_thread():
            if self._settling:
                for _ in range(WALKS // SETTLING_WALKS):
                    self._stretch(self._start(SETTLING_WALKS, score, leaders), score, leaders)
            else:
                ends = self._start(WALKS, score, leaders)
                for _ in range(STEPS // STRETCH):
                    ends, gained = self._stretch(ends, score, leaders)
                    if not gained:
                        break

    def _start(
        self, count: int, score: planned_search.Score, leaders: planned_search.Leaders
    ) -> list[Index]:
        """Valid samples to walk from."""
        drawn = (self._space.sample(self._rng) for _ in range(count))
        starts = [point for point in drawn if point is not None]
        leaders.offer(starts, score(starts))
        return starts

    def _stretch(
        self, starts: list[Index], score: planned_search.Score, leaders: planned_search.Leaders
    ) -> tuple[list[Index], bool]:
        """Walk and learn from it; where the walks end, and whether they met a new leader."""
        if not starts:
            return [], False
        walks = self._walk(np.array(starts, dtype=np.int64))
        points = _indices(walks.reached[walks.walking])
        scores = score(points)
        rewards = np.zeros(walks.walking.shape, dtype=np.float32)
        rewards[walks.walking] = (scores - scores.mean()) / (scores.std() + 1e-8)
        self._learn(walks, rewards)
        return walks.ends, leaders.offer(points, scores)

    def _walk(self, here: Positions) -> Walks:
        """Walks with the present policy, from positions of shape (walkers, knobs)."""
        walking = np.ones(len(here), dtype=np.bool_)
        steps: list[tuple[Any, Any, Any, Any]] = []
        while walking.any() and len(steps) < (STEPS if self._settling else STRETCH):
            seen = self._observe(here)
            moves = self._decide(seen)
            wanted = here + moves - 1
            wanted = np.where(
                self._ordered, np.clip(wanted, 0, self._sizes - 1), wanted % self._sizes
            )
            may = walking & [self._space.valid(point) for point in _indices(wanted)]
            here = np.where(may[:, None], wanted, here)
            steps.append((seen, moves, here, walking))
            if self._settling:
                walking = walking & (self._settled(moves, wanted) < SETTLED_SHARE)
        seen, moves, reached, made = map(np.stack, zip(*steps, strict=True))
        return Walks(seen=seen, moves=moves, reached=reached, walking=made, settled=~walking)

    def _observe(self, positions: Positions) -> Reals:
        return np.asarray(positions / self._sizes, dtype=np.float32)

    def _settled(self, moves: Positions, wanted: Positions) -> npt.NDArray[np.float64]:
        """Share of each walker's knobs that were kept or were moved to an end."""
        low = (moves == 0) & (wanted == 0)
        high = (moves == 2) & (wanted == self._sizes - 1)
        share: npt.NDArray[np.float64] = np.mean(
            (moves == 1) | (self._ordered & (low | high)), axis=1
        )
        return share

    def _decide(self, seen: Reals) -> Positions:
        """A move drawn from the policy for each walker and knob, shape (walkers, knobs)."""
        with torch.no_grad():
            chances = torch.softmax(self._logits(torch.from_numpy(seen)), dim=-1).numpy()
        draws = self._rng.random(chances.shape[:-1], dtype=np.float32)
        above = draws[..., None] > np.cumsum(chances, axis=-1)[..., :-1]
        moves: Positions = np.sum(above, axis=-1, dtype=np.int64)
        return moves

    def _logits(self, seen: Tensor) -> Tensor:
        """Preferences of shape (..., knobs, moves)."""
        found: Tensor = self._policy(seen)
        return found.reshape(*seen.shape, MOVES)

    def _learn(self, walks: Walks, rewards: Reals) -> None:
        """Proximal policy optimisation on walks with rewards of shape (steps, walkers)."""
        ends = self._observe(walks.reached[-1])
        with torch.no_grad():
            values = self._value(torch.from_numpy(walks.seen)).squeeze(-1).numpy()
            beyond = self._value(torch.from_numpy(ends)).squeeze(-1).numpy()
        # Nothing follows where a walk has ended.
        values = np.vstack([values * walks.walking, beyond * ~walks.settled])
        gains = generalised_advantages(
            rewards, values, discount=DISCOUNT, trace=GAE_DECAY, walking=walks.walking
        )
        returns = gains + values[:-1]
        seen = torch.from_numpy(walks.seen[walks.walking])
        moves = torch.from_numpy(walks.moves[walks.walking])
        target = torch.from_numpy(returns[walks.walking])
        gain = torch.from_numpy(gains[walks.walking])
        gain = (gain - gain.mean()) / (gain.std(unbiased=False) + 1e-8)
        with torch.no_grad():
            before = self._chances(seen, moves)[0]
        for _ in range(EPOCHS):
            order = torch.from_numpy(self._rng.permutation(len(seen)))
            for start in range(0, len(seen), MINI_BATCH):
                rows = order[start : start + MINI_BATCH]
                after, entropy = self._chances(seen[rows], moves[rows])
                ratio = torch.exp(after - before[rows])
                clipped = ratio.clamp(1 - CLIP, 1 + CLIP)
                merit = torch.minimum(ratio * gain[rows], clipped * gain[rows]).mean()
                value_error = (self._value(seen[rows]).squeeze(-1) - target[rows]).square().mean()
                loss = VALUE_WEIGHT * value_error - merit - ENTROPY_WEIGHT * entropy.mean()
                self._adam.zero_grad()
                torch.autograd.backward(loss)
                self._adam.step()

    def _chances(self, seen: Tensor, moves: Tensor) -> tuple[Tensor, Tensor]:
        """Log-probability of whole moves, and the mean entropy of a knob's choice."""
        logs = torch.log_softmax(self._logits(seen), dim=-1)
        chosen = logs.gather(-1, moves.unsqueeze(-1)).squeeze(-1).sum(dim=-1)
        return chosen, -(logs.exp() * logs).sum(dim=-1).mean(dim=-1)


def _indices(positions: Positions) -> list[Index]:
    """Rows of positions as indices."""
    return [tuple(row) for row in positions.tolist()]


def _network(inputs: int, outputs: int, *, hidden: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in [inputs] + [UNITS] * (hidden - 1):
        layers += [nn.Linear(width, UNITS), nn.Tanh()]
    return nn.Sequential(*layers, nn.Linear(UNITS, outputs))


STEP: Final = 8
LIMIT: Final = 64

KNEE: Final = 2.5
"""k grows while each step divides the loss by more than this."""


def adaptive_sample(
    space: Space[Any],
    points: Sequence[Index],
    *,
    wanted: Callable[[Index], bool],
    seed: int,
    limit: int = LIMIT,
    knee: float = KNEE,
) -> list[Index]:
    """Points that stand for ``points``: at most ``limit``, all wanted, without repetition."""
    if len(points) <= STEP:
        return [point for point in points if wanted(point)]
    positions = np.array(points, dtype=np.int64)
    extent = np.maximum(1, np.array([len(knob) for knob in space.knobs]) - 1)
    centres, labels = _cluster(positions / extent, seed=seed, limit=limit, knee=knee)
    common = mode(positions)
    chosen: dict[Index, None] = {}
    for cluster, centre in enumerate(np.rint(centres * extent).astype(np.int64)):
        members = positions[labels == cluster]
        for candidate in (centre, mode(members), common, members[0]):
            index = tuple(int(position) for position in candidate)
            if index not in chosen and wanted(index):
                chosen[index] = None
                break
    return list(chosen)


def mode(positions: Positions) -> Positions:
    """The most frequent position of each knob (the lowest of equals), shape (knobs,)."""
    return np.array([np.bincount(column).argmax() for column in positions.T], dtype=np.int64)


def _cluster(
    scaled: npt.NDArray[np.float64], *, seed: int, limit: int, knee: float
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Centres, shape (k, knobs), and the cluster of each point, at the knee of the loss."""
    from sklearn.cluster import KMeans  # noqa: PLC0415 - an optional dependency

    # threadpoolctl comes with scikit-learn and has no types.
    from threadpoolctl import threadpool_limits  # type: ignore[import-untyped] # noqa: PLC0415  (optional)

    distinct = len(np.unique(scaled, axis=0))
    last_loss = np.inf
    with threadpool_limits(limits=1):  # sums in another order may change a label
        for k in range(STEP, max(STEP, min(limit, distinct)) + 1, STEP):
            found = KMeans(n_clusters=min(k, distinct), n_init=1, random_state=seed).fit(scaled)
            if found.inertia_ >= last_loss / knee:
                break
            last_loss = found.inertia_
    return found.cluster_centers_, found.labels_


P = TypeVar("P")


class ChameleonCodeTuner(planned_search.ModelBasedTuner[P]):
    """Adaptive exploration alone; arguments as `ModelBasedTuner`."""

    takes: ClassVar = frozenset({Offer.EXPERIENCE})
    SETTLING: ClassVar[bool] = True

    def __init__(
        self, space: Space[P], *, objective: Objective = "regression", **options: Any
    ) -> None:
        super().__init__(space, objective=objective, **options)
        self._exploration: Final = AdaptiveExploration(space, self.rng, settling=self.SETTLING)

    def _explorer(self) -> planned_search.Explorer:
        return self._exploration


class ChameleonTuner(ChameleonCodeTuner[P]):
    """Adaptive exploration and adaptive sampling: fewer measurements between two fits."""

    SETTLING: ClassVar[bool] = False

    def __init__(self, space: Space[P], *, knee: float = KNEE, **options: Any) -> None:
        super().__init__(space, **options)
        self._knee: Final = knee

    def _select(self, points: list[Index]) -> list[Index]:
        return adaptive_sample(
            self.space,
            points,
            wanted=self.is_new,
            seed=int(self.rng.integers(2**31)),
            limit=self._plan_size,
            knee=self._knee,
        )
