# SPDX-License-Identifier: Apache-2.0
"""A space as a task of TVM's MetaSchedule, and what TVM is told of a study's measurements."""

import importlib.util
import os
import signal
import sys
import threading

import numpy as np
import pytest
from support.randomness import generator
from support.search.grid import Grid

from tilewright.testing.tuner_contract import drive, full_space, schedule_cost
from tilewright.tuner.search import TunerError, make_tuner
from tilewright.tuner.search.black_box import repair
from tilewright.tuner.search.features import FeatureEncoder
from tilewright.tuner.search.space import Index, Knob

pytest.importorskip("tvm")


from tilewright.tuner.search.model_based import metaschedule

SMALL = {"plan": 16, "population": 64, "warm_up": 16}


class Diagonal(Grid):
    """Valid below a diagonal; nothing is where the first knob stands at 0."""

    def _refusal(self, index: Index) -> str:
        return "" if index[0] > 0 and sum(index) < 20 else "above"


def bowl(point) -> float:
    return 10.0 + float(sum((p - 11) ** 2 for p in point))


def points_of(space) -> metaschedule.Points:
    return metaschedule.Points(space, metaschedule.task_module())


def marks(points: metaschedule.Points, schedule) -> Index:
    """The positions that the block notes."""
    found = schedule.get(schedule.get_sblock("point")).annotations
    assert set(found) == set(points.labels)
    return tuple(int(found[label]) for label in points.labels)


# -- the task -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "ordered"), [(1, True), (3, True), (4, True), (56, True), (9, False)]
)
def test_a_knob_is_weighted_as_random_search_draws_it(size, ordered):
    knob = Knob(name="k", values=tuple(range(size)), ordered=ordered)
    rng, count = generator(f"weights {size}"), 20_000
    expected = np.array(metaschedule.weights(knob)) * count
    found = np.bincount([knob.draw(rng) for _ in range(count)], minlength=size)
    assert sum(metaschedule.weights(knob)) == pytest.approx(1)
    assert (np.abs(found - expected) <= 6 * np.sqrt(expected) + 1).all()


def test_a_point_outside_the_mask_is_noted_where_it_is_repaired_to():
    space = Diagonal(30, 30)
    points = points_of(space)
    for drawn in ((29, 29), (5, 28), (7, 8)):
        schedule = points.schedule(drawn)
        assert metaschedule.Mask(points).apply(schedule)
        assert marks(points, schedule) == repair(space, drawn)
        assert points.drawn(schedule.trace) == drawn
    assert space.valid((7, 8))


def test_a_point_that_cannot_be_repaired_is_refused():
    points = points_of(Diagonal(30, 30))
    assert not metaschedule.Mask(points).apply(points.schedule((0, 3)))


def test_a_mutation_moves_one_knob_of_the_valid_point():
    points = points_of(Diagonal(30, 1, 30))
    step = metaschedule.StepOneKnob(points, np.random.default_rng(3))
    start = points.trace((29, 0, 29))
    stood = points.point(start)
    assert stood != (29, 0, 29)
    seen = set()
    for _ in range(40):
        moved = points.drawn(step.apply(start))
        (knob,) = [k for k, (a, b) in enumerate(zip(stood, moved, strict=True)) if a != b]
        seen.add(knob)
    assert seen == {0, 2}


def test_a_space_of_one_point_has_no_mutation():
    points = points_of(Grid(1, 1))
    assert (
        metaschedule.StepOneKnob(points, np.random.default_rng(0)).apply(points.trace((0, 0)))
        is None
    )


def test_tvm_sees_the_features_that_every_tuner_sees():
    tuner = make_tuner("metaschedule", full_space(), seed=1, **SMALL)
    encoder = FeatureEncoder(tuner.space)
    indices = [c.index for c in tuner.ask(5)]
    candidates = [tuner._candidate(index) for index in indices]
    rows = metaschedule.KnobFeatures(tuner._points, encoder).extract_from(
        tuner._context, candidates
    )
    assert [row.shape for row in rows] == [(1, encoder.width)] * 5
    assert (np.concatenate([row.numpy() for row in rows]) == encoder.encode(indices)).all()


