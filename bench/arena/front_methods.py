# SPDX-License-Identifier: Apache-2.0
"""Searches for a front of three objectives over a list of legal points, on equal budgets.

All of them start from the same random points and are then asked for batches. No point is measured
twice, and only legal ones are charged: what a library proposes besides is told as failed, or once
more with what it cost, for nothing.

- ``random``: uniform, without repetition.
- ``nsga2``: Optuna's `NSGAIISampler` (Deb et al., IEEE TEC 2002) on the three objectives.
- ``qlogehvi``: BoTorch (Ament et al., NeurIPS 2023): one Gaussian process for the logarithm of each
  objective; batches by the kriging believer, because the library's own take 2^8 terms for 8 points.
- ``prior``: ours, in closed form: what the layer model predicts, times how far it was off on each
  configuration; chosen is what adds most to the hypervolume of what is measured and under way.
- ``cycles``: the same prediction, but of the cycles alone: what minimising the latency leaves.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import numpy as np

from tilewright.bench.arena.fronts import MARGIN, FrontTask
from tilewright.bench.commands import FIRST_POINTS
from tilewright.tuner.search.fronts import Floats, Ints, front, gain
from tilewright.tuner.search.torch_threads import one_thread

BATCH: Final = 8

POPULATION: Final = 16
"""Of NSGA-II: Optuna's 50 would leave budgets of 64 with little more than random points."""

ATTEMPTS: Final = 500
"""Proposals of NSGA-II for one new legal point; then it is drawn at random."""

CANDIDATES: Final = 256
"""Random points that BoTorch chooses from, with the neighbours of the front."""

SAMPLES: Final = 64
"""Draws from the posterior for one acquisition."""

DOUBTS: Final = (0.0, 1.0, 2.0, 4.0)
"""Standard deviations by which a prediction may be too high, tried in turn."""


class Method(ABC):
    """A search over the rows of a task.

    Args:
        task: whose points are proposed; only a method in closed form looks at its predictions.
        rng: all of its randomness.
    """

    def __init__(self, task: FrontTask, rng: np.random.Generator) -> None:
        self.task: Final = task
        self.rng: Final = rng
        self.measured: list[int] = []

    @abstractmethod
    def choose(self, count: int) -> list[int]:
        """So many points that are not measured yet."""

    def tell(self, points: Sequence[int]) -> None:
        """The costs of points are known from now on."""
        self.measured.extend(points)

    def open(self) -> Ints:
        """Points that are not measured."""
        known = np.zeros(len(self.task.costs), dtype=bool)
        known[self.measured] = True
        return np.flatnonzero(~known)

    def drawn(self, count: int) -> list[int]:
        """Points that are not measured, at random."""
        rest = self.open()
        return [int(p) for p in self.rng.choice(rest, min(count, len(rest)), replace=False)]


class RandomMethod(Method):
    """Uniform, without repetition."""

    def choose(self, count: int) -> list[int]:
        """See `Method.choose`."""
        return self.drawn(count)


