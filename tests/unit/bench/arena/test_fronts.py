# SPDX-License-Identifier: Apache-2.0
"""Tasks of three objectives are what single runs cost; searches spend equal budgets once."""

import numpy as np
import pytest
from support.randomness import fresh_rng

from tilewright.bench.arena.fronts import (
    FIRST_POINTS,
    METHODS,
    FrontTask,
    area_share,
    enumerated,
    searched,
)
from tilewright.bench.arena.tasks import BOARD, make_task
from tilewright.host.machine.board import load_board
from tilewright.host.machine.registers import COUNTERS
from tilewright.host.network.workload import conv2d
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.native_lowering import NativeLowering, encode_schedules
from tilewright.tuner.measure.energy import energy_pj


@pytest.fixture(scope="module")
def task() -> FrontTask:
    return enumerated(make_task("per-layer", conv2d("x", 7, 48, 48, 3, 1, 1)), workers=2)


def test_costs_are_those_of_single_runs(task) -> None:
    rng = fresh_rng()
    given = make_task("per-layer", conv2d("x", 7, 48, 48, 3, 1, 1))
    assert len(np.unique(task.features, axis=0)) == len(task.features)
    for row in rng.choice(len(task.costs), 12, replace=False):
        point = given.space.decode(tuple(int(position) for position in task.features[row]))
        batch = Twin(point.hw, given.memory).batch(
            NativeLowering(point.hw, given.workload), encode_schedules([point.schedule])
        )
        counters = dict(
            zip((name for name, _ in COUNTERS), batch.counters[0].tolist(), strict=True)
        )
        area = area_share(point.hw, load_board(BOARD))
        expected = (counters["cycles"], energy_pj(point.hw, counters), area)
        assert task.costs[row] == pytest.approx(expected)


def test_closed_forms_are_near_and_know_no_measurement(task) -> None:
    off = np.log(task.predicted / task.costs)
    assert np.abs(np.median(off, axis=0)).max() < 0.2
    assert (off[:, 2] == 0).all(), "the area of a configuration needs no measurement"


@pytest.mark.parametrize("name", METHODS)
def test_searches_measure_each_point_once_and_spend_their_budget(name, task) -> None:
    courses = [list(searched(name, task, seed=seed, budget=21)) for seed in (3, 3, 4)]
    assert courses[0] == courses[1], "a seed repeats its search"
    assert courses[0] != courses[2]
    for course in courses:
        assert len(course[-1]) == len(set(course[-1])) == 21
        assert [len(points) for points in course] == [FIRST_POINTS, 16, 21]
        shares = [task.share(points) for points in course]
        assert shares == sorted(shares)
        assert shares[-1] <= 1
    first = next(searched("random", task, seed=3, budget=21))
    assert courses[0][0] == first, "all begin with the same points"
