# SPDX-License-Identifier: Apache-2.0
"""The process on log-residuals: it interpolates, carries over between tasks, and shrinks."""

from dataclasses import replace

import numpy as np
import pytest

from tilewright.tuner.search.gaussian.residual import (
    OWN_LIMIT,
    SPREAD,
    Observation,
    Posterior,
    ResidualPool,
    fit_kernel_shape,
)


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


def test_goes_through_what_was_measured_and_knows_less_elsewhere() -> None:
    seen = observe(wave, GRID[::2])
    posterior = Posterior(seen, [], GRID, fit_kernel_shape(seen, []))
    truth = np.array([wave(p) for p in GRID])
    assert posterior.mean[::2] == pytest.approx(truth[::2], abs=0.01)
    assert posterior.mean == pytest.approx(truth, abs=0.03)
    far = Posterior(seen, [], GRID + 20, fit_kernel_shape(seen, []))
    assert far.variance.min() > 10 * posterior.variance.max()


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


def test_a_pool_gives_a_task_its_own_and_the_best_of_others() -> None:
    pool = ResidualPool()
    for number in range(OWN_LIMIT + 5):
        pool.add("a", Observation(features=np.zeros(2), residual=0.0, log_cost=float(-number)))
    pool.add("b", Observation(features=np.zeros(2), residual=1.0, log_cost=9.0))
    pool.add("wide", Observation(features=np.zeros(3), residual=2.0, log_cost=9.0))
    own, others = pool.near("a", 2)
    assert len(own) == OWN_LIMIT
    assert own[0].log_cost == -(OWN_LIMIT + 4)
    assert [o.residual for o in others] == [1.0]
    assert pool.near("new", 3) == ([], pool.tasks["wide"])


def test_the_fitted_length_follows_the_roughness_of_what_was_seen() -> None:
    points = np.linspace(0, 8, 40)[:, None]
    smooth = fit_kernel_shape(observe(lambda p: 0.1 * float(np.sin(0.3 * p[0])), points), [])
    rough = fit_kernel_shape(observe(lambda p: 0.1 * float(np.sin(4 * p[0])), points), [])
    assert smooth.length > rough.length


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
