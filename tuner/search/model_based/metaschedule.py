# SPDX-License-Identifier: Apache-2.0
"""TVM's MetaSchedule as a tuner: its evolutionary search, its database, its cost model.

Source: Shao et al., "Tensor Program Optimization with Probabilistic Programs", NeurIPS 2022, as
TVM 0.27 runs it (`tvm.s_tir.meta_schedule`), with its settings: 64 candidates a round from a
population of 512 (a fifth of it the best measured), 4 generations, mutation with probability 0.85,
5 % random, boosted trees of depth 10 that are trusted after 100 measurements.

What its task scheduler does between two rounds is done here, because a study decides what is
measured: results go to the strategy, the database and the cost model, as its default callbacks send
them. How a space becomes a task of TVM is in `metaschedule_task`.

A search space as TVM's MetaSchedule sees it.

MetaSchedule searches traces of a schedule of a PrimFunc. Ours copies one number, because
`host.lowering` does the scheduling; its trace draws one category a knob (``SampleCategorical``,
weighted as `Knob.draw` draws) and notes the drawn position on the block. So a trace is a point,
modules are equal exactly when their points are, and TVM's sampling, evolution and database serve.

What TVM leaves to a task is defined here in Python: a postprocessor that moves a drawn point into
the mask, a mutator that moves one knob, and features for its cost model. They read the point from
the trace's decisions (`Points`). Schedules, traces and candidates are `Any`: TVM has no types.
"""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, TypeVar, cast

import numpy as np
import tvm
from tvm import te
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule, Trace
from tvm.s_tir.meta_schedule.arg_info import ArgInfo
from tvm.s_tir.meta_schedule.cost_model import XGBModel
from tvm.s_tir.meta_schedule.cost_model.xgb_model import XGBConfig
from tvm.s_tir.meta_schedule.database import MemoryDatabase, TuningRecord
from tvm.s_tir.meta_schedule.feature_extractor import PyFeatureExtractor
from tvm.s_tir.meta_schedule.logging import get_logging_func
from tvm.s_tir.meta_schedule.mutator import PyMutator
from tvm.s_tir.meta_schedule.postproc import PyPostproc
from tvm.s_tir.meta_schedule.runner import RunnerResult
from tvm.s_tir.meta_schedule.search_strategy import EvolutionarySearch, MeasureCandidate
from tvm.s_tir.meta_schedule.space_generator import ScheduleFn

from tilewright.tuner.search.black_box import repair
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.model_based.planned_search import RandomShare
from tilewright.tuner.search.space import Index, Knob, Space
from tilewright.tuner.search.tuner import Candidate, Result, Tuner, TunerError

BLOCK: Final = "point"
"""Name of the block that carries the point."""


def task_module() -> Any:
    """The PrimFunc that stands for a task, as an IRModule."""
    source = te.placeholder((1,), "int32", name="source")
    target = te.compute((1,), lambda i: source[i], name=BLOCK)
    return tvm.IRModule({"main": te.create_prim_func([source, target])})


def weights(knob: Knob) -> list[float]:
    """Probability of each position under `Knob.draw`."""
    size = len(knob)
    if not knob.ordered or size < 4:
        return [1.0 / size] * size
    return [math.log((k + 2) / (k + 1)) / math.log(size + 1) for k in range(size)]


class Points:
    """Traces of a module as points of a space, and back.

    Attributes:
        labels: annotations of the block, one a knob.
    """

    def __init__(self, space: Space[Any], module: Any) -> None:
        self.space: Final = space
        self.labels: Final = tuple(f"{n}-{knob.name}" for n, knob in enumerate(space.knobs))
        self._module: Final = module
        self._repaired: Final[dict[Index, Index | None]] = {}
        template = Schedule(module, debug_mask="none")
        self.draw(template)
        self._template: Final = tuple(template.trace.insts)
        self._draws: Final = tuple(i for i in self._template if _is_draw(i))

    def draw(self, schedule: Any) -> None:
        """The design space: draw every knob and note its position on the block."""
        block = schedule.get_sblock(BLOCK)
        for label, knob in zip(self.labels, self.space.knobs, strict=True):
            drawn = schedule.sample_categorical(list(range(len(knob))), weights(knob))
            schedule.annotate(block, label, drawn)

    def trace(self, index: Index) -> Any:
        """The trace that draws a point."""
        return Trace(self._template, dict(zip(self._draws, index, strict=True)))

    def schedule(self, index: Index) -> Any:
        """The schedule that stands for a valid point."""
        schedule = Schedule(self._module, debug_mask="none")
        self.trace(index).apply_to_schedule(schedule, remove_postproc=True)
        return schedule

    def drawn(self, trace: Any) -> Index:
        """The positions that a trace draws; they need not be valid."""
        return tuple(int(trace.get_decision(i)) for i in trace.insts if _is_draw(i))

    def point(self, trace: Any) -> Index | None:
        """The valid point that a trace stands for, `black_box.repair`ed; None: there is none."""
        drawn = self.drawn(trace)
        if drawn not in self._repaired:
            self._repaired[drawn] = repair(self.space, drawn)
        return self._repaired[drawn]


