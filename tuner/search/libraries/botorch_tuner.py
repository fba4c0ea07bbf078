# SPDX-License-Identifier: Apache-2.0
"""Bayesian optimisation with BoTorch: a Gaussian process and log expected improvement.

Sources: Balandat et al., "BoTorch", NeurIPS 2020; log expected improvement: Ament et al., NeurIPS
2023, equations 8 and 9; batches by the kriging believer: Ginsbourger et al., 2010. Made for small
budgets: a fit costs a cube of the measurements, so the process sees the best 128 of them.

A proposal is the best of `SAMPLES` valid samples and the neighbours of the `CENTRES` best
points. The process is refitted when the results have grown by 30 % and conditioned on the new
ones between (a fit that fails leaves what the last one found). Costs are learnt as logarithms.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, TypeVar, cast

import gpytorch
import torch
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Normalize, Standardize
from torch import Tensor

from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.space import Index, Space
from tilewright.tuner.search.torch_threads import one_thread
from tilewright.tuner.search.tuner import Result, Tuner

P = TypeVar("P")

WARM_UP: Final = 10
"""Random measurements before the first fit."""

SAMPLES: Final = 256
CENTRES: Final = 4
LEARNT: Final = 128
GROWTH: Final = 1.3
FIT_STEPS: Final = 25
"""Iterations of L-BFGS that a fit may take."""


class Belief:
    """What the process believes of some candidates, while a batch of them is chosen.

    Args:
        candidates: to choose from.
        mean: of the posterior, shape (candidates,).
        covariance: of the posterior, shape (candidates, candidates).
        best: lowest value measured.
    """

    def __init__(
        self, candidates: list[Index], mean: Tensor, covariance: Tensor, best: float
    ) -> None:
        self._candidates: Final = candidates
        self._mean: Final = mean
        self._covariance = covariance
        self._best: Final = best
        self._open: Final = torch.ones(len(candidates), dtype=torch.bool)

    def choose(self) -> Index | None:
        """The candidate with the highest log expected improvement, believed from now on.

        A value that is believed to be the mean leaves the mean of all as it is; what shrinks is
        the variance of the candidates that are alike, so a batch spreads.
        """
        if not bool(self._open.any()):
            return None
        deviation = self._covariance.diagonal().clamp_min(1e-12).sqrt()
        merit = log_expected_improvement(self._mean, deviation, self._best)
        chosen = int(merit.masked_fill(~self._open, -math.inf).argmax())
        self._open[chosen] = False
        row = self._covariance[chosen]
        self._covariance = self._covariance - torch.outer(row, row) / row[chosen].clamp_min(1e-12)
        return self._candidates[chosen]


class BotorchTuner(Tuner[P]):
    """A Gaussian process over the features of the points."""

    positive: ClassVar = True

    def __init__(
        self, space: Space[P], *, seed: int | tuple[int, ...], initial: Sequence[Index] = ()
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        self._encoder: Final = FeatureEncoder(cast("Space[object]", space))
        self._costs: dict[Index, float] = {}
        self._parameters: dict[str, Any] = {}
        self._next_fit = WARM_UP
        self._belief: Belief | None = None

    def _propose(self) -> Index | None:
        if len(self._costs) < WARM_UP:
            return None
        with one_thread():
            if self._belief is None:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    self._belief = self._believe()
            return self._belief.choose()

    def _learn(self, result: Result) -> None:
        if result.value is not None:
            self._costs[result.index] = result.value
            self._belief = None

    def _believe(self) -> Belief:
        """Posterior of fresh candidates, given the measurements and what is under way."""
        known = sorted(self._costs, key=self._costs.__getitem__)
        candidates = self._candidates(known[:CENTRES])
        awaited = [index for index in self._pending if index not in self._costs]
        if not candidates:
            return Belief([], torch.zeros(0), torch.zeros(0, 0), 0.0)
        known = known[:LEARNT]
        logs = torch.tensor([math.log(self._costs[index]) for index in known]).double()
        model = self._fitted(self._encode(known), logs.unsqueeze(-1))
        with torch.no_grad():
            posterior = model.posterior(self._encode([*sorted(awaited), *candidates]))
            mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
        for row in range(len(awaited)):
            column = covariance[row]
            covariance = covariance - torch.outer(column, column) / column[row].clamp_min(1e-12)
        rest = slice(len(awaited), None)
        return Belief(candidates, mean[rest], covariance[rest, rest], float(logs.min()))

    def _candidates(self, centres: list[Index]) -> list[Index]:
        """New valid points: neighbours of the centres, and samples."""
        near = [point for centre in centres for point in self.space.neighbours(centre)]
        drawn = (self.space.sample(self.rng) for _ in range(SAMPLES))
        far = [point for point in drawn if point is not None]
        return [point for point in dict.fromkeys(near + far) if self.is_new(point)]

    def _fitted(self, features: Tensor, targets: Tensor) -> Any:
        """A process on points (points, features), its hyper-parameters fitted when it is time."""
        model = SingleTaskGP(
            features,
            targets,
            input_transform=Normalize(features.shape[-1]),
            outcome_transform=Standardize(1),
        )
        model.load_state_dict(self._parameters, strict=False)
        if len(self._costs) >= self._next_fit:
            self._next_fit = math.ceil(len(self._costs) * GROWTH)
            likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
            with torch.random.fork_rng(devices=[]), suppress(ModelFittingError):
                torch.manual_seed(len(self._costs))
                fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": FIT_STEPS}})
            self._parameters = {
                name: value.detach().clone() for name, value in model.named_parameters()
            }
        return model.eval()

    def _encode(self, indices: Sequence[Index]) -> Tensor:
        """Features in double precision, shape (points, features)."""
        return torch.from_numpy(self._encoder.encode(indices)).double()


def log_expected_improvement(mean: Tensor, deviation: Tensor, best: float) -> Tensor:
    """Logarithm of how far below ``best`` a normal variable is expected to fall.

    Args:
        mean: shape (points,).
        deviation: shape (points,), above 0.
        best: what is to be improved on.

    Returns:
        log(deviation) + log(phi(z) + z Phi(z)) with z = (best - mean) / deviation, without
        underflow for z far below 0; shape (points,).
    """
    z = (best - mean) / deviation
    root_half, root_half_pi = math.sqrt(0.5), math.sqrt(math.pi / 2)
    log_density = -0.5 * z.square() - 0.5 * math.log(2 * math.pi)
    upper = z.clamp_min(-1.0)
    direct = torch.exp(-0.5 * upper.square()) / math.sqrt(2 * math.pi)
    direct = (direct + upper * 0.5 * torch.erfc(-root_half * upper)).log()
    lower = z.clamp_max(-1.0)
    # z Phi(z) / phi(z), near -1 for small z: below -1e4 its expansion -1 + 1 / z**2.
    ratio = root_half_pi * lower * torch.special.erfcx(-root_half * lower)
    tail = torch.where(
        lower > -1e4, torch.log1p(ratio.clamp_min(-1 + 1e-15)), -2 * torch.log(-lower)
    )
    return deviation.log() + torch.where(z > -1.0, direct, log_density + tail)
