# SPDX-License-Identifier: Apache-2.0
"""A search space as TVM's MetaSchedule sees it.

MetaSchedule searches traces of a schedule of a PrimFunc. Ours copies one number, because
`host.lowering` does the scheduling; its trace draws one category a knob (``SampleCategorical``,
weighted as `Knob.draw` draws) and notes the drawn position on the block. So a trace is a point,
modules are equal exactly when their points are, and TVM's sampling, evolution and database serve.

What TVM leaves to a task is defined here in Python: a postprocessor that moves a drawn point into
the mask, a mutator that moves one knob, and features for its cost model. They read the point from
the trace's decisions (`Points`). Schedules, traces and candidates are `Any`: TVM has no types.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import tvm
from tvm import te
from tvm.ir.utils import derived_object
from tvm.s_tir import Schedule, Trace
from tvm.s_tir.meta_schedule.feature_extractor import PyFeatureExtractor
from tvm.s_tir.meta_schedule.mutator import PyMutator
from tvm.s_tir.meta_schedule.postproc import PyPostproc

from tilewright.tuner.search.black_box import repair
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.space import Index, Knob, Space

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

    Args:
        space: where points lie.
        module: of the task.

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
    """Moves a drawn point into the mask; refuses it where that cannot be done.

    Args:
        points: reads and remembers them.
    """

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
    """Moves one knob of the point that a trace stands for to another position.

    Args:
        points: reads and writes them.
        rng: the tuner's generator.
    """

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
    """What TVM's cost model sees of a candidate: `FeatureEncoder`, shape (1, features).

    Args:
        points: reads them.
        encoder: of their space.
    """

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