def _is_draw(instruction: Any) -> bool:
    return bool(instruction.kind.name == "SampleCategorical")


@derived_object
class Mask(PyPostproc):  # type: ignore[misc]  # untyped
    """Moves a drawn point into the mask; refuses it where that cannot be done."""

    def __init__(self, points: Points) -> None:
        super().__init__()
        self._points: Final = points

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Nothing of the context is used."""

    def apply(self, sch: Any) -> bool:
        """Note the valid point on the block instead of the drawn one; False: there is none."""
        drawn, point = self._points.drawn(sch.trace), self._points.point(sch.trace)
        if point is None:
            return False
        block = sch.get_sblock(BLOCK) if point != drawn else None
        for label, old, new in zip(self._points.labels, drawn, point, strict=True):
            if old != new:
                sch.unannotate(block, label)
                sch.annotate(block, label, new)
        return True

    def clone(self) -> Any:
        """Another of the same points."""
        return Mask(self._points)


@derived_object
class StepOneKnob(PyMutator):  # type: ignore[misc]  # untyped
    """Moves one knob of the point that a trace stands for to another position."""

    def __init__(self, points: Points, rng: np.random.Generator) -> None:
        super().__init__()
        self._points: Final = points
        self._rng: Final = rng
        self._free: Final = [k for k, knob in enumerate(points.space.knobs) if len(knob) > 1]

    def _initialize_with_tune_context(self, context: Any) -> None:
        """Nothing of the context is used."""

    def apply(self, trace: Any, _: Any) -> Any:
        """The moved trace; None where no knob can move."""
        point = self._points.point(trace)
        if point is None or not self._free:
            return None
        knob = self._free[int(self._rng.integers(len(self._free)))]
        size = len(self._points.space.knobs[knob])
        position = (point[knob] + int(self._rng.integers(1, size))) % size
        return self._points.trace((*point[:knob], position, *point[knob + 1 :]))

    def clone(self) -> Any:
        """Another with the same generator."""
        return StepOneKnob(self._points, self._rng)


@derived_object
class KnobFeatures(PyFeatureExtractor):  # type: ignore[misc]  # untyped
    """What TVM's cost model sees of a candidate: `FeatureEncoder`, shape (1, features)."""

    def __init__(self, points: Points, encoder: FeatureEncoder) -> None:
        super().__init__()
        self._points: Final = points
        self._encoder: Final = encoder

    def extract_from(self, context: Any, candidates: Sequence[Any]) -> list[Any]:
        """One tensor a candidate."""
        del context
        found = [self._points.point(candidate.sch.trace) for candidate in candidates]
        rows = self._encoder.encode([point for point in found if point is not None])
        return [tvm.runtime.tensor(row[None, :]) for row in rows]


P = TypeVar("P")

LOGGER: Final = logging.getLogger(__name__)
LOGGER.addHandler(logging.NullHandler())  # what TVM has to say is shown to those who ask for it

PLAN: Final = 64
POPULATION: Final = 512
WARM_UP: Final = 100

RANDOM_SHARE: Final = 0.05
"""TVM's own, of which it gives each round the whole points."""

SECONDS: Final = 1e-9
"""A cost of 1, in the seconds that TVM records."""

LEAST: Final = 1e-18
"""TVM takes only times above 0."""

FAILED: Final = 1e10
"""Seconds of a failed trial in TVM's database, which then never offers it as a parent."""


