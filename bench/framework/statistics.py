# SPDX-License-Identifier: Apache-2.0
"""Statistics of searches: censored medians, intervals clustered by task, paired tests.

Every function takes plain arrays; what a number means (trials, regret) is the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

RESAMPLES: Final = 2000
CONFIDENCE: Final = 0.95
SIGNIFICANCE: Final = 0.05


@dataclass(frozen=True, kw_only=True)
class Interval:
    """An estimate with the bounds of its confidence interval (`CONFIDENCE`)."""

    value: float
    low: float
    high: float

    def rounded(self, digits: int = 4, *, above_1: bool = False) -> dict[str, float]:
        """Value and bounds; ``above_1``: of a ratio, per cent above 1."""
        return {
            name: round((number - 1) * 100 if above_1 else number, digits)
            for name, number in vars(self).items()
        }


def clustered(values: Iterable[tuple[Hashable, float]]) -> list[list[float]]:
    """Values by what they are of: those of one cluster are alike."""
    found: dict[Hashable, list[float]] = {}
    for of, value in values:
        found.setdefault(of, []).append(value)
    return list(found.values())


def kaplan_meier_median(times: Sequence[float], reached: Sequence[bool]) -> float | None:
    """Median time to an event when some runs ended without it, which ``reached`` tells.

    The product-limit estimator of Kaplan and Meier (JASA 1958): the smallest time at which the
    estimated share of runs still without the event is at most one half. None when more than half of
    the runs are estimated to last longer than any was followed.
    """
    from scipy import stats  # noqa: PLC0415  (of the extra `search`; loaded when used)

    if not times or len(times) != len(reached):
        raise ValueError("times and reached must be of one length, at least 1")
    if not any(reached):
        return None
    at, event = np.asarray(times, dtype=np.float64), np.asarray(reached, dtype=bool)
    surviving = stats.ecdf(stats.CensoredData(uncensored=at[event], right=at[~event])).sf
    half = np.flatnonzero(surviving.probabilities <= 0.5 + 1e-12)
    return float(surviving.quantiles[half[0]]) if half.size else None


def interquartile_mean(values: Sequence[float] | Floats) -> float:
    """Mean of the middle half (the 25 % trimmed mean).

    A quarter of the values is cut off at each end, values on the cut in part, so that the result
    is continuous in the number of values.
    """
    return float(_trimmed(np.asarray(values, dtype=np.float64)[None, :])[0])


def clustered_mean(
    clusters: Sequence[Sequence[float]], *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Interquartile mean of all values, with a percentile bootstrap over the clusters.

    Runs of one task are alike: resampling runs would call the tasks that happen to be here the
    world. Whole tasks are drawn with replacement, each with all its runs.
    """
    values, weights = _resampled(clusters, seed, resamples)
    return _interval(interquartile_mean(values), _trimmed(values[None, :], weights))


