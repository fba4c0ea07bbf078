# SPDX-License-Identifier: Apache-2.0
"""Bayesian optimisation with BoTorch over the cube of `latent`, capped.

A Gaussian process costs a cube of what it is fitted to, so 20,000 samples are out of its reach. It
sees the best `LEARNT` samples, chooses `BATCH` at a time among random mappings and changes of the
best, and stops after `CAP` samples; the rest of a larger budget stays unused, and a `Trace` says
so in ``samples``.

Sources: Balandat et al., "BoTorch", NeurIPS 2020; log expected improvement: Ament et al., NeurIPS
2023. A batch spreads by the kriging believer: Ginsbourger et al., 2010.
"""

from __future__ import annotations

import math
import warnings
from contextlib import suppress
from typing import Any, Final

import gpytorch
import numpy as np
import torch
from botorch.exceptions.errors import ModelFittingError
from botorch.fit import fit_gpytorch_mll
from botorch.models import SingleTaskGP
from botorch.models.transforms import Standardize

from tilewright.tuner.mapping.methods.latent import Latent, Vectors
from tilewright.tuner.mapping.methods.mapper import Mapper, Probe
from tilewright.tuner.search.libraries.botorch_tuner import log_expected_improvement
from tilewright.tuner.search.samples import Values
from tilewright.tuner.search.torch_threads import one_thread

CAP: Final = 1000
FIRST: Final = 50
BATCH: Final = 25
LEARNT: Final = 200
CANDIDATES: Final = 512
CENTRES: Final = 5
"""Best samples whose changes are candidates, too."""
REFIT: Final = 5
"""Batches between two fits of the hyper-parameters."""
FIT_STEPS: Final = 20


class BayesianMapper(Mapper):
    """A Gaussian process on the logarithm of the cost."""

    def _search(self, probe: Probe, rng: np.random.Generator) -> None:
        latent = Latent(probe.space)
        probe.notes["cap"] = CAP
        vectors = rng.random((FIRST, latent.width))
        costs = np.log(probe.values(latent.decode(vectors)))
        parameters: dict[str, Any] = {}
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for batch in range((CAP - FIRST) // BATCH):
                best = np.argsort(costs, kind="stable")
                known = best[:LEARNT]
                candidates = _candidates(vectors[best[:CENTRES]], latent.width, rng)
                model = _fitted(vectors[known], costs[known], parameters, batch % REFIT == 0)
                chosen = _choose(model, candidates, float(costs.min()))
                vectors = np.concatenate([vectors, candidates[chosen]])
                found = probe.values(latent.decode(candidates[chosen]))
                costs = np.concatenate([costs, np.log(found)])


def _candidates(centres: Vectors, width: int, rng: np.random.Generator) -> Vectors:
    """Random points, and centres with a few coordinates drawn anew or moved a little."""
    far = rng.random((CANDIDATES // 4, width))
    count = CANDIDATES - len(far)
    near = centres[rng.integers(len(centres), size=count)]
    changed = rng.random((count, width)) < 3 / width
    moved = np.clip(near + rng.normal(0, 0.1, near.shape), 0, 1)
    fresh = np.where(rng.random((count, 1)) < 0.5, moved, rng.random(near.shape))
    return np.concatenate([far, np.where(changed, fresh, near)])


def _fitted(vectors: Vectors, costs: Values, parameters: dict[str, Any], fit: bool) -> Any:
    """A process on these points; its hyper-parameters are kept in ``parameters``."""
    model = SingleTaskGP(
        torch.from_numpy(vectors),
        torch.from_numpy(costs).unsqueeze(-1),
        outcome_transform=Standardize(1),
    )
    model.load_state_dict(parameters, strict=False)
    if fit:
        likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
        with torch.random.fork_rng(devices=[]), suppress(ModelFittingError):
            torch.manual_seed(len(costs))
            fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": FIT_STEPS}})
        parameters.update({n: p.detach().clone() for n, p in model.named_parameters()})
    return model.eval()


def _choose(model: Any, candidates: Vectors, lowest: float) -> list[int]:
    """The candidates of a batch, each after the process believes the ones before."""
    with torch.no_grad():
        posterior = model.posterior(torch.from_numpy(candidates))
        mean, covariance = posterior.mean.squeeze(-1), posterior.covariance_matrix
        chosen: list[int] = []
        for _ in range(BATCH):
            deviation = covariance.diagonal().clamp_min(1e-12).sqrt()
            merit = log_expected_improvement(mean, deviation, lowest)
            merit[chosen] = -math.inf
            pick = int(merit.argmax())
            chosen.append(pick)
            column = covariance[pick]
            covariance = covariance - torch.outer(column, column) / column[pick].clamp_min(1e-12)
    return chosen
