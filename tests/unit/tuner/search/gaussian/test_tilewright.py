# SPDX-License-Identifier: Apache-2.0
"""The default tuner follows its prior, corrects it, descends, and learns what is feasible."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from support.search.grid import Points

from tilewright.host.machine.board import load_memory
from tilewright.host.machine.hwconfig import load_hwconfig
from tilewright.host.network.schedule import Schedule
from tilewright.host.network.zoo import load_network
from tilewright.sim.twin.device import Twin
from tilewright.sim.twin.native_lowering import NativeLowering, encode_schedules
from tilewright.testing.analytic import BASE, TASKS, cycles_of
from tilewright.testing.tuner_contract import drive
from tilewright.tuner.schedule.rules import host_rules
from tilewright.tuner.schedule.space_prior import SchedulePrior
from tilewright.tuner.schedule.spaces import ScheduleSpace
from tilewright.tuner.search.gaussian import tilewright
from tilewright.tuner.search.gaussian.feasibility import Feasibility, expected_improvement
from tilewright.tuner.search.gaussian.residual import (
    SPREAD,
    Observation,
    Posterior,
    ResidualPool,
)
from tilewright.tuner.search.gaussian.tilewright import (
    COVERED,
    TilewrightTuner,
    draw_candidates,
    even_cuts,
)
from tilewright.tuner.search.space import Index, Knob

HW = load_hwconfig("pynq-16x16")
MEMORY = load_memory("ideal")
TASK = load_network("vta-resnet18")["C10"]


def truth(schedule: Schedule) -> float:
    return float(cycles_of(BASE, TASKS[0], schedule))


def real_space() -> ScheduleSpace:
    return ScheduleSpace(TASK, HW, host_rules(), "vta")


def twin_cost():
    twin, lowering = Twin(HW, MEMORY), NativeLowering(HW, TASK)

    def cost(schedule: Schedule) -> float | None:
        return float(twin.batch(lowering, encode_schedules([schedule])).cycles[0]) or None

    return cost


class Unmasked(ScheduleSpace):
    """Nothing says what is valid before it is tried."""

    def _refusal(self, index: Index) -> str:
        return ""


@pytest.mark.slow
def test_learns_what_is_feasible_where_nobody_masks_it() -> None:
    failures = {}
    cost = twin_cost()
    for feasibility in (True, False):
        logs = []
        for seed in range(8):
            space = Unmasked(TASK, HW, host_rules(), "full")
            tuner = TilewrightTuner(space, seed=seed, feasibility=feasibility)
            logs += drive(tuner, cost, batches=[4] * 24)
        failures[feasibility] = sum(value is None for _, value in logs)
    assert failures[True] < 0.9 * failures[False]


def test_feasibility_tells_large_points_from_small_ones_by_what_failed() -> None:
    points = np.random.default_rng(7).uniform(0, 6, size=(120, 2))
    valid = points.sum(axis=1) < 6
    learned = Feasibility()
    for point, fits in zip(points[:60], valid[:60], strict=True):
        learned.add(point, valid=bool(fits))
    chances = learned.chances(points[60:])
    assert ((chances > 0.5) == valid[60:]).mean() > 0.85
    assert chances[valid[60:]].mean() > 2 * chances[~valid[60:]].mean()


def test_feasibility_holds_nothing_against_a_point_before_one_fails() -> None:
    learned = Feasibility()
    assert learned.chances(np.zeros((3, 2))).tolist() == [1.0] * 3
    learned.add(np.zeros(2), valid=True)
    assert learned.chances(np.ones((3, 2))).tolist() == [1.0] * 3


def test_the_prior_keeps_the_search_from_what_it_knows_to_be_illegal() -> None:
    space, cost = Unmasked(TASK, HW, host_rules(), "vta"), twin_cost()
    tuner = TilewrightTuner(space, seed=1, prior=SchedulePrior(HW, TASK, MEMORY))
    log = drive(tuner, cost, batches=[4] * 24)
    assert all(value is not None for _, value in log)


class Pit:
    """A cost over configurations and sizes: one configuration is best and hardly ever valid."""

    knobs = (
        Knob(name="hw", values=tuple("abcdefgh"), ordered=False),
        Knob(name="m", values=tuple(range(64))),
        Knob(name="n", values=tuple(range(64))),
    )

    class Space(Points):
        def _refusal(self, index: Index) -> str:
            hw, m, n = index
            limit = 20 if hw == 6 else 2000
            return "too large" if (m + 1) * (n + 1) > limit else ""

    @staticmethod
    def cost(index: Index) -> float:
        hw, m, n = index
        return (1.0 if hw == 6 else 10.0) * (1 + 1 / (m + 1) + 1 / (n + 1)) + hw * 0.01


@pytest.mark.parametrize("seed", range(4))
def test_without_a_prior_every_configuration_is_tried(seed: int) -> None:
    """The best one has one of a hundred of the points: drawn by chance it would be missed."""
    log = drive(TilewrightTuner(Pit.Space(Pit.knobs), seed=seed), Pit.cost, batches=[4] * 8)
    tried = Counter(index[0] for index, _ in log)
    assert set(tried) == set(range(8))
    assert min(tried.values()) >= COVERED
    assert min(v for _, v in log if v) < 2


def test_drawn_candidates_are_valid_distinct_and_of_every_configuration() -> None:
    space = Pit.Space(Pit.knobs)
    drawn = draw_candidates(space, np.random.default_rng(3))
    assert all(map(space.valid, drawn))
    assert len(set(drawn)) == len(drawn)
    assert set(Counter(index[0] for index in drawn)) == set(range(8))
    large = [m for hw, m, n in drawn if hw != 6 and (m + 2) * (n + 2) > 1000]
    assert len(large) > 0.2 * len(drawn)  # near the limit, where tiles are largest


def test_without_a_prior_candidates_are_drawn_anew_for_every_batch(monkeypatch) -> None:
    sets = []

    def recorded(space, rng):
        sets.append(draw_candidates(space, rng))
        return sets[-1]

    monkeypatch.setattr(tilewright, "draw_candidates", recorded)
    drive(TilewrightTuner(Pit.Space(Pit.knobs), seed=0), Pit.cost, batches=[4] * 5)
    assert len(sets) == 5
    assert len(set.union(*map(set, sets))) > 2 * len(sets[0])


def test_tuners_of_a_study_share_what_they_learn() -> None:
    space, cost = real_space(), twin_cost()
    prior = SchedulePrior(HW, TASK, MEMORY)
    pool = ResidualPool()
    drive(TilewrightTuner(space, seed=0, prior=prior, pool=pool), cost, batches=[4] * 4)
    assert len(pool.tasks[prior.task]) == 16
    other = SchedulePrior(HW.with_(vector_lanes=8), TASK, MEMORY)
    fresh = TilewrightTuner(space, seed=0, prior=other).ask(1)
    assert fresh[0].index != TilewrightTuner(space, seed=0, prior=other, pool=pool).ask(1)[0].index


def test_even_cuts_are_the_smallest_tiles_of_their_number_of_parts() -> None:
    assert (even_cuts(14) + 1).tolist() == [1, 2, 3, 4, 5, 7, 14]
    assert even_cuts(1).tolist() == [0]


def test_expected_improvement_equals_its_sampled_mean() -> None:
    draws = np.maximum(np.random.default_rng(0).normal(0.3, 0.5, size=200_000), 0)
    value = expected_improvement(np.array([0.3]), np.array([0.5]))[0]
    assert value == pytest.approx(draws.mean(), rel=0.02)
    assert expected_improvement(np.array([-5.0]), np.array([1e-3]))[0] == pytest.approx(0)
    assert not math.isnan(expected_improvement(np.zeros(1), np.zeros(1))[0])


# -- the process on log-residuals -----------------------------------------------------------------


def observe(function, points) -> list[Observation]:
    return [Observation(features=p, residual=function(p), log_cost=float(i))
            for i, p in enumerate(points)]  # fmt: skip


def wave(point) -> float:
    return 0.1 * float(np.sin(2 * point[0]) + 0.5 * point[1])


GRID = np.stack(np.meshgrid(np.linspace(0, 2, 6), np.linspace(0, 1, 4)), axis=-1).reshape(-1, 2)


def test_nothing_measured_means_no_correction_and_the_prior_spread() -> None:
    posterior = Posterior([], [], GRID)
    assert (posterior.mean == 0).all()
    assert posterior.variance == pytest.approx(SPREAD**2)


def test_what_other_tasks_show_carries_over_and_counts_less() -> None:
    shift = [Observation(features=p, residual=0.2, log_cost=0.0) for p in GRID]
    own, others = Posterior(shift, [], GRID), Posterior([], shift, GRID)
    assert others.mean.min() > 0.05
    assert others.variance.min() > own.variance.max()
    contrary = [Observation(features=p, residual=-0.2, log_cost=0.0) for p in GRID]
    assert Posterior(contrary, shift, GRID).mean == pytest.approx(-0.2, abs=0.05)


def test_an_expected_point_is_known_and_its_mean_stays() -> None:
    posterior = Posterior(observe(wave, GRID[:6]), [], GRID)
    before, mean = posterior.variance.copy(), posterior.mean.copy()
    place = int(before.argmax())
    posterior.expect(place)
    assert posterior.variance[place] < 0.2 * before[place]
    assert (posterior.variance <= before * (1 + 1e-9)).all()
    assert (posterior.mean == mean).all()


def test_expecting_equals_measuring_what_was_expected() -> None:
    """The variance does not depend on values: compare with a process that saw the point."""
    points = np.random.default_rng(0).normal(size=(5, 2))
    seen = [Observation(features=p, residual=0.0, log_cost=0.0) for p in points[:4]]
    posterior = Posterior(seen, [], points)
    posterior.expect(4)
    assert posterior.variance[4] < 1e-2 * SPREAD**2


def test_what_was_measured_with_noise_is_trusted_less() -> None:
    seen = observe(wave, GRID[::2])
    odd = Observation(features=GRID[1], residual=0.5, log_cost=0.0)  # far from its neighbours
    noisy = replace(odd, variance=0.5**2)
    sure, unsure = (Posterior([*seen, each], [], GRID) for each in (odd, noisy))
    truth = wave(GRID[1])
    assert abs(sure.mean[1] - 0.5) < 0.05
    assert abs(unsure.mean[1] - truth) < abs(sure.mean[1] - truth) / 4
    assert unsure.variance[1] > sure.variance[1]


def test_noise_that_is_far_below_the_fitted_one_changes_nothing() -> None:
    seen = observe(wave, GRID[::2])
    quiet = [replace(each, variance=1e-12) for each in seen]
    assert (Posterior(seen, [], GRID).mean == Posterior(quiet, [], GRID).mean).all()