# -- the tuner ----------------------------------------------------------------------------------


def test_tvm_is_told_of_every_measurement_before_it_searches_again():
    space = full_space()
    first = space.sample(np.random.default_rng(5))
    tuner = make_tuner("metaschedule", space, seed=2, initial=[first], **SMALL)
    log = drive(
        tuner, lambda s: None if s.tile_w == 2 else schedule_cost(s), batches=[1, 16, 16, 16]
    )
    records = tuner._database.get_all_tuning_records()
    told = {tuner._points.point(r.trace): float(r.run_secs[0]) for r in records}
    assert first in told
    assert len(told) == tuner._model.data_size >= 33
    values = {index: value for index, value in log if index in told}
    for index, seconds in told.items():
        value = values[index]
        assert seconds == pytest.approx(
            metaschedule.FAILED if value is None else value * metaschedule.SECONDS
        )
    best = tuner._database.get_top_k(tuner._workload, 1)[0]
    measured = [value for value in values.values() if value is not None]
    assert values[tuner._points.point(best.trace)] == min(measured)


def test_small_rounds_hold_their_share_of_random_points():
    """TVM gives a round of 16 none of its 0.8."""
    tuner = make_tuner("metaschedule", full_space(), seed=4, plan=16, population=32)
    random = []
    for _ in range(5):
        tuner._make_plan()
        random.append(tuner._plan.count(None))
        tuner._plan.clear()
    assert random == [0, 1, 1, 1, 1]


def test_costs_below_zero_are_refused():
    tuner = make_tuner("metaschedule", Grid(40, 40), seed=4, **SMALL)
    with pytest.raises(TunerError, match="must be above 0 for MetaScheduleTuner"):
        drive(tuner, lambda p: float(sum(p)) - 20, batches=[16] * 3)


def test_an_ask_may_be_larger_than_what_tvm_has_planned():
    tuner = make_tuner("metaschedule", full_space(), seed=5, **SMALL)
    assert len({c.index for c in tuner.ask(40)}) == 40


def test_the_global_generator_of_numpy_is_left_as_it_was():
    np.random.seed(11)
    expected = np.random.uniform(size=3)
    np.random.seed(11)
    drive(make_tuner("metaschedule", Grid(9, 9), seed=6, **SMALL), bowl, batches=[16] * 2)
    assert (np.random.uniform(size=3) == expected).all()


def test_tensor_intrinsics_are_not_parsed():
    """TVM's own constructor of a context would spend 40 CPU seconds on them."""
    before = "tvm.s_tir.tensor_intrin" in sys.modules
    make_tuner("metaschedule", Grid(9, 9), seed=7).ask(1)
    assert ("tvm.s_tir.tensor_intrin" in sys.modules) == before


@pytest.mark.parametrize("option", ["plan", "population", "warm_up"])
def test_refuses_settings_below_one(option):
    with pytest.raises(TunerError, match="at least 1") as refused:
        make_tuner("metaschedule", Grid(9, 9), seed=0, **{option: 0})
    assert refused.value.field == option


def test_a_missing_tvm_names_the_extras_that_install_it(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if name == "tvm" else find(name)
    )
    with pytest.raises(TunerError, match=r"needs the package tvm.*tilewright\[network,search\]"):
        make_tuner("metaschedule", Grid(9, 9), seed=0)


# -- interrupts -----------------------------------------------------------------------------------


def test_an_interrupt_waits_for_the_end_of_a_round():
    course = []

    def interrupted() -> None:
        with metaschedule.interrupts_later():
            os.kill(os.getpid(), signal.SIGINT)
            course.append("searched on")
        course.append("not reached")

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert course == ["searched on"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_other_threads_search_without_the_right_to_handlers():
    asked: list[int] = []
    thread = threading.Thread(
        target=lambda: asked.append(
            len(make_tuner("metaschedule", Grid(9, 9), seed=8, **SMALL).ask(3))
        )
    )
    thread.start()
    thread.join()
    assert asked == [3]