class PriorMethod(Method):
    """Greedy in the hypervolume of predicted costs, which the measurements correct."""

    wanted: tuple[int, ...] = (0, 1, 2)

    def choose(self, count: int) -> list[int]:
        """See `Method.choose`."""
        logs, doubt = self._corrected()
        rest, wanted = self.open(), list(self.wanted)
        known = self.task.costs[self.measured][:, wanted]
        chosen: list[int] = []
        for deviations in DOUBTS:
            likely = np.exp(logs - deviations * doubt)[:, wanted]
            pool = self._pool(likely, rest)
            reference = MARGIN * np.vstack([known, likely[pool]])
            limit = reference[front(reference)].max(axis=0)
            while pool and len(chosen) < count:
                gains = [gain(known, limit, likely[point]) for point in pool]
                best = int(np.argmax(gains))
                if gains[best] <= 0:
                    break
                chosen.append(pool.pop(best))
                known = np.vstack([known, likely[chosen[-1]]])
            rest = np.setdiff1d(rest, chosen)
        return chosen + [p for p in self.drawn(len(rest)) if p not in chosen][: count - len(chosen)]

    def _pool(self, likely: Floats, rest: Ints) -> list[int]:
        """The two best layers of what is open."""
        first = rest[front(likely[rest])]
        others = np.setdiff1d(rest, first)
        return [int(p) for p in (*first, *others[front(likely[others])])]

    def _corrected(self) -> tuple[Floats, Floats]:
        """Logarithms of the predicted costs, and their standard deviations."""
        task = self.task
        logs = np.log(task.predicted)
        off = np.log(task.costs[self.measured]) - logs[self.measured]
        hw = task.features[:, 0]
        spread = off.std(axis=0)
        for config in np.unique(hw):
            own = off[hw[self.measured] == config]
            logs[hw == config] += np.median(own if len(own) >= 2 else off, axis=0)
        return logs, spread


class CyclesMethod(PriorMethod):
    """The same for one objective."""

    wanted = (0,)


class NsgaMethod(Method):
    """Optuna's NSGA-II."""

    def __init__(self, task: FrontTask, rng: np.random.Generator) -> None:
        super().__init__(task, rng)
        import optuna  # noqa: PLC0415  (an optional package)
        from optuna.distributions import (  # noqa: PLC0415  (see above)
            BaseDistribution,
            IntDistribution,
        )

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._axes: Final[dict[str, BaseDistribution]] = {
            str(knob): IntDistribution(0, size - 1) for knob, size in enumerate(task.sizes)
        }
        self._rows: Final = {tuple(row): place for place, row in enumerate(task.features.tolist())}
        self._study: Final = optuna.create_study(
            directions=["minimize"] * 3,
            sampler=optuna.samplers.NSGAIISampler(
                population_size=POPULATION, seed=int(rng.integers(2**31))
            ),
        )
        self._trials: dict[int, Any] = {}

    def choose(self, count: int) -> list[int]:
        """See `Method.choose`."""
        from optuna.trial import TrialState  # noqa: PLC0415  (an optional package)

        chosen: list[int] = []
        for _ in range(ATTEMPTS * count):
            if len(chosen) == count:
                return chosen
            trial = self._study.ask(self._axes)
            place = self._rows.get(tuple(int(trial.params[axis]) for axis in self._axes))
            if place is None or place in chosen:
                self._study.tell(trial, state=TrialState.FAIL)
            elif place in self.measured:
                self._study.tell(trial, self.task.costs[place].tolist())
            else:
                self._trials[place] = trial
                chosen.append(place)
        return chosen + [p for p in self.drawn(2 * count) if p not in chosen][: count - len(chosen)]

    def tell(self, points: Sequence[int]) -> None:
        """See `Method.tell`."""
        from optuna.trial import create_trial  # noqa: PLC0415  (an optional package)

        super().tell(points)
        for place in points:
            costs = self.task.costs[place].tolist()
            if place in self._trials:
                self._study.tell(self._trials.pop(place), costs)
                continue
            values = [int(position) for position in self.task.features[place]]
            self._study.add_trial(
                create_trial(
                    params=dict(zip(self._axes, values, strict=True)),
                    distributions=dict(self._axes),
                    values=costs,
                )
            )


