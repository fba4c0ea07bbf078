# SPDX-License-Identifier: Apache-2.0
"""Statistics of searches: medians and intervals over tasks, paired tests.

What is alike makes a cluster (the runs of a task, the networks of a family) and gives one value. An
interval over clusters holds `CONFIDENCE` also where they are few (`bench.framework.coverage`); a
percentile bootstrap does not: over six it covers 86 %, over ten 90 %, over 24 93 %.

Every function takes plain arrays; what a number means (trials, regret) is the caller's.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

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


def typical(clusters: Sequence[Sequence[float]]) -> Interval:
    """Hodges-Lehmann estimate of the clusters' means, with the interval of the signed-rank test.

    The estimate is the median of the means of all pairs of clusters, also of each with itself. The
    bounds are those values that the exact signed-rank test of Wilcoxon does not refuse (Hollander
    and Wolfe, Nonparametric Statistical Methods, 3.2 and 3.3). With fewer than six clusters no
    interval has `CONFIDENCE`; the widest one is told then.
    """
    means = _values(clusters, lambda values: float(np.mean(values)))
    pairs = np.sort(((means[:, None] + means) / 2)[np.triu_indices(len(means))])
    chances = np.cumsum(_signed_rank_chances(np.arange(1, len(means) + 1)))
    refused = int(np.searchsorted(chances, (1 - CONFIDENCE) / 2, side="right"))
    place = max(refused - 1, 0)
    return Interval(
        value=float(np.median(pairs)), low=float(pairs[place]), high=float(pairs[-1 - place])
    )


def clustered_median(clusters: Sequence[Sequence[float]]) -> Interval:
    """Lower median of the clusters' lower medians, with the exact interval of the sign test.

    The bounds are two of the medians, whatever their distribution is (Conover, Practical
    Nonparametric Statistics, 3.2). With fewer than six clusters no two of them make an interval of
    `CONFIDENCE`; the least and the largest are told then. A run that missed its target may count
    as any value above its budget.
    """
    from scipy import stats  # noqa: PLC0415  (of the extra `search`; loaded when used)

    medians = _values(clusters, _lower_median)
    count = len(medians)
    below = int(stats.binom.ppf((1 - CONFIDENCE) / 2, count, 0.5))
    if stats.binom.cdf(below, count, 0.5) > (1 - CONFIDENCE) / 2:
        below -= 1
    place = max(below, 0)
    return Interval(
        value=float(medians[(count - 1) // 2]),
        low=float(medians[place]),
        high=float(medians[count - 1 - place]),
    )


def typical_ratio(clusters: Sequence[Sequence[float]]) -> Interval:
    """`typical` of positive ratios, on their logarithms."""
    found = typical([np.log(ratios).tolist() for ratios in clusters])
    return Interval(**{name: math.exp(number) for name, number in vars(found).items()})


def ratios_of_medians(
    above: Sequence[Sequence[float]], below: Sequence[Sequence[float]]
) -> list[float]:
    """The ratio of the lower medians of each cluster."""
    if len(above) != len(below):
        raise ValueError("both sides need the same clusters")
    sides = [[_lower_median(cluster) for cluster in _checked(side)] for side in (above, below)]
    return [over / under for over, under in zip(*sides, strict=True)]


def geometric_mean(clusters: Sequence[Sequence[float]]) -> Interval:
    """Geometric mean over clusters of that of each, with Student's t interval of the logarithms.

    A single cluster has no interval: both bounds are its value.
    """
    means = _values(clusters, lambda values: float(np.log(values).mean()))
    middle, reach = float(means.mean()), 0.0
    if len(means) > 1:
        reach = _student(len(means) - 1) * float(means.std(ddof=1)) / math.sqrt(len(means))
    low, high = math.exp(middle - reach), math.exp(middle + reach)
    return Interval(value=math.exp(middle), low=low, high=high)


def mean_ratio(
    values: Iterable[tuple[Hashable, float]], digits: int = 4, *, above_1: bool = False
) -> dict[str, float]:
    """`geometric_mean` of ratios by what they are of, rounded."""
    return geometric_mean(clustered(values)).rounded(digits, above_1=above_1)


def verdicts(
    ratios: Mapping[str, Iterable[tuple[Hashable, float]]], *, less: bool = True
) -> dict[str, str]:
    """Of ratios to a reference by name: signed ranks over clusters, by Holm over the names."""
    sign = 1 if less else -1
    logs = {
        name: [sign * float(np.log(cluster).mean()) for cluster in clustered(values)]
        for name, values in ratios.items()
    }
    return {
        name: f"{found.verdict}, p {found.p_holm:.2g}"
        for name, found in compare_pairs(logs).items()
    }


def _student(freedom: int) -> float:
    """Deviations to either side that hold `CONFIDENCE` of Student's t."""
    from scipy import stats  # noqa: PLC0415  (of the extra `search`; loaded when used)

    return float(stats.t.ppf((1 + CONFIDENCE) / 2, freedom))


