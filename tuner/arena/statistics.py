# SPDX-License-Identifier: Apache-2.0
"""Statistics of searches: censored medians, robust means with intervals, paired tests.

Every function takes plain arrays; what a number means (trials, regret) is the caller's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
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


def kaplan_meier_median(times: Sequence[float], reached: Sequence[bool]) -> float | None:
    """Median time to an event when some runs ended without it.

    The product-limit estimator of Kaplan and Meier (JASA 1958): the smallest time at which the
    estimated share of runs still without the event is at most one half.

    Args:
        times: of the event, or of the end of a run that never had it.
        reached: whether the time is an event's.

    Returns:
        The median, or None when more than half of the runs are estimated to last longer than any
        was followed.

    Raises:
        ValueError: no runs, or arguments of different length.
    """
    if not times or len(times) != len(reached):
        raise ValueError("times and reached must be of one length, at least 1")
    at = np.asarray(times, dtype=np.float64)
    event = np.asarray(reached, dtype=bool)
    surviving = 1.0
    for moment in np.unique(at[event]):
        at_risk = int((at >= moment).sum())
        surviving *= 1 - int((event & (at == moment)).sum()) / at_risk
        if surviving <= 0.5 + 1e-12:
            return float(moment)
    return None


def interquartile_mean(values: Sequence[float] | Floats) -> float:
    """Mean of the middle half (the 25 % trimmed mean).

    A quarter of the values is cut off at each end, values on the cut in part, so that the result
    is continuous in the number of values.

    Raises:
        ValueError: no values.
    """
    return float(_trimmed(np.asarray(values, dtype=np.float64)[None, :])[0])


def stratified_interval(
    strata: Sequence[Sequence[float]], *, seed: int = 0, resamples: int = RESAMPLES
) -> Interval:
    """Interquartile mean over all strata, with a percentile bootstrap inside each stratum.

    Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical Precipice",
    NeurIPS 2021, section 4: runs are resampled with replacement within each task.

    Args:
        strata: the values of each task.
        seed: of the bootstrap.
        resamples: of the bootstrap.

    Raises:
        ValueError: a stratum without values.
    """
    if not strata or not all(len(stratum) for stratum in strata):
        raise ValueError("every stratum needs a value")
    rng = np.random.default_rng(seed)
    parts = [np.asarray(stratum, dtype=np.float64) for stratum in strata]
    drawn = [part[rng.integers(len(part), size=(resamples, len(part)))] for part in parts]
    means = _trimmed(np.concatenate(drawn, axis=1))
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    value = interquartile_mean(np.concatenate(parts))
    return Interval(value=value, low=float(low), high=float(high))


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A paired test of two tuners.

    Attributes:
        pairs: compared.
        wins, losses: pairs in which the first has the lower value, or the second.
        p: of the signed-rank test.
        p_holm: corrected for all comparisons of the family.
        verdict: ``better`` (the first is lower), ``worse`` or ``tie``.
    """

    pairs: int
    wins: int
    losses: int
    p: float
    p_holm: float
    verdict: str


def compare_pairs(
    pairs: Mapping[str, tuple[Sequence[float], Sequence[float]]],
) -> dict[str, Comparison]:
    """Compare paired values, lower is better; one family of tests.

    Two-sided Wilcoxon signed-rank tests with Pratt's treatment of equal values, p values corrected
    by Holm's step-down procedure. What is not significant at `SIGNIFICANCE` is a tie.

    Args:
        pairs: name of a comparison to the values of the first and of the second.

    Raises:
        ValueError: values of different length.
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


def _trimmed(rows: Floats) -> Floats:
    """The 25 % trimmed mean of each row."""
    if rows.shape[1] == 0:
        raise ValueError("at least one value is needed")
    ordered = np.sort(rows, axis=1)
    places = np.arange(rows.shape[1] + 1) / rows.shape[1]
    weights = np.clip(np.minimum(places[1:], 0.75) - np.maximum(places[:-1], 0.25), 0, None)
    mean: Floats = (ordered * weights).sum(axis=1) / weights.sum()
    return mean