def clustered_median(
    clusters: Sequence[Sequence[float]], *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Lower median of all values, with a percentile bootstrap over the clusters.

    With runs that are all followed to one budget this is the estimate of Kaplan and Meier, a run
    that missed counting as any value above the budget. Arguments and errors: `clustered_mean`.
    """
    values, weights = _resampled(clusters, seed, resamples)
    whole = _medians(values, np.ones((1, len(values))))
    return _interval(float(whole[0]), _medians(values, weights))


def clustered_ratio(
    above: Sequence[Sequence[float]],
    below: Sequence[Sequence[float]],
    *,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """Ratio of two lower medians over the same clusters, with a bootstrap over the clusters."""
    if len(above) != len(below):
        raise ValueError("both sides need the same clusters")
    sides = [_resampled(side, seed, resamples) for side in (above, below)]
    (over, under), (drawn_over, drawn_under) = (
        [_medians(values, np.ones((1, len(values))))[0] for values, _ in sides],
        [_medians(values, weights) for values, weights in sides],
    )
    return _interval(float(over / under), drawn_over / drawn_under)


def _resampled(
    clusters: Sequence[Sequence[float]], seed: int, resamples: int
) -> tuple[Floats, Floats]:
    """All values in ascending order, and how often each is drawn: shape (resamples, values).

    Equal seeds draw equal clusters, so that a ratio compares both sides on the same tasks.
    """
    if not clusters or not all(len(cluster) for cluster in clusters):
        raise ValueError("every cluster needs a value")
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(len(clusters), [1 / len(clusters)] * len(clusters), size=resamples)
    values = np.concatenate([np.asarray(c, dtype=np.float64) for c in clusters])
    owners = np.repeat(np.arange(len(clusters)), [len(c) for c in clusters])
    order = np.argsort(values, kind="stable")
    return values[order], drawn[:, owners[order]].astype(np.float64)


def _medians(ordered: Floats, weights: Floats) -> Floats:
    """The lower median of ascending values under each row of weights."""
    share = np.cumsum(weights, axis=1) / weights.sum(axis=1, keepdims=True)
    found: Floats = ordered[(share >= 0.5 - 1e-12).argmax(axis=1)]
    return found


def _interval(value: float, drawn: Floats) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(drawn, (tail, 1 - tail))
    return Interval(value=value, low=float(low), high=float(high))


def geometric_mean(clusters: Sequence[Sequence[float]], *, seed: int = 0) -> Interval:
    """Geometric mean over clusters of that of each, with a bootstrap over the clusters."""
    if not clusters or not all(len(values) for values in clusters):
        raise ValueError("must be clusters with values")
    means = np.array([np.log(values).mean() for values in clusters])
    drawn = np.random.default_rng(seed).integers(len(means), size=(RESAMPLES, len(means)))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means[drawn].mean(axis=1), [tail, 1 - tail])
    return Interval(
        value=float(np.exp(means.mean())), low=float(np.exp(low)), high=float(np.exp(high))
    )


LEAST_PAIRS: Final = 3
"""Pairs: of fewer an order says nothing."""


def rank_correlation(first: npt.ArrayLike, second: npt.ArrayLike, digits: int = 4) -> float | None:
    """Spearman's coefficient, ties averaged; None where it has no value.

    It has none for fewer than `LEAST_PAIRS` pairs, and where one side is the same throughout.
    """
    from scipy.stats import rankdata  # noqa: PLC0415  (slow to import)

    ranks = [rankdata(side) for side in (first, second)]
    if len(ranks[0]) < LEAST_PAIRS or any(np.ptp(side) == 0 for side in ranks):
        return None
    return round(float(np.corrcoef(*ranks)[0, 1]), digits)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A paired test of two tuners: the first has the lower value in ``wins`` of the pairs."""

    pairs: int  # compared
    wins: int
    losses: int
    p: float  # of the signed-rank test
    p_holm: float  # corrected for all comparisons of the family
    verdict: str  # ``better`` (the first is lower), ``worse`` or ``tie``


def compare_pairs(
    pairs: Mapping[str, tuple[Sequence[float], Sequence[float]]],
) -> dict[str, Comparison]:
    """Compare paired values, lower is better; one family of tests.

    Two-sided Wilcoxon signed-rank tests with Pratt's treatment of equal values, p values corrected
    by Holm's step-down procedure. What is not significant at `SIGNIFICANCE` is a tie.
    """
    differences = {name: _difference(first, second) for name, (first, second) in pairs.items()}
    raw = {name: _wilcoxon(difference) for name, difference in differences.items()}
    corrected = holm(raw)
    found = {}
    for name, difference in differences.items():
        # The direction of the test's own statistic: the sum of the signed ranks.
        lean = _signed_rank_sum(difference)
        significant = corrected[name] <= SIGNIFICANCE and lean != 0
        found[name] = Comparison(
            pairs=len(difference),
            wins=int((difference < 0).sum()),
            losses=int((difference > 0).sum()),
            p=raw[name],
            p_holm=corrected[name],
            verdict=("better" if lean < 0 else "worse") if significant else "tie",
        )
    return found


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """P values corrected by Holm's step-down procedure (Scand. J. Statist. 1979)."""
    corrected: dict[str, float] = {}
    highest = 0.0
    for place, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[name]))
        corrected[name] = highest
    return {name: corrected[name] for name in p_values}


def _difference(first: Sequence[float], second: Sequence[float]) -> Floats:
    if len(first) != len(second):
        raise ValueError("paired values must be of one length")
    return np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)


def _wilcoxon(difference: Floats) -> float:
    from scipy import stats  # noqa: PLC0415  (of the extra `search`; loaded when used)

    if not difference.any():
        return 1.0
    return float(stats.wilcoxon(difference, zero_method="pratt").pvalue)


def _signed_rank_sum(difference: Floats) -> float:
    from scipy import stats  # noqa: PLC0415  (of the extra `search`; loaded when used)

    return float((np.sign(difference) * stats.rankdata(np.abs(difference))).sum())


def _trimmed(rows: Floats, weights: Floats | None = None) -> Floats:
    """The 25 % trimmed mean of each row, or of one ascending row under each row of weights."""
    if rows.shape[1] == 0:
        raise ValueError("at least one value is needed")
    ordered = np.sort(rows, axis=1)
    mass = np.ones_like(ordered) if weights is None else weights
    ends = np.cumsum(mass, axis=1) / mass.sum(axis=1, keepdims=True)
    starts = ends - mass / mass.sum(axis=1, keepdims=True)
    kept = np.clip(np.minimum(ends, 0.75) - np.maximum(starts, 0.25), 0, None)
    mean: Floats = (ordered * kept).sum(axis=1) / kept.sum(axis=1)
    return mean


_DEVIATIONS: Final = 1.96
"""Of a normal distribution, to either side of its mean: 95 %."""


@dataclass(frozen=True, kw_only=True)
class Loss:
    """Percent points of accuracy that are lost (negative: won), and their interval of 95 %."""

    points: float  # of the sample
    lowest: float
    highest: float


def loss(before: Floats, after: Floats) -> Loss:
    """What is lost between two forms of a network that answered the same inputs.

    Both answer alike nearly everywhere, so the interval comes from the difference on each input.
    One more input that loses a point and one that wins one count in it (Bonett and Price, Adjusted
    Wald Confidence Interval for a Difference of Binomial Proportions Based on Paired Data, 2012):
    without them it would be empty where no answer differs.
    """
    lost = (before[:, 0] - after[:, 0]).astype(np.float64)
    sizes = before[:, 1].astype(np.float64)
    more = np.append(lost, [1.0, -1.0])
    wide = np.append(sizes, [sizes.mean()] * 2)
    share = more.sum() / wide.sum()
    reach = _DEVIATIONS * math.sqrt(np.square(more - share * wide).sum()) / wide.sum()
    return Loss(
        points=float(100 * lost.sum() / sizes.sum()),
        lowest=float(100 * (share - reach)),
        highest=float(100 * (share + reach)),
    )