def _checked(clusters: Sequence[Sequence[float]]) -> Sequence[Sequence[float]]:
    if not clusters or not all(len(cluster) for cluster in clusters):
        raise ValueError("every cluster needs a value")
    return clusters


def _values(clusters: Sequence[Sequence[float]], of: Callable[[Sequence[float]], float]) -> Floats:
    """One value of each cluster, ascending."""
    return np.sort(np.array([of(cluster) for cluster in _checked(clusters)], dtype=np.float64))


def _lower_median(values: Sequence[float]) -> float:
    return float(np.sort(values)[(len(values) - 1) // 2])


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
    """A paired test: the first side has the lower value in ``wins`` of the pairs."""

    pairs: int  # compared
    wins: int
    losses: int
    p: float  # of the signed-rank test
    p_holm: float  # corrected for all comparisons of the family
    verdict: str  # ``better`` (the first is lower), ``worse`` or ``tie``


def compare_pairs(differences: Mapping[str, Sequence[float]]) -> dict[str, Comparison]:
    """Compare paired values by their differences, lower is better; one family of tests.

    Two-sided Wilcoxon signed-rank tests with Pratt's treatment of equal values, p values corrected
    by Holm's step-down procedure. What is not significant at `SIGNIFICANCE` is a tie.
    """
    arrays = {name: _differences(name, values) for name, values in differences.items()}
    raw = {name: _wilcoxon(difference) for name, difference in arrays.items()}
    corrected = holm(raw)
    found = {}
    for name, difference in arrays.items():
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


_DIGITS: Final = 12
"""Of a difference: logarithms of equal ratios differ in their last bits, and would rank apart."""


def _differences(name: str, values: Sequence[float]) -> Floats:
    found = np.asarray(values, np.float64)
    if not np.isfinite(found).all():
        raise ValueError(f"differences must be finite numbers: {name}")
    return found.round(_DIGITS) + 0.0


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """P values corrected by Holm's step-down procedure (Scand. J. Statist. 1979)."""
    corrected: dict[str, float] = {}
    highest = 0.0
    for place, name in enumerate(sorted(p_values, key=p_values.__getitem__)):
        highest = max(highest, min(1.0, (len(p_values) - place) * p_values[name]))
        corrected[name] = highest
    return {name: corrected[name] for name in p_values}


_EXACT_PAIRS: Final = 50
"""Up to so many pairs every assignment of signs is counted."""


def _wilcoxon(difference: Floats) -> float:
    """P value of the signed-rank test; of few pairs from all assignments of signs."""
    from scipy import stats  # noqa: PLC0415  (of the extra `search`; loaded when used)

    if not difference.any():
        return 1.0
    if len(difference) > _EXACT_PAIRS:
        return float(stats.wilcoxon(difference, zero_method="pratt").pvalue)
    # Tied ranks are averages, so twice a rank is whole.
    ranks = np.rint(2 * stats.rankdata(np.abs(difference))).astype(np.int64)
    ranks, signs = ranks[difference != 0], difference[difference != 0] > 0
    positive = int(ranks[signs].sum())
    tail = min(positive, int(ranks.sum()) - positive)
    return min(1.0, 2 * float(_signed_rank_chances(ranks)[: tail + 1].sum()))


def _signed_rank_chances(ranks: npt.NDArray[np.int64]) -> Floats:
    """Chance of each sum of the positive ranks when every sign is a toss; from a sum of 0 on."""
    chances = np.ones(1)
    for rank in ranks:
        wider = np.zeros(len(chances) + rank)
        wider[: len(chances)] += chances / 2
        wider[rank:] += chances / 2
        chances = wider
    return chances


def _signed_rank_sum(difference: Floats) -> float:
    from scipy import stats  # noqa: PLC0415  (of the extra `search`; loaded when used)

    return float((np.sign(difference) * stats.rankdata(np.abs(difference))).sum())


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
