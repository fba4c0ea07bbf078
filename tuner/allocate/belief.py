# SPDX-License-Identifier: Apache-2.0
"""DynaTune's belief: where a best-so-far curve will be a little later, and how sure that is.

Zhang et al., ICLR 2021, section 4.3. The rate y of a task (1 / cost, divided by its peak) after x
slots of searching is believed to follow

    f(x) = a / (1 + (x / e^b)^c),   c < 0

which rises from 0 and saturates at a. A search that finds another kind of schedule jumps: the
curve is cut where it rises by more than `JUMP` from one trial to the next, and the belief rests on
the last piece. The prior of (a, b, c, ln sigma) is flat inside `LOW` to `HIGH`, zero for falling
curves, and zero for curves that predict less than the last best at the horizon, the moment that is
asked about: a best-so-far curve cannot get there. The posterior under Gaussian noise is sampled by
an affine-invariant ensemble (Goodman and Weare 2010, as in `emcee`), 10 walkers of 500 steps; 200
draws of its second half make the belief.

Not in the public text, chosen here: the bounds of the prior; the start of the walkers (a small
ball around the best of 400 draws from the prior); at most `POINTS` points of a piece; noise in the
expected improvement; and which points count. A best-so-far curve repeats itself: a plateau of a
hundred trials is not a hundred observations that agree, and taken so it is believed to be the end,
with certainty. The evidence is where the curve rises and where a slot ends (`corners`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

JUMP: Final = 0.2
"""Relative rise from one trial to the next at which a curve is cut."""

WALKERS: Final = 10
STEPS: Final = 500
DRAWS: Final = 200
POINTS: Final = 48
STARTS: Final = 400

LOW: Final = np.array([0.0, -6.0, -6.0, math.log(0.005)])
HIGH: Final = np.array([2.0, 6.0, 0.0, 0.0])
"""Support of the prior of (a, b, c, ln sigma): c < 0 is the prior that curves do not fall."""

SPREAD: Final = 0.01
"""Standard deviation of the walkers' start, as a share of the prior's width."""


@dataclass(frozen=True, kw_only=True)
class Belief:
    """The posterior of one curve."""

    chain: Floats  # positions of the walkers, shape (steps, walkers, 4): a, b, c, ln sigma
    draws: Floats  # parameters drawn from its second half, shape (draws, 4)
    acceptance: float  # share of the proposals that were accepted
    start: int  # first point of the piece that the belief rests on
    seconds: float  # wall-clock time of the fit

    def rates(self, x: float | Floats) -> Floats:
        """Believed rates at times, shape (draws, times).

        Args:
            x: positive times, in slots, shape (times,) or one.
        """
        return log_power(self.draws, np.atleast_1d(np.asarray(x, dtype=np.float64)))

    def expected_improvement(self, x: float, now: float) -> float:
        """Share of the cost that should be gone at a time.

        The expected rise of the rate above ``now`` under each draw's normal predictive
        distribution (Jones et al. 1998, equation 15), averaged over the draws, as a saving of cost.
        """
        rise, sigma = self.rates(x)[:, 0] - now, np.exp(self.draws[:, 3])
        z = rise / sigma
        below = np.array([0.5 * math.erfc(-value / math.sqrt(2.0)) for value in z])
        density = np.exp(-0.5 * z**2) / math.sqrt(2.0 * math.pi)
        expected = float(np.mean(rise * below + sigma * density))
        return expected / (now + expected)


def log_power(theta: Floats, x: Floats) -> Floats:
    """The log-power curve: rates, shape (curves, times), of a, b, c a curve at positive times."""
    a, b, c = theta[:, 0:1], theta[:, 1:2], theta[:, 2:3]
    curves: Floats = a / (1.0 + np.exp(np.minimum(c * (np.log(x) - b), 500.0)))
    return curves


def last_piece(rates: Sequence[float] | Floats) -> int:
    """Position at which the last piece of a curve begins: after its last jump.

    Args:
        rates: non-decreasing positive rates, shape (trials,).
    """
    rates = np.asarray(rates, dtype=np.float64)
    jumps = np.flatnonzero(rates[1:] > (1.0 + JUMP) * rates[:-1])
    return int(jumps[-1]) + 1 if len(jumps) else 0


def corners(times: Floats, bests: Floats, ends: Sequence[float]) -> npt.NDArray[np.int64]:
    """Positions of a best-so-far curve that are evidence: its rises, and the ends of slots.

    Args:
        times: ascending, shape (trials,).
        bests: non-increasing costs, shape (trials,).
        ends: times at which slots ended, each of them in ``times`` or before the first.
    """
    rises = np.flatnonzero(np.diff(bests) < 0) + 1
    closed = np.searchsorted(times, np.asarray(ends, dtype=np.float64))
    inside = closed[closed < len(times)]
    return np.unique(np.concatenate(([0, len(times) - 1], rises, inside))).astype(np.int64)


def fit_belief(
    x: Floats,
    y: Floats,
    *,
    seed: Sequence[int],
    horizon: float | None = None,
    walkers: int = WALKERS,
    steps: int = STEPS,
) -> Belief:
    """Sample the posterior of a curve's last piece.

    Args:
        x: times in slots, positive and ascending, shape (points,).
        y: rates, normalised by the peak, non-decreasing, below 2, shape (points,).
        seed: entropy.
        horizon: time at which no curve may lie below the last rate; None: any rising curve may
            be believed.
        walkers: of the ensemble, at least 8.
        steps: of each walker, at least 2.
    """
    import emcee  # noqa: PLC0415  (an extra: loaded when a belief is fitted)

    started = time.perf_counter()
    start = last_piece(y)
    kept = np.unique(np.linspace(start, len(y) - 1, POINTS).round().astype(int))
    rates, last = y[kept], float(y[-1])
    moments = np.append(x[kept], x[-1] if horizon is None else horizon)
    least = -np.inf if horizon is None else last

    def log_posterior(theta: Floats) -> Floats:
        """Shape (walkers, 4) to (walkers,)."""
        curves = log_power(theta, moments)
        fit = -0.5 * ((rates - curves[:, :-1]) ** 2).sum(axis=1) * np.exp(-2.0 * theta[:, 3])
        inside = ((theta > LOW) & (theta < HIGH)).all(axis=1) & (curves[:, -1] >= least)
        density: Floats = np.where(inside, fit - len(rates) * theta[:, 3], -np.inf)
        return density

    entropy = np.random.RandomState(np.random.MT19937(np.random.SeedSequence(list(seed))))
    tries = LOW + (HIGH - LOW) * entropy.random_sample((STARTS, 4))
    # A curve that has saturated above the last rate is in every prior: one start is always legal.
    tries[0] = ((last + HIGH[0]) / 2, LOW[1] / 2, LOW[2] / 2, HIGH[3] / 2 + LOW[3] / 2)
    centre = tries[int(np.argmax(log_posterior(tries)))]
    ball = centre + SPREAD * (HIGH - LOW) * entropy.standard_normal((walkers, 4))
    margin = 1e-3 * (HIGH - LOW)
    ball = np.clip(ball, LOW + margin * (1 + entropy.random_sample((walkers, 4))), HIGH - margin)
    while (outside := np.isneginf(log_posterior(ball))).any():
        # Walkers begin inside the prior, or their draws would not be of the posterior.
        ball[outside] = (ball[outside] + centre) / 2
    sampler = emcee.EnsembleSampler(walkers, 4, log_posterior, vectorize=True)
    sampler.random_state = entropy.get_state()
    sampler.run_mcmc(ball, steps, skip_initial_state_check=True)
    chain: Floats = sampler.get_chain()
    settled = chain[steps // 2 :].reshape(-1, 4)
    draws = settled[np.linspace(0, len(settled) - 1, DRAWS).round().astype(int)]
    return Belief(
        chain=chain,
        draws=draws,
        acceptance=float(np.mean(sampler.acceptance_fraction)),
        start=start,
        seconds=time.perf_counter() - started,
    )
