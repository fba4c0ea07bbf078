# SPDX-License-Identifier: Apache-2.0
"""What a prior leaves out, learned from measurements: a Gaussian process on log-residuals.

The target is log(measured / predicted), which is small and smooth where the prior has the right
shape. The kernel has a part that all tasks of a study share and a part of each task's own
(the intrinsic model of coregionalisation with one shared factor: Bonilla, Chai and Williams,
NIPS 2007), so what is learned on one layer or configuration serves the next before it is measured.

    k((x, t), (y, u)) = a (1 + r(x, y)) / 2 + (t == u) a (1 + r(x, y)) / 2,
    r(x, y) = exp(-|x - y|^2 / (2 L^2))

The length scale L and the noise share are the maximum of the marginal likelihood on a small grid;
the variance a is its maximum in closed form (Rasmussen and Williams, 2006, section 5.4.1).
An observation's noise is at least what its own measurement is known to have.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

LENGTHS: Final = (0.5, 1.0, 2.0, 4.0)
NOISES: Final = (1e-4, 1e-2, 1e-1)
"""Shares of noise in the variance: what the features cannot tell apart."""

SPREAD: Final = 0.05
"""Standard deviation of a log-residual before anything is measured; what few data are drawn to."""

SPREAD_WEIGHT: Final = 2.0
"""Measurements that `SPREAD` counts as."""

OWN_LIMIT: Final = 128
SHARED_LIMIT: Final = 64
"""Observations that a posterior rests on: of the task itself, and of all others."""

FITTED: Final = 64
"""Observations of each of the two that the hyper-parameters are fitted to."""


@dataclass(frozen=True, kw_only=True)
class Observation:
    """One measurement."""

    features: Floats  # of the point, float64 of shape (features,)
    residual: float  # log(measured / predicted)
    log_cost: float  # log(measured)
    variance: float = 0.0  # of ``log_cost``, as far as the measurement itself is noisy


@dataclass
class ResidualPool:
    """Observations of all tasks of a study, shared by their tuners.

    Features must mean the same in all of them: tuners with another number of features do not
    see each other.
    """

    tasks: dict[str, list[Observation]] = field(default_factory=dict)

    def add(self, task: str, observation: Observation) -> None:
        """Take in a measurement of a task."""
        self.tasks.setdefault(task, []).append(observation)

    def near(self, task: str, width: int) -> tuple[list[Observation], list[Observation]]:
        """Observations of a task, and those of others: the nearest to their best first."""
        own = _best(self.tasks.get(task, []), OWN_LIMIT)
        others: list[tuple[float, Observation]] = []
        for name, found in self.tasks.items():
            if name != task and len(found[0].features) == width:
                floor = min(observation.log_cost for observation in found)
                others += [(o.log_cost - floor, o) for o in found]
        others.sort(key=lambda entry: entry[0])
        return own, [observation for _, observation in others[:SHARED_LIMIT]]


def _best(found: list[Observation], limit: int) -> list[Observation]:
    return sorted(found, key=lambda observation: observation.log_cost)[:limit]


@dataclass(frozen=True, kw_only=True)
class KernelShape:
    """Hyper-parameters of the kernel but the variance."""

    length: float = LENGTHS[1]  # length scale
    noise: float = NOISES[0]  # share of noise in the variance


def fit_kernel_shape(own: list[Observation], others: list[Observation]) -> KernelShape:
    """The shape of the largest marginal likelihood on the grid.

    Some of the best observations decide: where the search goes, the fit must be good.
    """
    own, others = own[:FITTED], others[:FITTED]
    x, y, mine = _stacked(own, others)
    distances = _distances(x, x)
    best = (float("-inf"), KernelShape())
    for length in LENGTHS:
        values, vectors = np.linalg.eigh(_joined(distances, mine, mine, length))
        turned = (vectors.T @ y) ** 2
        for noise in NOISES:
            powers = np.maximum(values, 0) + noise
            amplitude = _amplitude(float((turned / powers).sum()), len(y))
            fit = (turned / powers).sum() / amplitude + len(y) * np.log(amplitude)
            likelihood = float(-0.5 * (fit + np.log(powers).sum()))
            best = max(
                best, (likelihood, KernelShape(length=length, noise=noise)), key=lambda b: b[0]
            )
    return best[1]


def _amplitude(fit: float, count: int) -> float:
    """The likeliest variance, drawn to `SPREAD`; ``fit`` is y' K^-1 y."""
    return (SPREAD_WEIGHT * SPREAD**2 + fit) / (SPREAD_WEIGHT + count)