class EhviMethod(Method):
    """BoTorch's qLogEHVI over samples and the neighbours of the front."""

    def choose(self, count: int) -> list[int]:
        """See `Method.choose`."""
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self._choose(count)

    def _choose(self, count: int) -> list[int]:
        import torch  # noqa: PLC0415  (an optional package)
        from botorch.acquisition.multi_objective.logei import (  # noqa: PLC0415  (see above)
            qLogExpectedHypervolumeImprovement,
        )
        from botorch.sampling.normal import SobolQMCNormalSampler  # noqa: PLC0415  (see above)
        from botorch.utils.multi_objective.box_decompositions import (  # noqa: PLC0415  (see above)
            FastNondominatedPartitioning,
        )
        from botorch.utils.multi_objective.hypervolume import (  # noqa: PLC0415  (see above)
            infer_reference_point,
        )

        task = self.task
        widths = np.maximum(np.array(task.sizes) - 1, 1)
        points = torch.from_numpy(task.features / widths).double()
        targets = torch.from_numpy(-np.log(task.costs[self.measured]))
        reference = infer_reference_point(targets[front(-targets.numpy())])
        pool = self._candidates()
        pending: list[int] = []
        fitted: list[Any] = []
        for _ in range(min(count, len(pool))):
            model = self._model(points[[*self.measured, *pending]], targets, fitted)
            partitioning: Any = FastNondominatedPartitioning(ref_point=reference, Y=targets)
            acquisition = qLogExpectedHypervolumeImprovement(
                model=model,
                ref_point=reference,
                partitioning=partitioning,
                sampler=SobolQMCNormalSampler(torch.Size([SAMPLES]), seed=len(self.measured)),
            )
            with torch.no_grad():
                merit = acquisition(points[pool].unsqueeze(1))
                pending.append(pool.pop(int(merit.argmax())))
                believed = model.posterior(points[pending[-1:]]).mean
            targets = torch.cat([targets, believed])
        return pending

    def _model(self, features: Any, targets: Any, fitted: list[Any]) -> Any:
        """One process per objective; fitted once, and then with the parameters of that."""
        import gpytorch  # noqa: PLC0415  (an optional package)
        from botorch.exceptions.errors import ModelFittingError  # noqa: PLC0415  (see above)
        from botorch.fit import fit_gpytorch_mll  # noqa: PLC0415  (see above)
        from botorch.models import SingleTaskGP  # noqa: PLC0415  (see above)
        from botorch.models.model_list_gp_regression import (  # noqa: PLC0415  (see above)
            ModelListGP,
        )
        from botorch.models.transforms import Standardize  # noqa: PLC0415  (see above)

        parts = []
        for column in range(targets.shape[1]):
            part = SingleTaskGP(
                features, targets[:, column : column + 1], outcome_transform=Standardize(1)
            )
            if len(fitted) > column:
                part.load_state_dict(fitted[column], strict=False)
            else:
                likelihood = gpytorch.mlls.ExactMarginalLogLikelihood(part.likelihood, part)
                with suppress(ModelFittingError):
                    fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": 25}})
                fitted.append({n: p.detach().clone() for n, p in part.named_parameters()})
            parts.append(part.eval())
        return ModelListGP(*parts)

    def _candidates(self) -> list[int]:
        """New points: random ones, and those that differ from the front's in one knob."""
        task, rest = self.task, self.open()
        best = task.features[np.array(self.measured)[front(task.costs[self.measured])]]
        others = task.features[rest]
        near = [rest[(others != point).sum(axis=1) == 1] for point in best]
        return list(dict.fromkeys(int(p) for p in (*np.concatenate(near), *self.drawn(CANDIDATES))))


METHODS: Final[Mapping[str, Callable[[FrontTask, np.random.Generator], Method]]] = {
    "prior": PriorMethod,
    "qlogehvi": EhviMethod,
    "nsga2": NsgaMethod,
    "random": RandomMethod,
    "cycles": CyclesMethod,
}


def searched(name: str, task: FrontTask, *, seed: int, budget: int) -> Iterator[list[int]]:
    """The points that a method has measured, after each batch."""
    first = np.random.default_rng([seed, 1])
    method = METHODS[name](task, np.random.default_rng([seed, 2]))
    points = len(task.costs)
    method.tell([int(p) for p in first.choice(points, min(FIRST_POINTS, points), replace=False)])
    yield list(method.measured)
    while len(method.measured) < min(budget, points):
        method.tell(method.choose(min(BATCH, budget - len(method.measured))))
        yield list(method.measured)
