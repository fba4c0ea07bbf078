# SPDX-License-Identifier: Apache-2.0
"""Tasks of three objectives, and searches for their fronts on equal budgets.

Points are the legal schedules of space `KIND` on each of the configurations of a task of the
per-layer track. Their objectives, all minimised: *cycles* of the run on the twin, *energy* in
picojoules by the model of counters (`tuner.measure.energy`), and *area*, the mean share of the
board's LUT, FF, block RAM and DSP that the configuration takes. Equal points count once.

The reference point of the hypervolume is `MARGIN` times the worst value of the true front in each
objective. A search has the share of the true front's hypervolume that its measurements dominate.

All searches start from the same random points and are then asked for batches. No point is measured
twice, and only legal ones are charged: what a library proposes besides is told as failed, or once
more with what it cost, for nothing.
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tilewright.bench.arena.tasks import BOARD, KIND, Task
from tilewright.bench.commands import FIRST_POINTS
from tilewright.host.lowering.geometry import geometry
from tilewright.host.machine.board import Board, load_board
from tilewright.host.machine.hwconfig import HwConfig
from tilewright.host.machine.registers import COUNTERS
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.native_lowering import NativeLowering, Points
from tilewright.tuner.exhaustive.exhaust import CHUNK, in_threads, points_of
from tilewright.tuner.measure.energy import energy_pj
from tilewright.tuner.schedule.layer_model import LayerModel
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.schedule_bound import ScheduleBound
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search.fronts import Floats, Ints, front, gain, hypervolume
from tilewright.tuner.search.torch_threads import one_thread

MARGIN: Final = 1.1
OBJECTIVES: Final = ("cycles", "energy", "area")


@dataclass(frozen=True, kw_only=True)
class FrontTask:
    """Every legal point of a layer.

    Attributes:
        costs: shape (points, 3), in the order of `OBJECTIVES`.
        predicted: of the same shape, by closed forms alone.
        features: positions of the knobs, int64 of shape (points, knobs), the configuration first.
        sizes: of the knobs.
    """

    costs: Floats
    predicted: Floats
    features: Ints
    sizes: tuple[int, ...]

    @cached_property
    def front(self) -> Ints:
        """Points of the true front."""
        return front(self.costs)

    @cached_property
    def reference(self) -> Floats:
        """The reference point of the hypervolume."""
        return np.asarray(MARGIN * self.costs[self.front].max(axis=0))

    @cached_property
    def best(self) -> float:
        """Hypervolume of the true front."""
        return hypervolume(self.costs[self.front], self.reference)

    def share(self, measured: Sequence[int]) -> float:
        """Share of it that some points dominate."""
        return hypervolume(self.costs[list(measured)], self.reference) / self.best


def enumerated(task: Task, *, workers: int) -> FrontTask:
    """Measure every legal point of a task."""
    board = load_board(BOARD)
    costs, predicted, features = [], [], []
    knobs = task.space.knobs[1:]
    for place, hw in enumerate(task.configs):
        space = ScheduleSpace(task.workload, hw, host_rules(), KIND)
        points = points_of(space, 0, space.raw_size)
        legal = np.flatnonzero(NativeLowering(hw, task.workload).rules(points) == 0)
        points = points[legal]
        area = np.full(len(points), area_share(hw, board))
        costs.append(np.column_stack([*_measured(task, hw, points, workers), area]))
        predicted.append(np.column_stack([*_predicted(task, hw, points), area]))
        own = np.stack(np.unravel_index(legal, [len(knob) for knob in space.knobs]), axis=1)
        positions = [
            np.array([wide.position(value) for value in each.values])[own[:, column]]
            for column, (wide, each) in enumerate(zip(knobs, space.knobs, strict=True))
        ]
        features.append(np.column_stack([np.full(len(points), place), *positions]))
    return FrontTask(
        costs=np.concatenate(costs),
        predicted=np.concatenate(predicted),
        features=np.concatenate(features).astype(np.int64),
        sizes=tuple(len(knob) for knob in task.space.knobs),
    )


def area_share(hw: HwConfig, board: Board) -> float:
    """Mean share of a board's resources, as in the archive of a study."""
    area = host_rules().estimate(hw)
    names = ("lut", "ff", "bram36", "dsp")
    return float(np.mean([getattr(area, name) / getattr(board, name) for name in names]))


def _measured(
    task: Task, hw: HwConfig, points: Points, workers: int
) -> tuple[npt.NDArray[np.int64], Floats]:
    """Cycles and energy on the twin."""

    def run(part: range, _stopped: object) -> tuple[range, npt.NDArray[np.int64]]:
        batch = Twin(hw, task.memory).batch(
            NativeLowering(hw, task.workload), points[part.start : part.stop]
        )
        return part, batch.counters

    counters = np.empty((len(points), len(COUNTERS)), dtype=np.int64)
    parts = [range(at, min(at + CHUNK, len(points))) for at in range(0, len(points), CHUNK)]
    for part, found in in_threads(run, parts, workers):
        counters[part.start : part.stop] = found
    named = dict(zip((name for name, _ in COUNTERS), counters.T, strict=True))
    return named["cycles"], np.asarray(energy_pj(hw, named), dtype=np.float64)  # type: ignore[arg-type]  # of all points


def _predicted(task: Task, hw: HwConfig, points: Points) -> tuple[Floats, Floats]:
    """The same by closed forms: no run, and no counter."""
    shape = geometry(hw, task.workload)
    read, written = ScheduleBound(hw, task.workload, task.memory).moved(points)
    cycles = LayerModel(hw, task.workload, task.memory).predict(points).cycles
    outputs = shape.batches * shape.out_blocks * shape.out_height * shape.out_width
    events = {
        "cycles": cycles,
        "macs_tiles": shape.mac_tiles,
        "vector_tiles": outputs,
        "bytes_read": read,
        "bytes_written": written,
    }
    return cycles, np.asarray(energy_pj(hw, events), dtype=np.float64)  # type: ignore[arg-type]  # of all points


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
        return self.drawn(count)


class PriorMethod(Method):
    """Greedy in the hypervolume of predicted costs, which the measurements correct."""

    wanted: tuple[int, ...] = (0, 1, 2)

    def choose(self, count: int) -> list[int]:
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
"""
- ``random``: uniform, without repetition.
- ``nsga2``: Optuna's `NSGAIISampler` (Deb et al., IEEE TEC 2002) on the three objectives.
- ``qlogehvi``: BoTorch (Ament et al., NeurIPS 2023): one Gaussian process for the logarithm of each
  objective; batches by the kriging believer, because the library's own take 2^8 terms for 8 points.
- ``prior``: ours, in closed form: what the layer model predicts, times how far it was off on each
  configuration; chosen is what adds most to the hypervolume of what is measured and under way.
- ``cycles``: the same prediction, but of the cycles alone: what minimising the latency leaves.
"""


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