def _noise_shares(
    observations: list[Observation], kernel: Floats, y: Floats, noise: float
) -> Floats:
    """Noise of each observation as a share of the variance, which is fitted without it first."""
    shares = np.full(len(y), noise)
    known = np.array([observation.variance for observation in observations])
    if not known.any():
        return shares
    fit = float(y @ np.linalg.solve(kernel + np.diag(shares), y))
    return np.asarray(np.maximum(shares, known / _amplitude(fit, len(y))), dtype=np.float64)


def _stacked(
    own: list[Observation], others: list[Observation]
) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Features, residuals, and which observations are the task's own."""
    everything = [*own, *others]
    x = np.stack([observation.features for observation in everything])
    y = np.array([observation.residual for observation in everything])
    return x, y, np.arange(len(everything)) < len(own)


class Posterior:
    """Mean and variance of the residual at some points, (points,) each, updated point by point."""

    def __init__(
        self,
        own: list[Observation],
        others: list[Observation],
        points: Floats,
        shape: KernelShape | None = None,
    ) -> None:
        self._points: Final = points
        self._shape: Final = shape or KernelShape()
        self._variance = SPREAD**2
        self._factor: npt.NDArray[Any] = np.zeros((0, len(points)))
        self.mean: Floats = np.zeros(len(points))
        self.variance: Floats = np.full(len(points), self._variance)
        if not own and not others:
            return
        x, y, mine = _stacked(own, others)
        length, noise = self._shape.length, self._shape.noise
        covariance = _joined(_distances(x, x), mine, mine, length)
        covariance += np.diag(_noise_shares([*own, *others], covariance, y, noise))
        cross = _kernel(x, points, mine, np.ones(len(points), dtype=bool), length)
        lower = np.linalg.cholesky(covariance)
        solved = np.linalg.solve(lower, np.column_stack([y, cross]))
        half, self._factor = solved[:, 0], solved[:, 1:]
        self._variance = _amplitude(float(half @ half), len(y))
        self.mean = np.asarray(half @ self._factor, dtype=np.float64)
        left = 1.0 - np.einsum("ij,ij->j", self._factor, self._factor)
        self.variance = self._variance * np.maximum(left, 1e-12)

    def expect(self, place: int) -> None:
        """Count a point as measured with its mean: what a batch proposes next keeps away.

        The variance left is that of a Gaussian process with one more observation there (the
        kriging believer: Ginsbourger, Le Riche and Carraro, 2010).
        """
        here = self._points[place : place + 1]
        mine = np.ones(len(self._points), dtype=bool)
        cross = _kernel(here, self._points, mine[:1], mine, self._shape.length)[0]
        cross -= self._factor[:, place] @ self._factor
        scale = np.sqrt(max(self.variance[place] / self._variance, 0.0) + self._shape.noise)
        row = cross / scale
        self._factor = np.vstack([self._factor, row])
        self.variance = np.maximum(self.variance - self._variance * row**2, 1e-12 * self._variance)


def _distances(x: Floats, y: Floats) -> Floats:
    """Squared distances, shape (len(x), len(y))."""
    squares = (x**2).sum(axis=1)[:, None] + (y**2).sum(axis=1)[None, :]
    return np.asarray(np.maximum(squares - 2 * x @ y.T, 0.0), dtype=np.float64)


def _joined(
    distances: Floats, task_x: npt.NDArray[np.bool_], task_y: npt.NDArray[np.bool_], length: float
) -> Floats:
    """The kernel with variance 1."""
    shape = (1 + np.exp(distances / (-2 * length**2))) / 2
    same = task_x[:, None] & task_y[None, :]
    return np.asarray(shape * (0.5 + 0.5 * same), dtype=np.float64)


def _kernel(
    x: Floats,
    y: Floats,
    task_x: npt.NDArray[np.bool_],
    task_y: npt.NDArray[np.bool_],
    length: float,
) -> Floats:
    return _joined(_distances(x, y), task_x, task_y, length)