class MetaScheduleTuner(Tuner[P]):
    """TVM's evolutionary search with its boosted trees."""

    positive: ClassVar = True

    def __init__(
        self,
        space: Space[P],
        *,
        seed: int | tuple[int, ...],
        initial: Sequence[Index] = (),
        plan: int = PLAN,
        population: int = POPULATION,
        warm_up: int = WARM_UP,
    ) -> None:
        super().__init__(space, seed=seed, initial=initial)
        for name, value in (("plan", plan), ("population", population), ("warm_up", warm_up)):
            if value < 1:
                raise TunerError("must be at least 1", field=name, value=value)
        self._settings: Final = {
            "seed": seed, "initial": tuple(initial),
            "plan": plan, "population": population, "warm_up": warm_up,
        }  # fmt: skip
        self._calls: list[tuple[str, Any]] = []
        self._module: Final = task_module()
        self._points: Final = Points(space, self._module)
        self._arguments: Final = ArgInfo.from_entry_func(self._module)
        encoder = FeatureEncoder(cast("Space[object]", space))
        self._model: Final = XGBModel(
            extractor=KnobFeatures(self._points, encoder),
            config=XGBConfig(seed=self._draw_seed(), nthread=1),
            num_warmup_samples=warm_up,
        )
        self._database: Final = MemoryDatabase()
        self._strategy: Final = EvolutionarySearch(population_size=population)
        self._context: Final = self._tune_context()
        self._strategy.pre_tuning(
            min(space.raw_size, 2**31 - 1),
            plan,
            self._context.generate_design_space(),
            self._database,
            self._model,
        )
        self._workload: Final = self._database.commit_workload(self._module)
        self._plan_size: Final = plan
        self._random: Final = RandomShare(RANDOM_SHARE)
        self._plan: list[Index | None] = []
        self._candidates: dict[Index, Any] = {}
        self._told: list[Result] = []
        self._ended = False

    def __reduce__(self) -> tuple[object, ...]:
        """TVM's objects cannot be pickled: the calls are, and another process repeats them."""
        return _repeated, (type(self), self.space, self._settings, self._calls)

    def ask(self, n: int) -> list[Candidate[P]]:
        """See `Tuner.ask`."""
        self._calls.append(("ask", n))
        return super().ask(n)

    def tell(self, results: Sequence[Result]) -> None:
        """See `Tuner.tell`."""
        self._calls.append(("tell", list(results)))
        super().tell(results)

    def suggest(self, index: Index) -> bool:
        """See `Tuner.suggest`."""
        self._calls.append(("suggest", index))
        return super().suggest(index)

    def _propose(self) -> Index | None:
        while True:
            while self._plan:
                index = self._plan.pop(0)
                if index is None or self.is_new(index):
                    return index
            if self._ended:
                return None
            self._make_plan()

    def _learn(self, result: Result) -> None:
        self._told.append(result)

    def _make_plan(self) -> None:
        """Teach TVM what was measured since its last round, and let it search."""
        with self._numpy_seeded(), interrupts_later():
            self._teach()
            found = self._strategy.generate_measure_candidates()
        if found is None:
            self._ended = True
            return
        for candidate in found:
            index = self._points.point(candidate.sch.trace)
            if index is not None:
                self._candidates[index] = candidate
                self._plan.append(index)
        # TVM cuts 5 % of a round to whole points: what is due beyond them takes the last places.
        missing = self._random.of(self._plan_size) - int(RANDOM_SHARE * self._plan_size)
        if missing:
            self._plan[-missing:] = [None] * missing

    def _teach(self) -> None:
        """Results to strategy, database and cost model."""
        told, self._told = self._told, []
        if not told:
            return
        candidates = [self._candidate(result.index) for result in told]
        seconds = [None if r.value is None else max(LEAST, r.value * SECONDS) for r in told]
        answers = [
            RunnerResult(None, "no valid measurement") if s is None else RunnerResult([s], None)
            for s in seconds
        ]
        for candidate, time in zip(candidates, seconds, strict=True):
            self._database.commit_tuning_record(
                TuningRecord(
                    candidate.sch.trace,
                    self._workload,
                    [FAILED if time is None else time],
                    None,
                    self._arguments,
                )
            )
        self._model.update(self._context, candidates, answers)
        self._strategy.notify_runner_results(candidates, answers)

    def _candidate(self, index: Index) -> Any:
        """TVM's candidate of a point, made here where the point was not TVM's idea."""
        known = self._candidates.pop(index, None)
        if known is not None:
            return known
        return MeasureCandidate(self._points.schedule(index), self._arguments)

    def _tune_context(self) -> Any:
        """TVM's context, one thread.

        Made by the function behind the class `TuneContext`: its constructor first parses the tensor
        intrinsics of every CPU and GPU that TVM knows, 40 CPU seconds that serve nothing here.
        """
        generator = ScheduleFn(
            self._points.draw,
            sch_rules=[],
            postprocs=[Mask(self._points)],
            mutator_probs={StepOneKnob(self._points, self.rng): 1.0},
        )
        make = tvm.get_global_func("s_tir.meta_schedule.TuneContext")
        start = tvm.get_global_func("s_tir.meta_schedule.TuneContextInitialize")
        log = get_logging_func(LOGGER)
        context = make(
            self._module, None, generator, self._strategy, "space", 1, self._draw_seed(), log
        )
        start(context)
        return context

    def _draw_seed(self) -> int:
        """A seed as TVM takes them: 1 to 2**31 - 1."""
        return int(self.rng.integers(1, 2**31 - 1))

    @contextlib.contextmanager
    def _numpy_seeded(self) -> Iterator[None]:
        """Inside, NumPy's global generator, which TVM's cost model draws from, is this tuner's."""
        state = np.random.get_state()
        np.random.seed(self._draw_seed())
        try:
            yield
        finally:
            np.random.set_state(state)


def _repeated(
    kind: type[MetaScheduleTuner[Any]],
    space: Space[Any],
    settings: Mapping[str, Any],
    calls: Sequence[tuple[str, Any]],
) -> MetaScheduleTuner[Any]:
    """A tuner that is in the state of the one that was called so."""
    tuner = kind(space, **settings)
    for method, argument in calls:
        with contextlib.suppress(TunerError):  # what was refused then is refused now
            getattr(tuner, method)(argument)
    return tuner


@contextlib.contextmanager
def interrupts_later() -> Iterator[None]:
    """Inside, an interrupt waits: TVM would turn it into a `RuntimeError` without a text."""
    if threading.current_thread() is not threading.main_thread():
        yield  # Python handles signals in the main thread alone
        return
    waiting: list[int] = []
    previous = signal.signal(signal.SIGINT, lambda number, _: waiting.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if waiting:
        signal.raise_signal(signal.SIGINT)
